//! The tabs, and the questions to proxies that fill them.

use clap::ValueEnum;
use helenus_console::cells::{bytes, micros, number, percent, seconds, string};
use serde_json::Value;

use super::columns::{Column, of, statement};

/// A tab.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(super) enum Tab {
    /// Rates, latencies, errors, what waits, the proxies
    #[default]
    Overview,
    Nodes,
    /// Clients that are connected
    Clients,
    /// Statements that took the most time in the last minutes
    Statements,
    /// Slow requests, and where their time went
    Slow,
    /// The latest errors
    Errors,
    /// Partitions with the most predicted work
    Keys,
    /// What waits for nodes, and what was refused
    Queues,
    /// Links by role and node
    Pools,
    /// What has happened lately
    Events,
    /// Copies of tables in other clustering orders
    Layouts,
}

/// A question to a proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Feed {
    Snapshot,
    Clients,
    Statements,
    Slow,
    Errors,
    Keys,
    Queues,
    Pools,
    Events,
    /// The history of a proxy, asked for once.
    History,
}

impl Tab {
    /// All, in their order.
    pub(super) const ALL: [Tab; 11] = [
        Tab::Overview,
        Tab::Nodes,
        Tab::Clients,
        Tab::Statements,
        Tab::Slow,
        Tab::Errors,
        Tab::Keys,
        Tab::Queues,
        Tab::Pools,
        Tab::Events,
        Tab::Layouts,
    ];

    pub(super) fn title(self) -> &'static str {
        match self {
            Tab::Overview => "Overview",
            Tab::Nodes => "Nodes",
            Tab::Clients => "Clients",
            Tab::Statements => "Statements",
            Tab::Slow => "Slow",
            Tab::Errors => "Errors",
            Tab::Keys => "Keys",
            Tab::Queues => "Queues",
            Tab::Pools => "Pools",
            Tab::Events => "Events",
            Tab::Layouts => "Layouts",
        }
    }

    /// The feed of the tab beside the snapshot and errors, which are always asked for.
    pub(super) fn feed(self) -> Option<Feed> {
        match self {
            Tab::Overview | Tab::Nodes | Tab::Layouts => None,
            Tab::Clients => Some(Feed::Clients),
            Tab::Statements => Some(Feed::Statements),
            Tab::Slow => Some(Feed::Slow),
            Tab::Errors => Some(Feed::Errors),
            Tab::Keys => Some(Feed::Keys),
            Tab::Queues => Some(Feed::Queues),
            Tab::Pools => Some(Feed::Pools),
            Tab::Events => Some(Feed::Events),
        }
    }

    pub(super) fn columns(self) -> &'static [Column] {
        match self {
            Tab::Overview => &[],
            Tab::Nodes => NODES,
            Tab::Clients => CLIENTS,
            Tab::Statements => STATEMENTS,
            Tab::Slow => SLOW,
            Tab::Errors => ERRORS,
            Tab::Keys => KEYS,
            Tab::Queues => QUEUES,
            Tab::Pools => POOLS,
            Tab::Events => EVENTS,
            Tab::Layouts => LAYOUTS,
        }
    }

    /// The column that rows are sorted by until somebody wishes otherwise.
    pub(super) fn sorted_by(self) -> usize {
        let title = match self {
            Tab::Overview => return 0,
            Tab::Nodes => "address",
            Tab::Clients => "in flight",
            Tab::Statements => "of time",
            Tab::Slow | Tab::Errors | Tab::Events => "ago",
            Tab::Keys => "of work",
            Tab::Queues => "queued",
            Tab::Pools => "in flight",
            Tab::Layouts => "reads/s",
        };
        let at = self
            .columns()
            .iter()
            .position(|column| column.title == title);
        at.unwrap_or(0)
    }

    /// By what a row is known again at the next look.
    pub(super) fn identity(self, row: &Value) -> String {
        let names: &[&str] = match self {
            Tab::Overview => &[],
            Tab::Nodes => &["address"],
            Tab::Clients => &["id"],
            Tab::Statements => &["keyspace", "role", "statement"],
            Tab::Slow | Tab::Errors => &["at_unix_ms", "client", "took_us", "statement"],
            Tab::Keys => &["keyspace", "table", "role", "token"],
            Tab::Queues => &["node", "class"],
            Tab::Pools => &["role_number", "role", "node"],
            Tab::Events => &["at_unix_ms", "kind", "text"],
            Tab::Layouts => &["keyspace", "physical"],
        };
        names
            .iter()
            .map(|name| format!("{}\0", row[*name]))
            .collect()
    }
}

