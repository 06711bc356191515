//! Reads of several partitions, of copies on six nodes: the first three hold the copies of the lower half of the
//! ring, the others those of the upper half.

use helenus_policy::token::murmur3_token;
use helenus_wire::{QueryView, RowsView, ValueRef};

pub(super) use super::read::COLUMNS;
use super::*;
use crate::testing::bench::{BIGINT, Spec, rows_of};

const NODES: usize = 2 * COPIES;
/// Where the upper half ends: what is behind it belongs to the first nodes again.
pub(super) const UPPER: i64 = 1 << 62;
/// The ends of what each group of owners holds, in the order of the ring.
pub(super) const ENDS: [i64; 7] = [0, 1, 2, UPPER, UPPER + 1, UPPER + 2, i64::MAX];
/// The node of the first copy, which alone has the table's order, in each of these.
const FIRSTS: [usize; 7] = [0, 3, 3, 3, 0, 0, 0];
pub(super) const SCAN: &str = "SELECT day, total FROM app.orders";
pub(super) const BY_KEYS: &str = "SELECT day, total FROM app.orders WHERE customer IN ?";
pub(super) const COUNT: &str = "SELECT count(*) FROM app.orders";
const COUNTED: [Spec; 1] = [("count", BIGINT)];

pub(super) fn scene() -> Scene {
    scene_of((Version::V4, Version::V5))
}

fn scene_of(versions: (Version, Version)) -> Scene {
    scene_with(Config::default(), versions)
}

pub(super) fn scene_with(config: Config, versions: (Version, Version)) -> Scene {
    let mut scene = Scene::of_nodes(NODES as u8, config, versions);
    let tokens = [0, 1, 2, UPPER, UPPER + 1, UPPER + 2];
    let spec = |(node, token): (usize, i64)| NodeSpec {
        dc: format!("dc{}", node % COPIES),
        rack: String::new(),
        tokens: vec![Token::Murmur3(token)],
    };
    let specs: Vec<NodeSpec> = tokens.into_iter().enumerate().map(spec).collect();
    let ring = Ring::new(Partitioner::Murmur3, &specs);
    let known = scene.bench.common.snapshot.load();
    let mut snapshot = Snapshot::clone(&known);
    snapshot.epoch += 1;
    for copy in 0..COPIES {
        let one = [(format!("dc{copy}"), 1)].into_iter().collect();
        let owners = ring.replica_sets(&Replication::NetworkTopology(one));
        let keyspace = format!("app__{copy}");
        snapshot.keyspaces.insert(keyspace, Arc::new(owners));
    }
    snapshot.ring = Some(ring);
    scene.bench.common.store(snapshot);
    let of = |nodes: [u16; COPIES]| nodes.map(NodeIndex).into();
    let groups = [
        [0, 1, 2],
        [3, 1, 2],
        [3, 4, 2],
        [3, 4, 5],
        [0, 4, 5],
        [0, 1, 5],
    ];
    scene.groups = groups.map(of).to_vec();
    scene.read();
    scene
}

/// What one node has been asked.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Part {
    pub node: usize,
    pub stream: i16,
    pub text: String,
    pub values: Vec<Vec<u8>>,
    pub page_size: Option<i32>,
    pub state: Option<Vec<u8>>,
}

pub(super) fn part(scene: &mut Scene) -> Part {
    let nodes = 0..scene.bench.nodes();
    let nodes = nodes.map(|node| (node, scene.bench.at(node)));
    let asked: Vec<_> = nodes
        .flat_map(|(node, asked)| asked.into_iter().map(move |of| (node, of)))
        .collect();
    let [(node, (opcode, stream, body))] = asked.as_slice() else {
        panic!("{asked:?}, answered {:?}", scene.bench.answers());
    };
    assert_eq!(*opcode, Opcode::Query);
    let view = QueryView::parse(body, scene.bench.versions.1).expect("a QUERY");
    assert_eq!(view.options.consistency, Consistency::ONE);
    let bytes = |value: ValueRef<'_>| match value {
        ValueRef::Set(bytes) => bytes.to_vec(),
        other => panic!("{other:?}"),
    };
    let values = view.options.values.iter();
    Part {
        node: *node,
        stream: *stream,
        text: view.text.to_owned(),
        values: values.map(|(_, value)| bytes(value)).collect(),
        page_size: view.options.page_size,
        state: view.options.paging_state.map(<[u8]>::to_vec),
    }
}

pub(super) fn give(scene: &mut Scene, part: &Part, page: &[u8]) {
    scene
        .bench
        .say_as(part.node, Opcode::Result, part.stream, page);
    scene.carry_out();
}

