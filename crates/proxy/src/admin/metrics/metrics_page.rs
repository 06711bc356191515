//! docs/metrics.md: all families of metrics, written from a proxy that shows all of them.

use std::fmt::Write;
use std::time::SystemTime;

use super::page::{Family, Page};
use crate::admin::metrics::render_all;
use crate::testing::process;

/// Everything that is only shown if it is on, and a rule of each kind.
const SETTINGS: &str = "
assignment.reports = true
layouts.enabled = true
payload.enabled = true
[[rules]]
name = 'counted'
all = true
requests_per_second = 1
in_flight = 1
bytes_per_second = 1
[[rules]]
name = 'timed'
class = 'read'
timeout_ms = 1000
[[rules]]
name = 'raised'
class = 'read'
consistency_min = 'TWO'
consistency_rewrite = true
[[rules]]
name = 'tried'
all = true
warn = true
deny = 'no'
[[rules]]
name = 'forbids'
class = 'truncate'
deny = 'no'
";

const HEAD: &str = "# Metrics

What `/metrics` shows, for Prometheus, as text, or with `admin.native_histograms` as protocol buffers. Labels of the target (`job`, `instance`) come from \
Prometheus. Counters start at 0 with the process. Histograms have `_bucket`, `_sum` and `_count`; in protocol buffers they \
are native ones, too. What belongs to something that is off is not shown: layouts, encoded columns, reports of nodes, rules.

**To be woken by**, as in [the alert rules](operations.md#monitoring): no target is left or none answers (`up`), \
`helenus_ready` is 0, `helenus_worker_turn_age_seconds` grows, `helenus_requests_failed_total` grows faster than a share of \
`helenus_requests_total`, `helenus_memory_held_bytes` comes near `helenus_memory_max_bytes`.

<!-- Generated: HELENUS_BLESS=1 cargo test --package helenus-proxy metrics_page. Do not edit. -->

| name | type | labels | meaning |
|---|---|---|---|
";

fn markdown(families: &[Family]) -> String {
    let mut page = HEAD.to_owned();
    for family in families {
        let labels: Vec<String> = family.labels.iter().map(|l| format!("`{l}`")).collect();
        let Family {
            name, kind, help, ..
        } = family;
        let labels = labels.join(", ");
        writeln!(page, "| `{name}` | {kind} | {labels} | {help} |").expect("a string");
    }
    page
}

#[test]
fn the_committed_page_has_all_metrics() {
    let config = crate::config::from_toml(SETTINGS).expect("settings");
    let mut page = Page::Families(Vec::new());
    render_all(&mut page, &process(config), SystemTime::now());
    let Page::Families(mut families) = page else {
        panic!("another page")
    };
    families.sort_by(|a, b| a.name.cmp(&b.name));
    let twice = families.windows(2).find(|two| two[0].name == two[1].name);
    assert!(twice.is_none(), "{twice:?}");
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/metrics.md");
    let made = markdown(&families);
    if std::env::var_os("HELENUS_BLESS").is_some() {
        std::fs::write(path, &made).expect("docs/metrics.md");
    }
    let committed = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        committed == made,
        "docs/metrics.md is not up to date: run HELENUS_BLESS=1 cargo test -p helenus-proxy metrics_page"
    );
}
