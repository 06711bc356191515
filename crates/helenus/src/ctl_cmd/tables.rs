//! A proxy's answers as people read them.

use anyhow::Result;
use comfy_table::{CellAlignment, Table as TextTable, presets};
use helenus_console::cells::{
    ago, bytes, micros, number, percent, printable, seconds, string, with_rest,
};
use serde_json::Value;

use super::rules;
use super::what::What;

/// Characters of a statement that are shown in a table; `--json` shows all.
const STATEMENT_CHARS_MAX: usize = 90;

/// A column: its title, whether it holds numbers, and what of a row it shows.
type Column = (&'static str, bool, fn(&Value) -> String);

pub(super) fn text(what: What, value: &Value, limit: usize) -> Result<String> {
    Ok(match what {
        What::Clients => {
            let shown = rows(value, "clients").len();
            format!(
                "{}{shown} of {} clients\n{}",
                table(rows(value, "clients"), CLIENTS, limit),
                value["all"],
                silent(value)
            )
        }
        What::Statements => format!(
            "{}{}",
            table(rows(value, "statements"), STATEMENTS, limit),
            silent(value)
        ),
        What::Slow => {
            let mut out = table(rows(value, "slow"), SLOW, limit);
            out.push_str(&format!(
                "slow: from {} ms on, scans from {} ms on\n",
                value["slow_ms"], value["slow_scan_ms"]
            ));
            if value["left_out"].as_u64() > Some(0) {
                let left_out = &value["left_out"];
                out.push_str(&format!(
                    "{left_out} more were too many at a time to be described\n"
                ));
            }
            out + &silent(value)
        }
        What::Errors => format!(
            "{}\n{}{}",
            table(rows(value, "by_code"), CODES, limit),
            table(rows(value, "recent"), ERRORS, limit),
            silent(value)
        ),
        What::Events => table(rows(value, "events"), EVENTS, limit),
        What::Keys => table(rows(value, "keys"), KEYS, limit),
        What::Nodes => table(all(value), NODES, limit),
        What::Pools => format!(
            "{}{}{}",
            table(rows(value, "pools"), POOLS, limit),
            match value["has_more"] == true {
                true => "there are more: --limit\n",
                false => "",
            },
            silent(value)
        ),
        What::Queues => table(all(value), QUEUES, limit),
        What::Rules => {
            let mut out = table(all(value), RULES, limit);
            if all(value).iter().any(|of| of["warn"] == true) {
                out.push_str("in brackets: what rules that are tried out would have refused\n");
            }
            out
        }
        What::Pauses => table(all(value), PAUSES, limit),
        What::Proxies => table(all(value), PROXIES, limit),
        What::Config => toml::to_string(&without_nulls(value))?,
    })
}

/// Idle clients that were disconnected.
pub(super) fn killed(value: &Value) -> String {
    let done = format!("{} clients are disconnected\n", value["killed"]);
    match value["silent_workers"].as_u64() {
        None | Some(0) => done,
        Some(1) => {
            done + "1 worker has not answered: idle clients of it may be disconnected a little later\n"
        }
        Some(silent) => format!(
            "{done}{silent} workers have not answered: idle clients of theirs may be disconnected a little later\n"
        ),
    }
}

pub(super) fn pause(value: &Value) -> String {
    let paused = printable(&paused(value));
    format!(
        "{paused} is paused: for {} s, and {} requests wait at most. End it with: helenus ctl resume --{paused}",
        value["left_s"], value["waiting_max"]
    )
}

pub(super) fn reloaded(value: &Value) -> String {
    let keys = |of: &Value| {
        let keys = of.as_array().into_iter().flatten();
        let keys: Vec<&str> = keys.filter_map(Value::as_str).collect();
        keys.join(", ")
    };
    let changed = match keys(&value["changed"]) {
        none if none.is_empty() => {
            "no setting has changed; certificates were read again".to_owned()
        }
        some => format!("changed: {some}"),
    };
    match keys(&value["needs_restart"]) {
        none if none.is_empty() => changed,
        some => format!("{changed}\nneeds a restart: {some}"),
    }
}

const CLIENTS: &[Column] = &[
    ("id", false, |of| string(&of["id"])),
    ("address", false, |of| string(&of["address"])),
    ("role", false, |of| string(&of["role"])),
    ("application", false, |of| string(&of["application"])),
    ("driver", false, |of| {
        let version = string(&of["driver_version"]);
        format!("{} {version}", string(&of["driver"]))
            .trim()
            .to_owned()
    }),
    ("protocol", false, |of| {
        let version = of["protocol"].as_u64();
        let mut text = version.map_or_else(String::new, |version| format!("v{version}"));
        if of["compression"] != "none" {
            text = format!("{text} {}", string(&of["compression"]));
        }
        if of["tls"] == true {
            text.push_str(" TLS");
        }
        text
    }),
    ("keyspace", false, |of| string(&of["keyspace"])),
    ("in flight", true, |of| of["in_flight"].to_string()),
    ("requests", true, |of| of["requests"].to_string()),
    ("in", true, |of| bytes(&of["bytes_in"])),
    ("out", true, |of| bytes(&of["bytes_out"])),
    ("age", true, |of| seconds(&of["age_s"])),
    ("idle", true, |of| seconds(&of["idle_s"])),
];

const STATEMENTS: &[Column] = &[
    ("of time", true, |of| percent(&of["time_share"])),
    ("calls/s", true, |of| number(&of["calls_per_s"])),
    ("mean", true, |of| micros(&of["mean_us"])),
    ("p99", true, |of| micros(&of["p99_us"])),
    ("at nodes", true, |of| micros(&of["at_nodes_mean_us"])),
    ("p99", true, |of| micros(&of["at_nodes_p99_us"])),
    ("rows/s", true, |of| number(&of["rows_per_s"])),
    ("bytes/s", true, |of| bytes(&of["bytes_per_s"])),
    ("errors/s", true, |of| number(&of["errors_per_s"])),
    ("role", false, |of| string(&of["role"])),
    ("statement", false, statement),
];

const SLOW: &[Column] = &[
    ("ago", true, |of| ago(&of["at_unix_ms"])),
    ("class", false, |of| string(&of["class"])),
    ("took", true, |of| micros(&of["took_us"])),
    ("queued", true, |of| micros(&of["queued_us"])),
    ("at nodes", true, |of| micros(&of["at_nodes_us"])),
    ("elsewhere", true, |of| micros(&of["elsewhere_us"])),
    ("slowest node", false, |of| string(&of["slowest_node"])),
    ("sent", true, |of| of["node_requests"].to_string()),
    ("tried", true, |of| of["attempts"].to_string()),
    ("how", false, |of| {
        let mut how = string(&of["execution"]);
        if of["hedged"] == true {
            how.push_str(", hedged");
        }
        if of["shared"] == true {
            how.push_str(", shared");
        }
        if let Some(error) = of["error"].as_str() {
            how = format!("{how}, {error}");
        }
        how
    }),
    ("client", false, |of| string(&of["client"])),
    ("role", false, |of| string(&of["role"])),
    ("statement", false, statement),
];

const CODES: &[Column] = &[
    ("error", false, |of| string(&of["error"])),
    ("count", true, |of| of["count"].to_string()),
    ("last", true, |of| ago(&of["last"]["at_unix_ms"])),
    ("node", false, |of| string(&of["last"]["node"])),
    ("statement", false, |of| statement(&of["last"])),
];

const ERRORS: &[Column] = &[
    ("ago", true, |of| ago(&of["at_unix_ms"])),
    ("error", false, |of| string(&of["error"])),
    ("node", false, |of| string(&of["node"])),
    ("client", false, |of| string(&of["client"])),
    ("role", false, |of| string(&of["role"])),
    ("message", false, |of| cut(&string(&of["message"]))),
    ("statement", false, statement),
];

const EVENTS: &[Column] = &[
    ("ago", true, |of| ago(&of["at_unix_ms"])),
    ("severity", false, |of| match of["severity"].as_str() {
        Some("bad") => "BAD".to_owned(),
        _ => string(&of["severity"]),
    }),
    ("kind", false, |of| string(&of["kind"])),
    ("what", false, |of| string(&of["text"])),
];

const KEYS: &[Column] = &[
    ("table", false, |of| {
        format!("{}.{}", string(&of["keyspace"]), string(&of["table"]))
    }),
    ("partition", false, |of| match of["key"].as_str() {
        Some(key) => key.to_owned(),
        None => format!("token {}", string(&of["token"])),
    }),
    ("role", false, |of| string(&of["role"])),
    ("of work", true, |of| percent(&of["share"])),
    ("reads/s", true, |of| number(&of["reads_per_s"])),
    ("writes/s", true, |of| number(&of["writes_per_s"])),
    ("bytes/s", true, |of| bytes(&of["bytes_per_s"])),
];

const NODES: &[Column] = &[
    ("address", false, |of| string(&of["address"])),
    ("state", false, |of| string(&of["state"])),
    ("dc", false, |of| string(&of["dc"])),
    ("rack", false, |of| string(&of["rack"])),
    ("version", false, |of| string(&of["release_version"])),
    ("links", true, |of| of["links_up"].to_string()),
    ("in flight", true, |of| of["in_flight"].to_string()),
    ("queued", true, |of| of["queued"].to_string()),
    ("slowdown", true, |of| number(&of["slowdown"])),
    ("requests", true, |of| {
        of["counters"]["requests"].to_string()
    }),
    ("errors", true, |of| of["counters"]["errors"].to_string()),
    ("time-outs", true, |of| {
        of["counters"]["timeouts"].to_string()
    }),
];

const POOLS: &[Column] = &[
    ("role", false, |of| match of["role"].as_str() {
        Some(role) => role.to_owned(),
        None => format!("number {}", of["role_number"]),
    }),
    ("node", false, |of| string(&of["node"])),
    ("clients", true, |of| of["clients"].to_string()),
    ("links", true, |of| of["links"].to_string()),
    ("opening", true, |of| of["opening"].to_string()),
    ("special", true, |of| of["special_links"].to_string()),
    ("in flight", true, |of| of["in_flight"].to_string()),
];

const QUEUES: &[Column] = &[
    ("node", false, |of| string(&of["node"])),
    ("class", false, |of| string(&of["class"])),
    ("queued", true, |of| of["queued"].to_string()),
    ("sent", true, |of| of["dispatched"].to_string()),
    ("wait p50", true, |of| micros(&of["wait_us_p50"])),
    ("p99", true, |of| micros(&of["wait_us_p99"])),
    ("refused", true, |of| of["refused"].to_string()),
    ("expired", true, |of| of["expired"].to_string()),
    ("shed", true, |of| of["shed"].to_string()),
];

const RULES: &[Column] = &[
    ("rule", false, |of| string(&of["name"])),
    ("for", false, |of| cut(&rules::matches(of))),
    ("does", false, |of| cut(&rules::does(of))),
    ("matched", true, |of| of["matched"].to_string()),
    ("per second", true, |of| number(&of["per_second_now"])),
    ("in flight", true, |of| match of["in_flight"].as_u64() {
        Some(max) => format!("{} of {max}", of["in_flight_now"]),
        None => String::new(),
    }),
    ("refused", true, |of| match of["warn"] == true {
        true => format!("({})", of["would_refuse"]),
        false => of["refused"].to_string(),
    }),
    ("also", false, rules::also),
    ("problem", false, |of| string(&of["problem"])),
];

const PAUSES: &[Column] = &[
    ("paused", false, paused),
    ("left", true, |of| seconds(&of["left_s"])),
    ("waiting", true, |of| of["waiting"].to_string()),
    ("at most", true, |of| of["waiting_max"].to_string()),
    ("refused", true, |of| of["refused"].to_string()),
];

const PROXIES: &[Column] = &[
    ("address", false, |of| string(&of["address"])),
    ("state", false, |of| string(&of["state"])),
    ("clients", true, |of| string(&of["clients"])),
    ("version", false, |of| string(&of["version"])),
    ("", false, |of| match of["is_self"] == true {
        true => "the one that was asked".to_owned(),
        false => string(&of["reason"]),
    }),
];

fn table(rows: &[Value], columns: &[Column], limit: usize) -> String {
    let mut table = TextTable::new();
    table.load_style(presets::NOTHING);
    table.set_header(columns.iter().map(|(title, ..)| *title));
    for row in rows.iter().take(limit) {
        table.add_row(columns.iter().map(|(_, _, show)| printable(&show(row))));
    }
    for (at, (_, is_number, _)) in columns.iter().enumerate() {
        if let Some(column) = table.column_mut(at).filter(|_| *is_number) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    with_rest(&table, rows.len(), limit)
}

fn rows<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    all(&value[name])
}

fn all(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// A line about workers that did not answer; empty if all did.
fn silent(value: &Value) -> String {
    match value["silent_workers"].as_u64() {
        None | Some(0) => String::new(),
        Some(1) => "1 worker has not answered: what it knows is missing\n".to_owned(),
        Some(silent) => format!("{silent} workers have not answered: what they know is missing\n"),
    }
}

fn paused(of: &Value) -> String {
    match (of["role"].as_str(), of["keyspace"].as_str()) {
        (Some(role), _) => format!("role {role}"),
        (None, keyspace) => format!("keyspace {}", keyspace.unwrap_or_default()),
    }
}

fn statement(of: &Value) -> String {
    let keyspace = of["keyspace"].as_str();
    let text = match of["statement"].as_str() {
        Some(text) => cut(text),
        None => string(&of["opcode"]),
    };
    match keyspace {
        Some(keyspace) => format!("[{keyspace}] {text}"),
        None => text,
    }
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(STATEMENT_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// TOML has no null: what is not set is left out.
fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let set = fields.iter().filter(|(_, value)| !value.is_null());
            set.map(|(key, value)| (key.clone(), without_nulls(value)))
                .collect()
        }
        Value::Array(items) => items.iter().map(without_nulls).collect(),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests;