/// A page of the copy that a node holds: rows of these numbers.
pub(super) fn page(part: &Part, state: Option<&[u8]>, numbers: &[i64]) -> Vec<u8> {
    let cells: Vec<[u8; 8]> = numbers
        .iter()
        .flat_map(|n| [*n, *n])
        .map(i64::to_be_bytes)
        .collect();
    let cells: Vec<&[u8]> = cells.iter().map(|cell| &cell[..]).collect();
    let keyspace = format!("app__{}", part.node % COPIES);
    let mut page = rows_of((&keyspace, TABLE), &COLUMNS, state, &cells);
    if numbers.is_empty() {
        let count = page.len() - 4;
        page[count..].fill(0);
    }
    page
}

/// The client gets rows of these numbers; the paging state.
pub(super) fn gets(scene: &mut Scene, numbers: &[i64]) -> Option<Vec<u8>> {
    let (opcode, body) = scene.bench.answer();
    assert_eq!(
        opcode,
        Opcode::Result,
        "{:?}",
        helenus_wire::ErrorBody::parse(&body)
    );
    let view = RowsView::parse(&body).expect("rows");
    assert_eq!(
        (view.columns[0].keyspace, view.columns[0].table),
        ("app", TABLE)
    );
    let cell = |row: Vec<Option<&[u8]>>| i64::from_be_bytes(row[0].unwrap().try_into().unwrap());
    let got: Vec<i64> = view.rows().map(|row| cell(row.expect("a row"))).collect();
    assert_eq!(got, numbers);
    let state = view.paging_state.map(<[u8]>::to_vec);
    scene.is_done();
    state
}

pub(super) fn asks<'a>(
    values: &'a [&'a [u8]],
    page_size: Option<i32>,
    state: Option<&'a [u8]>,
) -> Asking<'a> {
    Asking {
        values,
        page_size,
        state,
        ..Asking::default()
    }
}

pub(super) fn tokens(part: &Part) -> (i64, i64) {
    let token = |value: &[u8]| i64::from_be_bytes(value.try_into().expect("a token"));
    (token(&part.values[0]), token(&part.values[1]))
}

/// A node's own state of a stretch, behind a row of this partition.
pub(super) fn behind_row(key: i64) -> Vec<u8> {
    helenus_wire::PageStart::behind_partition(&key.to_be_bytes(), 100).write()
}

/// A partition whose token is in this stretch.
pub(super) fn key_in(above: i64, up_to: i64) -> i64 {
    let is_in = |key: &i64| (above + 1..=up_to).contains(&murmur3_token(&key.to_be_bytes()));
    (1..).find(is_in).expect("one")
}

pub(super) fn list_of(keys: &[i64]) -> Vec<u8> {
    let mut list = Vec::new();
    write::i32(&mut list, keys.len() as i32);
    for key in keys {
        write::bytes(&mut list, Some(&key.to_be_bytes()));
    }
    list
}

#[test]
fn a_scan_asks_one_stretch_after_the_other_of_the_copy_with_the_tables_order() {
    for versions in [
        (Version::V3, Version::V4),
        (Version::V4, Version::V5),
        (Version::V5, Version::V5),
    ] {
        let mut scene = scene_of(versions);
        scene.ask(SCAN, &asks(&[], Some(100), None));
        let mut above = i64::MIN;
        for (at, end) in ENDS.into_iter().enumerate() {
            let asked = part(&mut scene);
            assert_eq!(asked.node, FIRSTS[at]);
            assert_eq!(
                asked.text,
                "SELECT day, total FROM app__0.orders WHERE token(customer) > ? AND token(customer) <= ?"
            );
            assert_eq!(tokens(&asked), (above, end));
            assert_eq!(asked.page_size, Some(100 - at as i32));
            scene.is_unanswered();
            give(&mut scene, &asked, &page(&asked, None, &[at as i64]));
            above = end;
        }
        assert_eq!(gets(&mut scene, &[0, 1, 2, 3, 4, 5, 6]), None);
    }
}