impl Feed {
    /// Where it is asked for. `clients_by`: which clients come first.
    pub(super) fn path(self, clients_by: &str) -> String {
        match self {
            Feed::Snapshot => "/api/snapshot".to_owned(),
            Feed::Clients => format!("/api/clients?sort={clients_by}&limit=500"),
            Feed::Statements => "/api/statements?limit=300".to_owned(),
            Feed::Slow => "/api/slow?limit=300".to_owned(),
            Feed::Errors => "/api/errors?limit=300".to_owned(),
            Feed::Keys => "/api/keys".to_owned(),
            Feed::Queues => "/api/queues".to_owned(),
            Feed::Pools => "/api/pools?limit=1000".to_owned(),
            Feed::Events => "/api/events?limit=300".to_owned(),
            Feed::History => "/api/history?coarse=none&events=none".to_owned(),
        }
    }

    /// Where the rows are in the answer; empty: it is the rows.
    pub(super) fn rows(self) -> &'static str {
        match self {
            Feed::Snapshot => "/nodes",
            Feed::Clients => "/clients",
            Feed::Statements => "/statements",
            Feed::Slow => "/slow",
            Feed::Errors => "/recent",
            Feed::Keys => "/keys",
            Feed::Queues => "",
            Feed::Pools => "/pools",
            Feed::Events => "/events",
            Feed::History => "/fine/steps",
        }
    }
}

/// By which the proxy sorts clients, for a column of theirs.
pub(super) fn clients_by(column: usize) -> &'static str {
    match CLIENTS.get(column).map(|column| column.title) {
        Some("requests") => "requests",
        Some("in" | "out") => "bytes",
        Some("age") => "age",
        Some("idle") => "idle",
        _ => "in_flight",
    }
}

const NODES: &[Column] = &[
    Column::text(0, "address", |row| of(row, "address")),
    Column::text(1, "state", |row| of(row, "state")),
    Column::text(10, "dc", |row| of(row, "dc")),
    Column::text(12, "rack", |row| of(row, "rack")),
    Column::text(14, "version", |row| of(row, "release_version")),
    Column::number(2, "req/s", "/requests_per_s", number),
    Column::number(4, "p50", "/us_p50", micros),
    Column::number(3, "p99", "/us_p99", micros),
    Column::number(5, "in flight", "/in_flight", string),
    Column::number(6, "queued", "/queued", string),
    Column::number(8, "slowdown", "/slowdown", number),
    Column::number(7, "err/s", "/errors_per_s", number),
    Column::number(9, "t-out/s", "/timeouts_per_s", number),
    Column::number(11, "links", "/links_up", string),
    Column::number(13, "scans", "/scan_slots_taken", string),
];

const CLIENTS: &[Column] = &[
    Column::text(0, "address", |row| of(row, "address")),
    Column::text(3, "role", |row| of(row, "role")),
    Column::text(4, "application", |row| of(row, "application")),
    Column::text(6, "driver", |row| {
        let text = format!("{} {}", of(row, "driver"), of(row, "driver_version"));
        text.trim().to_owned()
    }),
    Column::text(8, "protocol", |row| {
        let mut text = format!("v{}", of(row, "protocol"));
        if row["compression"] != "none" {
            text = format!("{text} {}", of(row, "compression"));
        }
        if row["tls"] == true {
            text.push_str(" TLS");
        }
        text
    }),
    Column::text(9, "keyspace", |row| of(row, "keyspace")),
    Column::number(1, "in flight", "/in_flight", string),
    Column::number(2, "requests", "/requests", string),
    Column::number(7, "in", "/bytes_in", bytes),
    Column::number(7, "out", "/bytes_out", bytes),
    Column::number(10, "age", "/age_s", seconds),
    Column::number(5, "idle", "/idle_s", seconds),
    Column::text(11, "id", |row| of(row, "id")),
];

const STATEMENTS: &[Column] = &[
    Column::number(1, "of time", "/time_share", percent),
    Column::number(2, "calls/s", "/calls_per_s", number),
    Column::number(4, "mean", "/mean_us", micros),
    Column::number(3, "p99", "/p99_us", micros),
    Column::number(5, "at nodes", "/at_nodes_mean_us", micros),
    Column::number(7, "nodes p99", "/at_nodes_p99_us", micros),
    Column::number(9, "rows/s", "/rows_per_s", number),
    Column::number(8, "bytes/s", "/bytes_per_s", bytes),
    Column::number(6, "err/s", "/errors_per_s", number),
    Column::text(10, "role", |row| of(row, "role")),
    Column::rest("statement", statement),
];

