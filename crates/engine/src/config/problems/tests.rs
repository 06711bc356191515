use super::*;

fn problems(change: impl FnOnce(&mut Config)) -> Vec<String> {
    let mut config = Config::default();
    change(&mut config);
    config.problems()
}

/// A key with the values at the ends of what it may be, and values just outside.
type Bound = (
    &'static str,
    fn(&mut Config, usize),
    &'static [usize],
    &'static [usize],
);

const BOUNDS: [Bound; 27] = [
    (
        "in_flight_max",
        |c, n| c.links.in_flight_max = n,
        &[1, 30_000],
        &[0, 30_001],
    ),
    (
        "node_in_flight_max",
        |c, n| c.links.node_in_flight_max = n,
        &[16, 100_000],
        &[15, 100_001],
    ),
    (
        "node_bytes_max",
        |c, n| c.links.node_bytes_max = n,
        &[65_536],
        &[65_535],
    ),
    ("per_node", |c, n| c.links.per_node = n, &[1], &[0]),
    (
        "protocol_max",
        |c, n| c.links.protocol_max = n as u8,
        &[4, 5],
        &[3, 6],
    ),
    (
        "check_credentials_ms",
        |c, n| c.links.check_credentials_ms = n as u64,
        &[100, 3_600_000],
        &[99],
    ),
    (
        "unchecked_credentials_max_ms",
        |c, n| c.links.unchecked_credentials_max_ms = n as u64,
        &[60_000],
        &[59_999],
    ),
    (
        "aggregation.window_us",
        |c, n| c.aggregation.window_us = n as u64,
        &[0, 10_000],
        &[10_001],
    ),
    (
        "latency_budget_us",
        |c, n| c.aggregation.latency_budget_us = n as u64,
        &[1, 10_000],
        &[0, 10_001],
    ),
    (
        "share_in_flight_max",
        |c, n| c.aggregation.share_in_flight_max = n,
        &[0, 1_000],
        &[1_001],
    ),
    (
        "lwt_wait_max_ms",
        |c, n| c.aggregation.lwt_wait_max_ms = n as u64,
        &[0, 10_000],
        &[10_001],
    ),
    (
        "lwt_grace_ms",
        |c, n| c.aggregation.lwt_grace_ms = n as u64,
        &[0, 100],
        &[101],
    ),
    (
        "window_min",
        |c, n| c.scheduling.window_min = n as u32,
        &[1, 64],
        &[0, 65],
    ),
    (
        "window_max",
        |c, n| c.scheduling.window_max = n as u32,
        &[8, 1_000],
        &[7, 1_001],
    ),
    (
        "scan_slots",
        |c, n| c.scheduling.scan_slots = n as u32,
        &[1, 2],
        &[0, 3],
    ),
    (
        "scan_slots_max",
        |c, n| c.scheduling.scan_slots_max = n as u32,
        &[2, 64],
        &[1, 65],
    ),
    (
        "piece_kib",
        |c, n| c.scheduling.piece_kib = n,
        &[0, 65_536],
        &[65_537],
    ),
    (
        "piece_ms",
        |c, n| c.scheduling.piece_ms = n as u32,
        &[0, 1_000],
        &[1_001],
    ),
    (
        "parallel_rows",
        |c, n| c.scheduling.parallel_rows = n,
        &[0, 8, 100_000],
        &[1, 7, 100_001],
    ),
    (
        "_wait_max_ms",
        |c, n| c.scheduling.scan_wait_max_ms = n as u64,
        &[10, 600_000],
        &[9, 600_001],
    ),
    (
        "standing_wait_max_ms",
        |c, n| c.scheduling.standing_wait_max_ms = n as u64,
        &[0, 100, 600_000],
        &[1, 99, 600_001],
    ),
    (
        "standing_scan_wait_max_ms",
        |c, n| c.scheduling.standing_scan_wait_max_ms = n as u64,
        &[0, 100, 600_000],
        &[1, 99, 600_001],
    ),
    (
        "request_bytes_max",
        |c, n| c.limits.request_bytes_max = n,
        &[1_024, 256 << 20],
        &[1_023, (256 << 20) + 1],
    ),
    (
        "special_links_max",
        |c, n| c.limits.special_links_max = n,
        &[16, 4_096],
        &[15, 4_097],
    ),
    (
        "memory_max",
        |c, n| c.limits.memory_max = Some(n),
        &[16 << 20],
        &[(16 << 20) - 1],
    ),
    (
        "request_timeout_ms",
        |c, n| c.limits.request_timeout_ms = Some(n as u64),
        &[100],
        &[99],
    ),
    (
        "page_timeout_ms",
        |c, n| c.limits.page_timeout_ms = n as u64,
        &[100],
        &[99],
    ),
];

#[test]
fn numbers_have_bounds_and_a_problem_names_its_key() {
    assert_eq!(problems(|_| ()), [""; 0], "the defaults");
    for (key, set, inside, outside) in BOUNDS {
        for &n in inside {
            assert_eq!(problems(|config| set(config, n)), [""; 0], "{key} = {n}");
        }
        for &n in outside {
            let found = problems(|config| set(config, n));
            assert_eq!(found.len(), 1, "{key} = {n}: {found:?}");
            assert!(found[0].contains(key), "{key} = {n}: {found:?}");
        }
    }
}

#[test]
fn of_two_bounds_in_one_each_counts() {
    let least = 1 << 20;
    let bytes = |prepared, statements| {
        problems(|config| {
            config.limits.prepared_bytes_max = prepared;
            config.limits.statements_bytes_max = statements;
        })
    };
    assert!(bytes(least, least).is_empty());
    assert_eq!(bytes(least - 1, least).len(), 1);
    assert_eq!(bytes(least, least - 1).len(), 1);
    let logins = |logins, identities| {
        problems(|config| {
            config.limits.logins_max = logins;
            config.limits.identities_max = identities;
        })
    };
    assert!(logins(1, 1).is_empty());
    assert_eq!(logins(0, 1).len(), 1);
    assert_eq!(logins(1, 0).len(), 1);
}

#[test]
fn nodes_must_be_named_and_the_variant_known() {
    assert_eq!(problems(|c| c.cluster.contact_points.clear()).len(), 1);
    assert_eq!(problems(|c| c.scheduling.variant = "fast".into()).len(), 1);
    let own = "org.apache.cassandra.auth.PasswordAuthenticator";
    assert_eq!(
        problems(|c| c.cluster.authenticators.push(own.into())).len(),
        1
    );
    let other = "com.example.Authenticator";
    assert!(problems(|c| c.cluster.authenticators.push(other.into())).is_empty());
}