#[test]
fn a_page_ends_where_it_is_full_and_goes_on_there_on_any_proxy() {
    let mut one = scene();
    one.ask(SCAN, &asks(&[], Some(3), None));
    let asked = part(&mut one);
    give(&mut one, &asked, &page(&asked, None, &[1, 2]));
    let asked = part(&mut one);
    assert_eq!(asked.page_size, Some(1));
    give(&mut one, &asked, &page(&asked, None, &[3]));
    let state = gets(&mut one, &[1, 2, 3]).expect("more");
    // Another one goes on behind the second stretch.
    let mut other = scene();
    other.ask(SCAN, &asks(&[], Some(2), Some(&state)));
    let asked = part(&mut other);
    assert_eq!((tokens(&asked), asked.state.as_deref()), ((1, 2), None));
    give(&mut other, &asked, &page(&asked, None, &[]));
    let asked = part(&mut other);
    assert_eq!(tokens(&asked), (2, UPPER));
    // This one is read to the middle only.
    let key = key_in(2, UPPER);
    let token = murmur3_token(&key.to_be_bytes());
    let inner = behind_row(key);
    give(&mut other, &asked, &page(&asked, Some(&inner), &[4, 5]));
    let state = gets(&mut other, &[4, 5]).expect("more");
    one.ask(SCAN, &asks(&[], Some(2), Some(&state)));
    let asked = part(&mut one);
    assert_eq!((asked.node, tokens(&asked)), (3, (token - 1, UPPER)));
    assert_eq!(asked.state.as_ref(), Some(&inner));
    // Within one page, too.
    give(&mut one, &asked, &page(&asked, Some(&inner), &[6]));
    let asked = part(&mut one);
    assert_eq!(
        (asked.page_size, asked.state.as_ref()),
        (Some(1), Some(&inner))
    );
    give(&mut one, &asked, &page(&asked, None, &[7]));
    assert!(gets(&mut one, &[6, 7]).is_some());
}

#[test]
fn bounds_on_token_are_cut_and_what_is_within_one_stretch_goes_as_it_came() {
    let text =
        "SELECT day, total FROM app.orders WHERE token(customer) > ? AND token(customer) <= ?";
    let of = |token: i64| token.to_be_bytes();
    let mut scene = scene();
    scene.ask(text, &asks(&[&of(-5), &of(UPPER - 9)], Some(100), None));
    for (above, up_to) in [(-5, 0), (0, 1), (1, 2), (2, UPPER - 9)] {
        let asked = part(&mut scene);
        assert_eq!(tokens(&asked), (above, up_to));
        give(&mut scene, &asked, &page(&asked, None, &[]));
    }
    gets(&mut scene, &[]);
    // Within one stretch, and where there is nothing, a node says it all.
    for (above, up_to, node) in [
        (5, 77, 3),
        (-9, 0, 0),
        (UPPER + 2, i64::MAX, 0),
        (7, 7, 0),
        (9, -9, 0),
    ] {
        scene.ask(text, &asks(&[&of(above), &of(up_to)], Some(100), None));
        let asked = part(&mut scene);
        assert_eq!((asked.node, tokens(&asked)), (node, (above, up_to)));
        assert_eq!(asked.text, on_copy(text, 0));
        give(&mut scene, &asked, &page(&asked, Some(b"inner"), &[1]));
        let state = gets(&mut scene, &[1]).expect("more");
        scene.ask(
            text,
            &asks(&[&of(above), &of(up_to)], Some(100), Some(&state)),
        );
        let asked = part(&mut scene);
        assert_eq!(asked.state.as_deref(), Some(&b"inner"[..]));
        give(&mut scene, &asked, &page(&asked, None, &[2]));
        assert_eq!(gets(&mut scene, &[2]), None);
    }
    for (text, expected) in [
        (
            "SELECT day, total FROM app.orders WHERE token(customer) >= -4 AND token(customer) < 1",
            vec![(-5, 0)],
        ),
        (
            "SELECT day, total FROM app.orders WHERE token(customer) < 2",
            vec![(i64::MIN, 0), (0, 1)],
        ),
        // The least token is no bound.
        (
            "SELECT day, total FROM app.orders WHERE token(customer) > 4611686018427387904 AND token(customer) <= \
             -9223372036854775808",
            vec![
                (UPPER, UPPER + 1),
                (UPPER + 1, UPPER + 2),
                (UPPER + 2, i64::MAX),
            ],
        ),
    ] {
        scene.ask(text, &asks(&[], Some(100), None));
        let parts = expected.len();
        for bounds in expected {
            let asked = part(&mut scene);
            if parts > 1 {
                // An upper bound of its own comes first.
                let (one, other) = tokens(&asked);
                assert_eq!((one.min(other), one.max(other)), bounds, "{text}");
            }
            give(&mut scene, &asked, &page(&asked, None, &[]));
        }
        gets(&mut scene, &[]);
    }
}

