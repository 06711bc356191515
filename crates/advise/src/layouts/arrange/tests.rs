//! What arrangements take, and the commands that make them.

use super::commands::{self, Target};
use super::*;
use crate::layouts::schema;

fn places(replicas: &[(&str, u32)]) -> Vec<Place> {
    let place = |(name, replicas): &(&str, u32)| Place {
        name: (!name.is_empty()).then(|| (*name).to_owned()),
        replicas: *replicas,
    };
    replicas.iter().map(place).collect()
}

fn held(columns: &[usize], places: &[bool]) -> Held {
    Held {
        layout: Layout::new(columns).expect("a permutation"),
        places: places.to_vec(),
    }
}

fn arrangement(kind: Kind, held: Vec<Held>) -> Arrangement {
    Arrangement {
        kind,
        held,
        cost_us: 1.0,
        cost_by_place_us: Vec::new(),
        lower_bound_us: None,
    }
}

#[test]
fn copies_are_counted_by_data_center() {
    let two = &[("dc1", 3), ("dc2", 3)][..];
    let (a, b, c) = (&[1, 0, 2][..], &[2, 0, 1][..], &[2, 1, 0][..]);
    let (both, first) = (&[true, true][..], &[true, false][..]);
    let beside = |layouts: &[&[usize]]| layouts.iter().map(|l| held(l, both)).collect();
    let third = [("dc1", 1), ("dc2", 3)];
    for (table, kind, held, at, copies, then) in [
        (two, Kind::Alone, vec![], [0, 0], 6, None),
        (two, Kind::Beside, beside(&[a]), [3, 3], 12, Some([1, 1])),
        (two, Kind::Beside, beside(&[a, b]), [6, 6], 18, Some([1, 1])),
        (two, Kind::Beside, beside(&[a, b, c]), [9, 9], 24, None),
        (
            two,
            Kind::Derived,
            vec![held(a, both)],
            [1, 1],
            8,
            Some([2, 2]),
        ),
        (
            two,
            Kind::Derived,
            vec![held(a, first)],
            [1, 0],
            7,
            Some([2, 3]),
        ),
        (
            two,
            Kind::Derived,
            vec![held(a, first), held(b, both)],
            [2, 1],
            9,
            Some([1, 2]),
        ),
        (&third, Kind::Derived, vec![held(a, first)], [1, 0], 5, None),
    ] {
        let (table, of) = (places(table), arrangement(kind, held));
        assert_eq!(of.layouts_at(&table), at, "{of:?}");
        assert_eq!(of.copies(&table), copies, "{of:?}");
        let then = then.map(|then| then.to_vec());
        assert_eq!(of.table_then(&table), then, "{of:?}");
        if let Some(then) = then {
            // No place has more than the table alone had.
            let table_then: Vec<Place> = table
                .iter()
                .zip(then)
                .map(|(place, replicas)| Place {
                    replicas,
                    ..place.clone()
                })
                .collect();
            let layouts = of.layouts_at(&table_then);
            let sums = table_then
                .iter()
                .zip(layouts)
                .map(|(place, more)| place.replicas + more);
            assert!(
                sums.zip(&table).all(|(sum, now)| sum <= now.replicas),
                "{of:?}"
            );
        }
    }
    let served = arrangement(Kind::Derived, vec![held(a, first)]).serves(2);
    assert_eq!(served, first);
}

#[test]
fn a_command_is_as_a_shell_and_the_other_commands_read_it() {
    let schema = "CREATE TABLE Shop.orders (p int, day int, \"Id\" int, c int, PRIMARY KEY (p, day, \"Id\", c))";
    let schema = schema::parse(schema).expect("a table");
    let shop = helenus_cql::Name::from_stored("shop");
    let access = ["--contact", "10.0.0.1:9042"].map(str::to_owned);
    let commands = |table: &[(&str, u32)], source, kind, held: Vec<Held>| {
        let names = ["A", "b"].map(str::to_owned).into_iter();
        let layouts = held.iter().map(|held| held.layout.clone());
        let arranged = Arranged {
            table: places(table),
            source,
            layouts: names.zip(layouts).collect(),
            all: Vec::new(),
        };
        let target = Target {
            keyspace: Some(&shop),
            schema: &schema,
            access: &access,
        };
        commands::of(&arranged, &arrangement(kind, held), &target)
    };
    let create = "helenus layouts create shop.orders --contact 10.0.0.1:9042";
    let (a, b) = (&[2, 0, 1][..], &[1, 0, 2][..]);
    let (in_a, in_b) = (
        "--layout \"a=c,day,\\\"Id\\\"\"",
        "--layout \"b=\\\"Id\\\",day,c\"",
    );
    let (both, first, second) = ([true, true], [true, false], [false, true]);
    let two = [("dc1", 3), ("Europe 2", 3)];
    let option = Source::Option;
    let none = commands(&two, option, Kind::Alone, Vec::new());
    assert_eq!(none, [""; 0]);
    let beside = vec![held(a, &both), held(b, &both)];
    assert_eq!(
        commands(&two, option, Kind::Beside, beside.clone()),
        [format!("{create} {in_a} {in_b}")]
    );
    let network =
        "--replication \"{'class': 'NetworkTopologyStrategy', 'Europe 2': '1', 'dc1': '1'}\"";
    assert_eq!(
        commands(&two, option, Kind::Derived, beside),
        [format!("{create} {in_a} {in_b} {network}")]
    );
    let near = "--replication \"{'class': 'NetworkTopologyStrategy', 'dc1': '1'}\"";
    let far = "--replication \"{'class': 'NetworkTopologyStrategy', 'Europe 2': '1'}\"";
    assert_eq!(
        commands(
            &two,
            option,
            Kind::Derived,
            vec![held(a, &first), held(b, &second)]
        ),
        [
            format!("{create} {in_a} {near} --keyspace shop__layouts_dc1"),
            format!("{create} {in_b} {far} --keyspace shop__layouts_europe_2"),
        ]
    );
    // What would be longer than a keyspace's name may be has a number, and so has what is there already.
    let long = "x".repeat(40);
    for (names, ends) in [([&*long, "b"], ["1", "b"]), (["a.b", "a-b"], ["a_b", "2"])] {
        let table = names.map(|name| (name, 1));
        let held = vec![held(a, &first), held(b, &second)];
        let made = commands(&table, option, Kind::Derived, held);
        for (made, end) in made.iter().zip(ends) {
            assert!(
                made.ends_with(&format!("--keyspace shop__layouts_{end}")),
                "{made}"
            );
        }
    }
    let one = || vec![held(a, &[true])];
    let simple = "--replication \"{'class': 'SimpleStrategy', 'replication_factor': '1'}\"";
    assert_eq!(
        commands(&[("", 3)], option, Kind::Derived, one()),
        [format!("{create} {in_a} {simple}")]
    );
    let unknown = "--replication \"{'class': 'NetworkTopologyStrategy', 'DATA_CENTER': '1'}\"";
    assert_eq!(
        commands(&[("", 3)], Source::Assumed, Kind::Derived, one()),
        [format!("{create} {in_a} {unknown}")]
    );
}