const SLOW: &[Column] = &[
    Column::ago(1, "ago", "/at_unix_ms"),
    Column::text(6, "class", |row| of(row, "class")),
    Column::number(2, "took", "/took_us", micros),
    Column::number(3, "queued", "/queued_us", micros),
    Column::number(4, "at nodes", "/at_nodes_us", micros),
    Column::number(7, "elsewhere", "/elsewhere_us", micros),
    Column::text(8, "slowest node", |row| of(row, "slowest_node")),
    Column::text(5, "error", |row| of(row, "error")),
    Column::text(9, "how", |row| of(row, "execution")),
    Column::text(11, "client", |row| of(row, "client")),
    Column::text(10, "role", |row| of(row, "role")),
    Column::rest("statement", statement),
];

const ERRORS: &[Column] = &[
    Column::ago(1, "ago", "/at_unix_ms"),
    Column::text(2, "error", |row| of(row, "error")),
    Column::text(3, "node", |row| of(row, "node")),
    Column::text(5, "client", |row| of(row, "client")),
    Column::text(4, "role", |row| of(row, "role")),
    Column::rest("statement, message", |row| {
        let message = of(row, "message");
        match message.is_empty() {
            true => statement(row),
            false => format!("{}: {message}", statement(row)),
        }
    }),
];

const KEYS: &[Column] = &[
    Column::text(1, "table", |row| {
        format!("{}.{}", of(row, "keyspace"), of(row, "table"))
    }),
    Column::text(0, "partition", |row| match row["key"].as_str() {
        Some(key) => key.to_owned(),
        None => format!("token {}", of(row, "token")),
    }),
    Column::text(6, "role", |row| of(row, "role")),
    Column::number(2, "of work", "/share", percent),
    Column::number(3, "reads/s", "/reads_per_s", number),
    Column::number(4, "writes/s", "/writes_per_s", number),
    Column::number(5, "bytes/s", "/bytes_per_s", bytes),
    Column::text(7, "read from", |row| {
        let text = match row["spread"] == true {
            true => "all replicas",
            false => "its first replica",
        };
        text.to_owned()
    }),
];

const QUEUES: &[Column] = &[
    Column::text(0, "node", |row| of(row, "node")),
    Column::text(0, "class", |row| of(row, "class")),
    Column::number(1, "queued", "/queued", string),
    Column::number(4, "sent", "/dispatched", string),
    Column::number(3, "wait p50", "/wait_us_p50", micros),
    Column::number(2, "wait p99", "/wait_us_p99", micros),
    Column::number(5, "refused", "/refused", string),
    Column::number(6, "expired", "/expired", string),
    Column::number(7, "shed", "/shed", string),
    Column::number(8, "aged", "/aged", string),
];

const POOLS: &[Column] = &[
    Column::text(0, "role", |row| match row["role"].as_str() {
        Some(role) => role.to_owned(),
        None => format!("number {}", row["role_number"]),
    }),
    Column::text(0, "node", |row| of(row, "node")),
    Column::number(3, "clients", "/clients", string),
    Column::number(2, "links", "/links", string),
    Column::number(4, "opening", "/opening", string),
    Column::number(5, "special", "/special_links", string),
    Column::number(1, "in flight", "/in_flight", string),
];

const EVENTS: &[Column] = &[
    Column::ago(1, "ago", "/at_unix_ms"),
    Column::text(2, "kind", |row| of(row, "kind")),
    Column::rest("what", |row| of(row, "text")),
];

const LAYOUTS: &[Column] = &[
    Column::text(0, "table", |row| {
        format!("{}.{}", of(row, "keyspace"), of(row, "table"))
    }),
    Column::text(1, "layout", |row| of(row, "physical")),
    Column::number(2, "reads/s", "/reads_per_s", number),
    Column::number(3, "reads", "/reads", string),
    Column::text(4, "read", |row| {
        let text = match row["is_read"] == true {
            true => "yes",
            false => "no",
        };
        text.to_owned()
    }),
    Column::rest("clustering order", |row| {
        let columns = row["clustering"].as_array().into_iter().flatten();
        columns.map(string).collect::<Vec<_>>().join(", ")
    }),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_rows_are_sorted_by_at_first_is_a_column() {
        for tab in Tab::ALL.into_iter().skip(1) {
            let columns = tab.columns();
            let by = tab.sorted_by();
            let is_asked = matches!(tab, Tab::Nodes) || columns[by].is_number();
            assert!(is_asked, "{tab:?}");
            assert!(columns.iter().filter(|column| column.is_rest()).count() <= 1);
        }
    }

    #[test]
    fn the_proxy_sorts_clients_as_they_are_shown() {
        let by = |title| {
            let at = CLIENTS.iter().position(|column| column.title == title);
            clients_by(at.expect("a column"))
        };
        assert_eq!(
            [by("idle"), by("out"), by("address")],
            ["idle", "bytes", "in_flight"]
        );
    }
}
