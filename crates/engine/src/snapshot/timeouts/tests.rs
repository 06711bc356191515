use std::sync::Arc;

use helenus_policy::schedule::Class;
use helenus_wire::{Opcode, Version};

use super::*;
use crate::pipeline::query::Query;
use crate::statement::prepared::Statement;

const KINDS: [Timed; 6] = [
    Timed::Read,
    Timed::Range,
    Timed::Pages,
    Timed::Write,
    Timed::Lwt,
    Timed::Other,
];

fn seconds(timeouts: &Timeouts) -> [u64; 6] {
    KINDS.map(|timed| timeouts.limit(timed).as_secs())
}

#[test]
fn a_limit_lies_behind_the_nodes_own_time_outs() {
    let defaults = Timeouts::default();
    assert_eq!(seconds(&defaults), [12, 12, 600, 12, 12, 62]);
    let longer = [
        ("read_request_timeout", "30s"),
        ("range_request_timeout", "60000ms"),
        ("write_request_timeout", "9s"),
        ("truncate_request_timeout", "10m"),
        ("native_transport_timeout", "15s"),
    ];
    let longer = Timeouts::from_settings(longer).expect("settings");
    assert_eq!(seconds(&longer), [62, 62, 600, 20, 42, 602]);
    let shorter = SETTINGS.map(|name| (name, "10ms"));
    let shorter = Timeouts::from_settings(shorter).expect("settings");
    assert_eq!(seconds(&shorter), [2, 2, 600, 2, 2, 2]);
}

#[test]
fn settings_are_understood_as_all_versions_write_them() {
    let read = |name: &str, value: &str| {
        Timeouts::from_settings([(name, value)]).map(|timeouts| timeouts.read)
    };
    let s = |n| Some(Duration::from_secs(n));
    assert_eq!(read("read_request_timeout", "7000ms"), s(7));
    assert_eq!(read("read_request_timeout", "7s"), s(7));
    assert_eq!(read("read_request_timeout", "2m"), s(120));
    assert_eq!(read("read_request_timeout_in_ms", "7000"), s(7));
    for (name, value) in [
        ("read_request_timeout", "7000"),
        ("read_request_timeout", "soon"),
        ("read_request_timeout", ""),
        ("read_request_timeout", "99999999999999999999s"),
        ("read_request_timeout_in_ms", "7s"),
        ("another_timeout", "7s"),
    ] {
        assert_eq!(read(name, value), None, "{name}: {value}");
    }
    // No sum overflows.
    let huge = SETTINGS.map(|name| (name, "18446744073709551615s"));
    let huge = Timeouts::from_settings(huge).expect("settings");
    assert!(seconds(&huge).iter().all(|limit| *limit >= 600));
}

#[test]
fn what_a_node_does_page_by_page_is_not_cut_and_what_is_lost_is() {
    let timed = |cql: &str, class: Class| {
        let mut query = Query::new(Opcode::Query, Version::V4, vec![]);
        query.statement = Some(Arc::new(Statement::new(cql)));
        query.class = class;
        query.timed()
    };
    for (cql, class, expected) in [
        ("SELECT v FROM k.t WHERE k = 1", Class::Point, Timed::Read),
        (
            "SELECT ttl(v) FROM k.t WHERE k = 1",
            Class::Point,
            Timed::Read,
        ),
        (
            "SELECT count(*) FROM k.t WHERE k = 1",
            Class::Slice,
            Timed::Pages,
        ),
        (
            "SELECT v FROM k.t WHERE k IN (1, 2)",
            Class::Multi,
            Timed::Pages,
        ),
        ("SELECT v FROM k.t", Class::Scan, Timed::Range),
        (
            "SELECT v FROM k.t WHERE token(k) > 3",
            Class::Scan,
            Timed::Range,
        ),
        ("SELECT max(v) FROM k.t", Class::Scan, Timed::Pages),
        ("SELECT mine(v) FROM k.t", Class::Scan, Timed::Pages),
        ("SELECT c FROM k.t GROUP BY k", Class::Scan, Timed::Pages),
        (
            "SELECT v FROM k.t WHERE v = 3 ALLOW FILTERING",
            Class::Scan,
            Timed::Pages,
        ),
        ("INSERT INTO k.t (k) VALUES (1)", Class::Write, Timed::Write),
        (
            "INSERT INTO k.t (k) VALUES (1) IF NOT EXISTS",
            Class::Lwt,
            Timed::Lwt,
        ),
        ("TRUNCATE k.t", Class::Other, Timed::Other),
    ] {
        assert_eq!(timed(cql, class), expected, "{cql}");
    }
}