#[test]
fn keys_are_asked_for_in_their_order_each_once_of_whichever_copy_answers_it() {
    for text in [
        BY_KEYS,
        "SELECT day, total FROM app.orders WHERE customer IN (?, ?, ?, ?)",
    ] {
        let mut scene = scene();
        let (low, high) = (key_in(i64::MIN, 0), key_in(2, UPPER));
        let keys = [high, -1, low, high];
        let cells = keys.map(i64::to_be_bytes);
        let list = list_of(&keys);
        let values: Vec<&[u8]> = match text == BY_KEYS {
            true => vec![&list],
            false => cells.iter().map(|cell| &cell[..]).collect(),
        };
        scene.ask(text, &asks(&values, Some(100), None));
        let mut sorted = vec![-1, low, high];
        sorted.sort_unstable();
        for key in &sorted {
            let asked = part(&mut scene);
            let copy = asked.node % COPIES;
            let own = format!("app__{copy}.orders WHERE customer = ?");
            assert!(asked.text.contains(&own), "{}", asked.text);
            assert_eq!(asked.values, [key.to_be_bytes()]);
            let is_upper = (3..=UPPER).contains(&murmur3_token(&key.to_be_bytes()));
            assert_eq!(asked.node >= COPIES, is_upper, "{asked:?}");
            give(&mut scene, &asked, &page(&asked, None, &[*key]));
        }
        assert_eq!(gets(&mut scene, &sorted), None);
    }
}

#[test]
fn pages_of_keys_go_on_within_a_key_and_at_the_next() {
    let mut scene = scene();
    let keys = [5, 1, 3];
    let list = list_of(&keys);
    scene.ask(BY_KEYS, &asks(&[&list], Some(2), None));
    let asked = part(&mut scene);
    assert_eq!(
        (asked.node % COPIES, asked.page_size),
        (0, Some(2)),
        "in order"
    );
    give(&mut scene, &asked, &page(&asked, Some(b"inner"), &[10, 11]));
    let state = gets(&mut scene, &[10, 11]).expect("more");
    let mut other = self::scene();
    other.ask(BY_KEYS, &asks(&[&list], Some(2), Some(&state)));
    let asked = part(&mut other);
    assert_eq!(asked.values, [1_i64.to_be_bytes()]);
    assert_eq!(asked.state.as_deref(), Some(&b"inner"[..]));
    give(&mut other, &asked, &page(&asked, None, &[12]));
    let asked = part(&mut other);
    assert_eq!((asked.page_size, asked.state.as_deref()), (Some(1), None));
    assert_eq!(asked.values, [3_i64.to_be_bytes()]);
    give(&mut other, &asked, &page(&asked, None, &[30]));
    let state = gets(&mut other, &[12, 30]).expect("more");
    scene.ask(BY_KEYS, &asks(&[&list], Some(2), Some(&state)));
    let asked = part(&mut scene);
    assert_eq!(asked.values, [5_i64.to_be_bytes()]);
    give(&mut scene, &asked, &page(&asked, None, &[]));
    assert_eq!(gets(&mut scene, &[]), None);
}

#[test]
fn a_limit_counts_over_all_parts_and_pages() {
    let text = "SELECT day, total FROM app.orders LIMIT ?";
    let limit = 5_i32.to_be_bytes();
    let mut scene = scene();
    scene.ask(text, &asks(&[&limit], Some(3), None));
    let asked = part(&mut scene);
    assert_eq!(asked.values[2], limit);
    give(&mut scene, &asked, &page(&asked, None, &[1, 2]));
    let asked = part(&mut scene);
    give(&mut scene, &asked, &page(&asked, None, &[3]));
    let state = gets(&mut scene, &[1, 2, 3]).expect("more");
    scene.ask(text, &asks(&[&limit], Some(3), Some(&state)));
    let asked = part(&mut scene);
    assert_eq!(asked.page_size, Some(2), "what is left of it");
    give(
        &mut scene,
        &asked,
        &page(&asked, Some(&behind_row(7)), &[4, 5]),
    );
    assert_eq!(gets(&mut scene, &[4, 5]), None, "that is all");
    // Without pages, too.
    scene.ask(text, &asks(&[&limit], None, None));
    let asked = part(&mut scene);
    assert_eq!(asked.page_size, Some(5));
    give(&mut scene, &asked, &page(&asked, None, &[1, 2, 3, 4, 5]));
    assert_eq!(gets(&mut scene, &[1, 2, 3, 4, 5]), None);
}

pub(super) fn counted(part: &Part, count: i64) -> Vec<u8> {
    let keyspace = format!("app__{}", part.node % COPIES);
    rows_of((&keyspace, TABLE), &COUNTED, None, &[&count.to_be_bytes()])
}

