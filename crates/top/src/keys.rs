//! The partitions that several proxies are asked for most.

use std::collections::BTreeMap;

use comfy_table::{CellAlignment, Table as TextTable, presets};
use helenus_admin_api::{Key, Keys};
use helenus_console::cells::printable;
use helenus_policy::hot::{Entry, Partition, Rates, Summary};
use serde::Serialize;

/// All proxies together.
#[derive(Debug, Serialize)]
pub(super) struct Merged {
    pub proxies: usize,
    /// All of them show values of keys.
    pub keys_shown: bool,
    pub work_us_per_s: f64,
    /// The most that a partition that is not listed has.
    pub floor_us_per_s: f64,
    pub reads_per_s: f64,
    pub writes_per_s: f64,
    pub keys: Vec<MergedKey>,
}

#[derive(Debug, Serialize)]
pub(super) struct MergedKey {
    pub keyspace: String,
    pub table: String,
    pub role: Option<String>,
    pub token: String,
    pub key: Option<String>,
    pub share: f64,
    pub work_us_per_s: f64,
    pub error_us_per_s: f64,
    pub shared_us_per_s: f64,
    pub reads_per_s: f64,
    pub writes_per_s: f64,
    pub bytes_per_s: f64,
    /// By some proxy.
    pub spread: bool,
}

/// The identity of a partition among several proxies, whose numbers of tables and roles differ.
#[derive(Clone, Debug)]
struct Label {
    keyspace: String,
    table: String,
    role: Option<String>,
    key: Option<String>,
}

/// Numbers names in the order in which they come.
#[derive(Default)]
struct Numbers<T>(BTreeMap<T, u32>);

impl<T: Ord> Numbers<T> {
    fn of(&mut self, name: T) -> u32 {
        let next = self.0.len() as u32;
        *self.0.entry(name).or_insert(next)
    }
}

impl Merged {
    pub(super) fn of(views: &[Keys], max: usize) -> Merged {
        let mut tables = Numbers::default();
        let mut roles = Numbers::default();
        let mut spread = Vec::new();
        let mut summaries = Vec::new();
        for (proxy, view) in views.iter().enumerate() {
            let mut entries = Vec::new();
            for key in &view.keys {
                let Ok(token) = key.token.parse() else {
                    continue;
                };
                // Roles without a name are the same on one proxy only, but for that of clusters without
                // authentication, which is number 0 everywhere.
                let role = match (&key.role, key.role_number) {
                    (None, 0) => (None, 0, 0),
                    (None, number) => (None, proxy, number),
                    (Some(name), _) => (Some(name.clone()), 0, 0),
                };
                let partition = Partition {
                    table: tables.of((key.keyspace.clone(), key.table.clone())),
                    role: roles.of(role),
                    token,
                };
                if key.spread {
                    spread.push(partition);
                }
                entries.push(entry_of(key, partition));
            }
            summaries.push(Summary {
                entries,
                floor_us: view.floor_us_per_s,
                total: Rates {
                    reads: view.reads_per_s,
                    writes: view.writes_per_s,
                    work_us: view.work_us_per_s,
                    ..Rates::default()
                },
            });
        }
        let summary = Summary::merged(&summaries, max);
        let keys = summary.entries.iter().map(|entry| {
            let share = summary.share(entry);
            MergedKey::of(entry, share, spread.contains(&entry.partition))
        });
        Merged {
            proxies: views.len(),
            keys_shown: views.iter().all(|view| view.keys_shown),
            work_us_per_s: summary.total.work_us,
            floor_us_per_s: summary.floor_us,
            reads_per_s: summary.total.reads,
            writes_per_s: summary.total.writes,
            keys: keys.collect(),
        }
    }

    pub(super) fn headline(&self) -> String {
        format!(
            "{} reads/s, {} writes/s, {} ms of predicted work per second through {} {}",
            number(self.reads_per_s),
            number(self.writes_per_s),
            number(self.work_us_per_s / 1e3),
            self.proxies,
            if self.proxies == 1 {
                "proxy"
            } else {
                "proxies"
            },
        )
    }
}

fn entry_of(key: &Key, partition: Partition) -> Entry<Label> {
    Entry {
        partition,
        label: Label {
            keyspace: key.keyspace.clone(),
            table: key.table.clone(),
            role: key.role.clone(),
            key: key.key.clone(),
        },
        work_us: key.work_us_per_s,
        error_us: key.error_us_per_s,
        rates: Rates {
            reads: key.reads_per_s,
            writes: key.writes_per_s,
            bytes: key.bytes_per_s,
            // Not told apart from what it may have had before it was listed.
            work_us: 0.0,
            shared_us: key.shared_us_per_s,
        },
    }
}

impl MergedKey {
    fn of(entry: &Entry<Label>, share: f64, spread: bool) -> MergedKey {
        let label = entry.label.clone();
        MergedKey {
            keyspace: label.keyspace,
            table: label.table,
            role: label.role,
            token: entry.partition.token.to_string(),
            key: label.key,
            share,
            work_us_per_s: entry.work_us,
            error_us_per_s: entry.error_us,
            shared_us_per_s: entry.rates.shared_us,
            reads_per_s: entry.rates.reads,
            writes_per_s: entry.rates.writes,
            bytes_per_s: entry.rates.bytes,
            spread,
        }
    }
}

