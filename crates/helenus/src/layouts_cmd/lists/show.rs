//! The lists as text and as JSON.

use std::fmt::Write;

use chrono::{DateTime, SecondsFormat};
use comfy_table::{Table as TextTable, presets};
use helenus_layout::insync::{BadList, List, TABLE};
use serde_json::{Value, json};

use super::{CopiesRow, Lists, ProxiesList, ProxyRow};

/// What to do about a list that is not believed.
const ADVICE: &str = "nobody changes or relies on it: all that write helenus.copies and helenus.proxies are proxies; \
                      restore what somebody else has changed";

impl Lists {
    pub(in crate::layouts_cmd) fn copies_as_json(&self) -> Value {
        let row = |row: &CopiesRow| {
            let copies = row.owners.iter().enumerate().map(|(number, owner)| {
                let list = row.list.as_ref().ok();
                json!({
                    "number": number,
                    "layout": self.layout(&row.table, number),
                    "host_id": owner,
                    "address": self.addresses.get(owner),
                    "state": list.map(|list| list.state(number).name()),
                    "since_version": list.map(|list| list.since(number)),
                    "boot": list.map(|list| list.boot(number)),
                })
            });
            let own = row.list.as_ref().ok().filter(|list| list.since(TABLE) > 0);
            json!({
                "table": row.table,
                "version": version(&row.list),
                "changed_ms": row.changed_ms,
                "copies": copies.collect::<Vec<_>>(),
                "table_itself": own.map(|list| json!({
                    "state": list.state(TABLE).name(),
                    "since_version": list.since(TABLE),
                })),
                "problem": problem(&row.list),
            })
        };
        self.copies.iter().map(row).collect()
    }

    pub(in crate::layouts_cmd) fn proxies_as_json(&self) -> Value {
        let Some(proxies) = &self.proxies else {
            return Value::Null;
        };
        let row = |row: &ProxyRow| {
            json!({
                "number": row.number,
                "start": row.start,
                "address": row.address,
                "release": row.release,
                "state": row.state,
                "since_version": row.since,
                "changed_ms": row.changed_ms,
            })
        };
        json!({
            "version": version(&proxies.list),
            "proxies": proxies.rows.iter().map(row).collect::<Vec<_>>(),
            "problem": problem(&proxies.list),
        })
    }

    /// Nothing if there are none.
    pub(in crate::layouts_cmd) fn as_text(&self) -> String {
        let mut text = String::new();
        for (at, row) in self.copies.iter().enumerate() {
            let is_first = at == 0 || self.copies[at - 1].table != row.table;
            if is_first {
                line(&mut text, &format!("copies of {}", row.table));
            }
            self.copies_as_text(&mut text, row);
        }
        if let Some(proxies) = &self.proxies {
            proxies_as_text(&mut text, proxies);
        }
        text
    }

    fn layout(&self, table: &str, number: usize) -> Option<&String> {
        self.layouts.get(table)?.get(number)
    }

    fn copies_as_text(&self, text: &mut String, row: &CopiesRow) {
        let changed = changed(row.changed_ms);
        let list = match &row.list {
            Ok(list) => list,
            Err(why) => {
                let owners = row.owners.join(", ");
                return line(
                    text,
                    &format!("  problem with those on {owners}: {why}; {ADVICE}"),
                );
            }
        };
        line(text, &format!("  version {}{changed}", list.version()));
        let mut lines = table();
        for (number, owner) in row.owners.iter().enumerate() {
            lines.add_row([
                match self.layout(&row.table, number) {
                    Some(layout) => format!("  copy {number}, {layout}"),
                    None => format!("  copy {number}"),
                },
                list.state(number).name().to_owned(),
                format!("since version {}", list.since(number)),
                self.addresses.get(owner).unwrap_or(owner).clone(),
            ]);
        }
        if list.since(TABLE) > 0 {
            lines.add_row([
                "  the table itself".to_owned(),
                list.state(TABLE).name().to_owned(),
                format!("since version {}", list.since(TABLE)),
                String::new(),
            ]);
        }
        line(text, &lines.to_string());
    }
}

fn proxies_as_text(text: &mut String, proxies: &ProxiesList) {
    match &proxies.list {
        Ok(list) => line(text, &format!("proxies, version {}", list.version())),
        Err(why) => line(
            text,
            &format!("problem with the list of proxies: {why}; {ADVICE}"),
        ),
    }
    let mut lines = table();
    for row in &proxies.rows {
        lines.add_row([
            format!("proxy {}", row.number),
            row.state.clone(),
            format!("since version {}{}", row.since, changed(row.changed_ms)),
            row.address.clone(),
            row.release.clone(),
        ]);
    }
    if !proxies.rows.is_empty() {
        line(text, &lines.to_string());
    }
}

fn line(text: &mut String, line: &str) {
    // Writing to a String cannot fail.
    let _ = writeln!(text, "{line}");
}

fn table() -> TextTable {
    let mut table = TextTable::new();
    table.load_style(presets::NOTHING);
    table
}

