//! The partitions that are asked for most, as JSON, for the dashboard and as metrics.

use helenus_admin_api as api;
use helenus_engine::features::hot::{Hottest, Label, PUBLISHED_MAX};
use helenus_engine::snapshot::Snapshot;
use helenus_policy::hot::Entry;

use super::key_text::key_text;
use super::shown::rounded;
use crate::admin::metrics::page::Page;
use crate::process::Process;

/// In metrics, whose number of series must not depend on what clients do.
const RANKS_MAX: usize = 10;
/// On the dashboard, which asks every second.
const SHOWN_MAX: usize = 20;
/// Microseconds of work per second below which a partition is as good as forgotten.
const WORK_US_MIN: f64 = 1.0;

/// The answer of `/api/keys`.
pub(in crate::admin) fn view(shared: &Process) -> api::Keys {
    of(shared, PUBLISHED_MAX)
}

/// A few of them, for the dashboard.
pub(in crate::admin) fn shown(shared: &Process) -> api::Keys {
    of(shared, SHOWN_MAX)
}

fn of(shared: &Process, max: usize) -> api::Keys {
    let hottest = shared.features.hot.hottest(max);
    let keys_shown = shared.settings.load().admin.show_keys;
    keys_view(&hottest, keys_shown, &shared.snapshot.load())
}

fn keys_view(hottest: &Hottest, keys_shown: bool, snapshot: &Snapshot) -> api::Keys {
    let summary = &hottest.summary;
    let keys = busy(hottest).map(|entry| {
        let Label { table, role, key } = &entry.label;
        let columns = snapshot
            .schema()
            .partition_key(&table.keyspace, &table.table);
        let columns = columns.map(|columns| &**columns).unwrap_or_default();
        let key = key.as_ref().filter(|_| keys_shown);
        api::Key {
            keyspace: table.keyspace.clone(),
            table: table.table.clone(),
            role: role.as_ref().map(|role| role.to_string()),
            role_number: entry.partition.role,
            token: entry.partition.token.to_string(),
            key: key.map(|key| key_text(key, columns)),
            share: rounded(summary.share(entry)),
            work_us_per_s: rounded(entry.work_us),
            error_us_per_s: rounded(entry.error_us),
            shared_us_per_s: rounded(entry.rates.shared_us),
            reads_per_s: rounded(entry.rates.reads),
            writes_per_s: rounded(entry.rates.writes),
            bytes_per_s: rounded(entry.rates.bytes),
            spread: hottest.is_spread(entry),
        }
    });
    api::Keys {
        keys_shown,
        work_us_per_s: rounded(summary.total.work_us),
        floor_us_per_s: rounded(summary.floor_us),
        reads_per_s: rounded(summary.total.reads),
        writes_per_s: rounded(summary.total.writes),
        keys: keys.collect(),
    }
}

/// Those that are still asked for.
fn busy(hottest: &Hottest) -> impl Iterator<Item = &Entry<Label>> {
    let entries = hottest.summary.entries.iter();
    entries.filter(|entry| entry.work_us >= WORK_US_MIN)
}

pub(in crate::admin) fn render(page: &mut Page, shared: &Process) {
    render_of(page, &shared.features.hot.hottest(RANKS_MAX));
}

fn render_of(page: &mut Page, hottest: &Hottest) {
    let name = "helenus_hot_partition_share";
    let help = "Share of all predicted work that the partitions asked for most have, the first ten; which \
                ones these are is in /api/keys.";
    page.family(name, "gauge", &["keyspace", "table", "rank"], help);
    for (entry, rank) in busy(hottest).zip(1..) {
        let table = &entry.label.table;
        let rank = i32::to_string(&rank);
        let labels = [
            ("keyspace", table.keyspace.as_str()),
            ("table", &table.table),
            ("rank", &rank),
        ];
        page.sample(name, &labels, rounded(hottest.summary.share(entry)));
    }
    page.gauge(
        "helenus_hot_partitions_spread",
        "Partitions whose reads go to all of their replicas, because each is a notable part of a node's \
         work.",
        hottest.spread.len(),
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use helenus_engine::features::hot::Key;
    use helenus_engine::snapshot::KeyColumn;
    use helenus_engine::stats::Stats;
    use helenus_policy::hot::{Partition, Sketch, Use};

    /// Of two partitions, one three times as busy as the other.
    fn hottest() -> Hottest {
        let table = Stats::default().table("shop", "orders", 10);
        let mut sketch = Sketch::new(10, 1_000_000, 0);
        for at in 0..100 {
            let token = if at % 4 == 0 { -7 } else { i64::MAX };
            let partition = Partition {
                token,
                ..Partition::default()
            };
            let of = Use {
                work_us: 100,
                ..Use::default()
            };
            sketch.note(partition, of, || Label {
                table: table.clone(),
                role: (token > 0).then(|| "app".into()),
                key: Some(Key::new(b"secret")),
            });
        }
        sketch.advance(1_000_000);
        Hottest {
            summary: sketch.summary(10),
            spread: [i64::MAX].into(),
        }
    }

    fn snapshot() -> Snapshot {
        let key = KeyColumn {
            name: "k".to_owned(),
            cql_type: "text".to_owned(),
            is_masked: false,
        };
        let snapshot = Snapshot::builder();
        snapshot.table("shop", "orders", [key]).build()
    }

    #[test]
    fn values_of_keys_are_shown_only_if_that_is_allowed() {
        let shown = |keys_shown| {
            let view = keys_view(&hottest(), keys_shown, &snapshot());
            serde_json::to_value(view).expect("JSON")
        };
        let hidden = shown(false);
        assert!(!hidden.to_string().contains("secret"), "{hidden}");
        assert!(hidden["keys"][0]["key"].is_null());
        assert_eq!(shown(true)["keys"][0]["key"], "'secret'");
        assert_eq!(hidden["keys"][0]["token"], "9223372036854775807");
        assert_eq!(hidden["keys"][0]["share"], 0.75);
        assert_eq!(hidden["keys"][0]["spread"], true);
        assert_eq!(hidden["keys"][0]["role"], "app");
        assert!(hidden["keys"][1]["role"].is_null());
        assert_eq!(hidden["keys"][1]["spread"], false);
    }

    #[test]
    fn metrics_name_tables_and_ranks_but_no_keys() {
        let mut page = Page::default();
        render_of(&mut page, &hottest());
        let page = page.into_text();
        let first = r#"helenus_hot_partition_share{keyspace="shop",table="orders",rank="1"} 0.75"#;
        assert!(page.contains(first), "{page}");
        assert!(page.contains("helenus_hot_partitions_spread 1"), "{page}");
        assert!(!page.contains("secret") && !page.contains("9223372036854775807"));
    }

    #[test]
    fn what_is_not_asked_for_any_more_is_left_out() {
        let mut quiet = hottest();
        for entry in &mut quiet.summary.entries {
            entry.work_us = 0.5;
        }
        assert!(keys_view(&quiet, true, &snapshot()).keys.is_empty());
    }
}