/// As people read it.
pub(super) fn table(merged: &Merged) -> TextTable {
    let mut table = TextTable::new();
    table.load_style(presets::NOTHING);
    table.set_header([
        "table",
        "partition",
        "role",
        "share",
        "reads/s",
        "writes/s",
        "KiB/s",
        "shared",
        "read from",
    ]);
    for key in &merged.keys {
        let partition = match &key.key {
            Some(key) => key.clone(),
            None => format!("token {}", key.token),
        };
        let shared = match key.work_us_per_s > 0.0 {
            true => key.shared_us_per_s / key.work_us_per_s,
            false => 0.0,
        };
        table.add_row([
            printable(&format!("{}.{}", key.keyspace, key.table)),
            printable(&partition),
            printable(key.role.as_deref().unwrap_or_default()),
            percent(key.share),
            number(key.reads_per_s),
            number(key.writes_per_s),
            number(key.bytes_per_s / 1024.0),
            percent(shared.min(1.0)),
            (if key.spread {
                "all replicas"
            } else {
                "its first replica"
            })
            .to_owned(),
        ]);
    }
    for column in table.column_iter_mut().skip(3).take(5) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

fn percent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}

fn number(value: f64) -> String {
    match value {
        value if value >= 99.5 => format!("{value:.0}"),
        value => format!("{value:.1}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Of one proxy: what is listed with its work, and what is left for all others.
    fn view(keys: &[(&str, Option<&str>, u32, f64)], floor: f64) -> Keys {
        let listed: f64 = keys.iter().map(|(.., work)| work).sum();
        let keys = keys.iter().map(|(token, role, role_number, work)| {
            json!({
                "keyspace": "shop", "table": "orders", "role": role, "role_number": role_number,
                "token": token, "key": null, "share": 0.0, "work_us_per_s": work,
                "error_us_per_s": 0.0, "shared_us_per_s": work / 2.0, "reads_per_s": work / 100.0,
                "writes_per_s": 0.0, "bytes_per_s": 2048.0, "spread": *token == "-5",
                "something": "new"
            })
        });
        let value = json!({
            "keys_shown": false, "work_us_per_s": listed + 100.0, "floor_us_per_s": floor,
            "reads_per_s": 10.0, "writes_per_s": 1.0, "keys": keys.collect::<Vec<_>>()
        });
        serde_json::from_value(value).expect("a view")
    }

    #[test]
    fn proxies_are_added_up_and_what_one_does_not_list_stays_in_the_bounds() {
        let one = view(
            &[("-5", Some("app"), 3, 700.0), ("9", Some("app"), 3, 100.0)],
            10.0,
        );
        let other = view(&[("-5", Some("app"), 8, 200.0)], 50.0);
        let merged = Merged::of(&[one, other], 10);
        assert_eq!((merged.proxies, merged.keys.len()), (2, 2));
        let first = &merged.keys[0];
        assert_eq!(
            (&*first.token, first.work_us_per_s, first.error_us_per_s),
            ("-5", 900.0, 0.0)
        );
        assert!((first.share - 900.0 / 1200.0).abs() < 1e-9 && first.spread);
        let second = &merged.keys[1];
        // The other proxy may have up to its floor of it.
        assert_eq!((second.work_us_per_s, second.error_us_per_s), (150.0, 50.0));
        assert_eq!((merged.floor_us_per_s, merged.reads_per_s), (60.0, 20.0));
    }

    #[test]
    fn roles_without_a_name_are_told_apart_unless_nobody_logs_in() {
        let keys = |role| {
            Merged::of(
                &[
                    view(&[("1", None, role, 10.0)], 0.0),
                    view(&[("1", None, role, 10.0)], 0.0),
                ],
                10,
            )
        };
        assert_eq!(keys(0).keys.len(), 1);
        assert_eq!(keys(4).keys.len(), 2);
    }

    #[test]
    fn names_and_keys_control_nothing() {
        let mut merged = Merged::of(&[view(&[("-5", Some("a\u{1b}[2J"), 1, 300.0)], 0.0)], 10);
        let key = &mut merged.keys[0];
        key.key = Some("'\u{9b}2J\n'".to_owned());
        key.table = "t\u{202e}".to_owned();
        let text = table(&merged).to_string();
        assert_eq!(text.lines().count(), 2, "{text:?}");
        for part in ["a\u{fffd}[2J", "'\u{fffd}2J\u{fffd}'", "shop.t\u{fffd}"] {
            assert!(text.contains(part), "{part:?} in {text:?}");
        }
    }

    #[test]
    fn the_table_names_partitions_and_where_they_are_read() {
        let merged = Merged::of(&[view(&[("-5", Some("app"), 1, 300.0)], 0.0)], 10);
        let text = table(&merged).to_string();
        for part in [
            "shop.orders",
            "token -5",
            "app",
            "75.0 %",
            "50.0 %",
            "all replicas",
            "2.0",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
        assert!(
            merged.headline().contains("1 proxy"),
            "{}",
            merged.headline()
        );
    }
}