fn version<const N: usize>(list: &Result<List<N>, BadList>) -> Option<u64> {
    list.as_ref().ok().map(List::version)
}

fn problem<const N: usize>(list: &Result<List<N>, BadList>) -> Option<String> {
    list.as_ref().err().map(ToString::to_string)
}

fn changed(ms: Option<i64>) -> String {
    let time = ms.and_then(DateTime::from_timestamp_millis);
    time.map_or(String::new(), |time| {
        format!(", {}", time.to_rfc3339_opts(SecondsFormat::Secs, true))
    })
}

#[cfg(test)]
mod tests {
    use helenus_layout::insync::{self, Copies, Stored};

    use super::*;

    const HOSTS: [&str; 2] = [
        "11111111-1111-1111-1111-111111111111",
        "22222222-2222-2222-2222-222222222222",
    ];

    fn copies(list: Result<Copies, BadList>) -> CopiesRow {
        CopiesRow {
            table: "shop.orders".to_owned(),
            owners: HOSTS.map(str::to_owned).to_vec(),
            ranges: None,
            list,
            changed_ms: Some(1_700_000_000_000),
        }
    }

    fn proxy(number: i32, state: &str, since: i64) -> ProxyRow {
        ProxyRow {
            number,
            start: HOSTS[0].to_owned(),
            address: format!("10.0.0.{number}:9042"),
            release: "0.1.0".to_owned(),
            state: state.to_owned(),
            since,
            changed_ms: None,
        }
    }

    fn lists() -> Lists {
        let stored = Stored {
            version: 3,
            in_sync: vec![0],
            joining: vec![1],
            since: vec![1, 3],
            boot: vec![7, 8],
        };
        let alone = Stored {
            version: 5,
            in_sync: vec![5],
            joining: Vec::new(),
            since: vec![1, 3, 0, 0, 0, 5],
            boot: vec![7, 8, 0, 0, 0, 0],
        };
        let rows = vec![proxy(0, "in sync", 2), proxy(1, "out", 4)];
        let stored_rows: Vec<_> = rows.iter().map(ProxyRow::stored).collect();
        let list = insync::proxies(4, &stored_rows);
        Lists {
            copies: vec![
                copies(stored.copies(2)),
                copies(stored.copies(3)),
                copies(alone.copies(2)),
            ],
            proxies: Some(ProxiesList { rows, list }),
            addresses: [(HOSTS[0].to_owned(), "10.0.0.1:9042".to_owned())].into(),
            layouts: [("shop.orders".to_owned(), vec!["by_day".to_owned()])].into(),
        }
    }

    #[test]
    fn lists_are_shown_with_what_is_wrong() {
        let lists = lists();
        assert_eq!(lists.wrong(), 1);
        let text = lists.as_text();
        let words: Vec<String> = text
            .lines()
            .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
            .collect();
        let expected = [
            "copies of shop.orders",
            "version 3, 2023-11-14T22:13:20Z",
            "copy 0, by_day in sync since version 1 10.0.0.1:9042",
            "copy 1 joining since version 3 22222222-2222-2222-2222-222222222222",
            &format!(
                "problem with those on {}, {}: it tells of 2 members in the column since, and has 3; {ADVICE}",
                HOSTS[0], HOSTS[1]
            ),
            "version 5, 2023-11-14T22:13:20Z",
            "copy 0, by_day out since version 1 10.0.0.1:9042",
            "copy 1 out since version 3 22222222-2222-2222-2222-222222222222",
            "the table itself in sync since version 5",
            "proxies, version 4",
            "proxy 0 in sync since version 2 10.0.0.0:9042 0.1.0",
            "proxy 1 out since version 4 10.0.0.1:9042 0.1.0",
        ];
        assert_eq!(words, expected);
        assert_eq!(Lists::default().as_text(), "");
    }

    #[test]
    fn lists_are_json_with_what_is_wrong() {
        let lists = lists();
        let copies = lists.copies_as_json();
        assert_eq!(copies[0]["version"], 3);
        assert_eq!(copies[0]["problem"], Value::Null);
        let second = json!({
            "number": 1,
            "layout": null,
            "host_id": HOSTS[1],
            "address": null,
            "state": "joining",
            "since_version": 3,
            "boot": 8,
        });
        assert_eq!(copies[0]["copies"][1], second);
        assert_eq!(copies[1]["version"], Value::Null);
        assert_eq!(copies[1]["copies"][0]["state"], Value::Null);
        assert!(copies[1]["problem"].is_string());
        assert_eq!(copies[0]["table_itself"], Value::Null);
        let own = json!({ "state": "in sync", "since_version": 5 });
        assert_eq!(copies[2]["table_itself"], own);
        let proxies = lists.proxies_as_json();
        assert_eq!(proxies["version"], 4);
        assert_eq!(proxies["proxies"][1]["state"], "out");
        assert_eq!(Lists::default().proxies_as_json(), Value::Null);
    }
}
