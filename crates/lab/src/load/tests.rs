use super::parse::{parse_arm, parse_mix, parse_time};
use super::*;
use clap::Parser;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    args: LoadArgs,
}

fn args(line: &str) -> Result<LoadArgs, clap::Error> {
    Line::try_parse_from(line.split_whitespace()).map(|line| line.args)
}

#[test]
fn mixes_hold_shares_of_three_kinds() {
    let mix = parse_mix("read=3,write=1,range=0.5").unwrap();
    assert_eq!((mix.read, mix.write, mix.range), (3.0, 1.0, 0.5));
    assert_eq!(parse_mix("write=1").unwrap().read, 0.0);
    for wrong in ["read", "scan=1", "read=-1", "read=0,write=0", "read=nan"] {
        assert!(parse_mix(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn times_have_units() {
    assert_eq!(parse_time("500ms").unwrap(), Duration::from_millis(500));
    assert_eq!(parse_time("20us").unwrap(), Duration::from_micros(20));
    assert_eq!(parse_time("1.5s").unwrap(), Duration::from_millis(1500));
    assert_eq!(parse_time("2m").unwrap(), Duration::from_secs(120));
    assert_eq!(parse_time("7").unwrap(), Duration::from_secs(7));
    for wrong in ["", "s", "5x", "-1s"] {
        assert!(parse_time(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn arms_have_a_name_addresses_and_perhaps_a_process() {
    let arm = parse_arm("direct=127.0.0.1:9042,127.0.0.2:9042@17").unwrap();
    assert_eq!(arm.contact_points.len(), 2);
    assert_eq!((&*arm.name, arm.pid), ("direct", Some(17)));
    assert_eq!(parse_arm("x=[::1]:9042").unwrap().pid, None);
    for wrong in ["x", "=h:1", "x=h", "x=h:1,", "x=h:1@y", "x=h:99999"] {
        assert!(parse_arm(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn what_contradicts_itself_is_refused() {
    for line in [
        "x --ycsb g",
        "x --ycsb a --mix read=1",
        "x --ycsb a --statements f",
        "x --statements f --hot-key 0.5",
        "x --hot-key 1.5",
        "x --arm a=h:1 --contact h:2",
        "x --clients 0",
        "x --rounds 0",
        "x --range-rows 0",
        "x --operations 0",
        "x --operations 5 --slice 1s",
        "x --p99-above-for 5s",
        "x --stop-after-errors 0",
        "x --local-rack r",
        "x --tls-cert c --tls-ca a",
        "x --tls-key k --tls-ca a",
        "x --tls-server-name n --tls-insecure",
        "x --tls-ca a --tls-insecure",
        "x --compression gzip",
        "x --distribution normal",
    ] {
        assert!(args(line).is_err(), "{line}");
    }
    let twice = args("x --arm a=h:1 --arm a=h:2").unwrap();
    let error = twice.target.endpoints().unwrap_err().to_string();
    assert!(error.contains("two arms"), "{error}");
}

#[test]
fn several_arms_take_turns_and_raw_clients_have_a_connection_each() {
    let one = args("x --clients 9").unwrap();
    assert_eq!((one.rounds(), one.sessions()), (1, 1));
    assert_eq!(one.interleaved(None).slices, 1);
    let several = "x --arm a=h:1 --arm b=h:2 --client raw --clients 9 --duration 20s --slice 400ms";
    let several = args(several).unwrap();
    assert_eq!((several.rounds(), several.sessions()), (5, 9));
    let interleaved = several.interleaved(None);
    assert_eq!(
        (interleaved.time, interleaved.slices),
        (Duration::from_secs(4), 10)
    );
    assert_eq!(interleaved.warmup, Duration::from_millis(50));
    assert_eq!(interleaved.warmup_first, Duration::from_secs(2));
}

#[test]
fn the_cell_names_workload_and_load() {
    let name = |line: &str| args(line).unwrap().cell_name();
    assert_eq!(name("x --ycsb E --clients 3"), "YCSB E, 3 clients");
    assert_eq!(name("x --rate 500"), "key-value, 500/s");
}

#[test]
fn connection_options_that_do_not_fit_say_what_to_do() {
    for (line, what) in [
        ("x --tls-ca /nowhere/ca.pem", "/nowhere/ca.pem"),
        ("x --client raw --tls-ca /nowhere/ca.pem", "/nowhere/ca.pem"),
        (
            "x --client raw --tls-cert /c --tls-key /k",
            "give --tls-ca, or --tls-insecure",
        ),
        ("x --client raw --local-dc a", "--contact"),
        ("x --local-dc a --policy round-robin", "token-aware"),
        ("x --request-timeout 0s", "above 0"),
        ("x --consistency most", "EACH_QUORUM"),
        ("x --serial-consistency ONE", "LOCAL_SERIAL"),
        ("x --consistency serial", "--mix read=1"),
        ("x --consistency LOCAL_SERIAL --ycsb a", "--ycsb c"),
        ("x --consistency any", "--mix write=1"),
        ("x --consistency any --ycsb b", "level of writes"),
    ] {
        let error = args(line).unwrap().target.endpoints().unwrap_err();
        let error = format!("{error:#}");
        assert!(error.contains(what), "{line}: {error}");
    }
    for line in [
        "x --consistency SERIAL --mix read=1",
        "x --consistency SERIAL --ycsb c",
        "x --consistency ANY --mix write=1",
        "x --consistency ANY --statements f",
        "x --client raw --tls-insecure --compression snappy",
        "x --tls-insecure --local-dc a",
        "x --local-dc a --local-rack b --consistency EACH_QUORUM",
    ] {
        let endpoints = args(line).unwrap().target.endpoints();
        assert!(endpoints.is_ok(), "{line}: {endpoints:?}");
    }
}

#[test]
fn operations_are_divided_among_the_rounds() {
    let turns = |line: &str| -> Vec<Limit> {
        let args = args(line).unwrap();
        let plan = args.interleaved(None);
        (0..args.rounds())
            .map(|round| args.turn(round, &plan))
            .collect()
    };
    let ops = |limits: Vec<Limit>| -> Vec<u64> {
        let ops = limits.into_iter().map(|limit| match limit {
            Limit::Ops(ops) | Limit::Within { ops, .. } => ops,
            Limit::Time(_) => 0,
        });
        ops.collect()
    };
    assert_eq!(ops(turns("x --operations 11 --rounds 3")), [4, 4, 3]);
    let within = turns("x --operations 11 --rounds 2 --duration 4s");
    assert!(
        matches!(within[0], Limit::Within { ops: 6, time } if time == Duration::from_secs(2)),
        "{within:?}"
    );
    let by_time = turns("x");
    assert!(matches!(by_time[..], [Limit::Time(time)] if time == Duration::from_secs(10)));
    let few = args("x --operations 2 --rounds 3").unwrap().check();
    assert!(few.unwrap_err().to_string().contains("rounds, 3"));
    let short = args("x --stop-when-p99-above 5ms --p99-above-for 10ms");
    assert!(short.unwrap().check().is_err());
}