#[test]
fn aggregates_are_put_together_and_others_are_refused() {
    let mut scene = scene();
    scene.ask(COUNT, &asks(&[], Some(100), None));
    for count in 0..ENDS.len() {
        let asked = part(&mut scene);
        give(&mut scene, &asked, &counted(&asked, count as i64));
    }
    let (opcode, body) = scene.bench.answer();
    assert_eq!(opcode, Opcode::Result);
    // The warning that a node would give comes in front.
    let own = rows_of(("app", TABLE), &COUNTED, None, &[&21_i64.to_be_bytes()]);
    assert!(body.ends_with(&own), "{body:?}");
    let warning = String::from_utf8_lossy(&body[..body.len() - own.len()]).into_owned();
    assert!(warning.contains("without partition key"), "{warning}");
    scene.is_done();
    let keys = list_of(&[1, 2]);
    scene.ask(
        "SELECT count(*) FROM app.orders WHERE customer IN ?",
        &asks(&[&keys], None, None),
    );
    for _ in 0..2 {
        let asked = part(&mut scene);
        give(&mut scene, &asked, &counted(&asked, 4));
    }
    let (_, body) = scene.bench.answer();
    assert!(body.ends_with(&8_i64.to_be_bytes()));
    // LIMIT is of the one row that comes, not of those that are counted.
    let one = list_of(&[1]);
    scene.ask(
        "SELECT count(*) FROM app.orders WHERE customer IN ? LIMIT 1",
        &asks(&[&one], Some(100), None),
    );
    let asked = part(&mut scene);
    assert_eq!(asked.page_size, Some(100));
    give(&mut scene, &asked, &counted(&asked, 4));
    assert!(scene.bench.answer().1.ends_with(&4_i64.to_be_bytes()));
    for (text, way_out) in [
        (
            "SELECT avg(total) FROM app.orders",
            "COUNT, MIN, MAX and SUM",
        ),
        (
            "SELECT count(*) FROM app.orders LIMIT 1",
            "COUNT, MIN, MAX and SUM",
        ),
        (
            "SELECT ks.f(total) FROM app.orders",
            "COUNT, MIN, MAX and SUM",
        ),
        (
            "SELECT * FROM app.orders WHERE customer IN (1, 2) ORDER BY day DESC",
            "leave out ORDER BY",
        ),
        (
            "SELECT * FROM app.orders WHERE customer IN (1, f(2))",
            "constants or markers",
        ),
        (
            "SELECT * FROM app.orders WHERE customer IN (1, null)",
            "bind each",
        ),
        (
            "SELECT * FROM app.orders WHERE customer = null",
            "values that are not null",
        ),
        (
            "SELECT * FROM app.orders WHERE total CONTAINS 4 ALLOW FILTERING",
            "token() alone",
        ),
    ] {
        scene.ask(text, &asks(&[], Some(100), None));
        scene.is_refused(text, way_out);
    }
}

#[test]
fn where_one_node_has_all_of_a_copy_it_answers_alone_and_as_it_came() {
    for text in [
        SCAN,
        COUNT,
        "SELECT avg(total) FROM app.orders WHERE customer IN (1, 2)",
    ] {
        let mut scene = Scene::new(Version::V4, Version::V5);
        scene.ask(text, &asks(&[], Some(100), None));
        let (_, stream, body) = scene.one_at(0);
        let view = QueryView::parse(&body, Version::V5).expect("a QUERY");
        assert_eq!(view.text, on_copy(text, 0));
        let page = rows_of(("app__0", TABLE), &COUNTED, Some(b"inner"), &[&[1; 8]]);
        scene.bench.say_as(0, Opcode::Result, stream, &page);
        scene.carry_out();
        assert_eq!(scene.bench.answer().0, Opcode::Result);
        scene.is_done();
    }
    // Unless others are much better for each key, or it is not in sync.
    let text = "SELECT day, total FROM app.orders WHERE customer IN (1, 2) AND status = 'open' ALLOW FILTERING";
    for is_in_sync in [true, false] {
        let mut scene = Scene::new(Version::V4, Version::V4);
        if !is_in_sync {
            scene.list = scene.list.evict(0).expect("others are there");
            scene.read();
        }
        let text = if is_in_sync { text } else { BY_KEYS };
        let keys = list_of(&[1, 2]);
        let values: &[&[u8]] = if is_in_sync { &[] } else { &[&keys] };
        scene.ask(text, &asks(values, Some(100), None));
        for _ in 0..2 {
            let asked = part(&mut scene);
            assert!(
                asked.node > 0 && asked.text.contains("customer = ?"),
                "{asked:?}"
            );
            give(&mut scene, &asked, &page(&asked, None, &[]));
        }
        assert_eq!(scene.bench.answer().0, Opcode::Result);
    }
}
