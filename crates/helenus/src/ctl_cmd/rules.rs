//! Rules in a few words each.

use serde_json::Value;

/// Criteria of a rule, in the order of the settings.
const NAMED: [&str; 10] = [
    "role",
    "client",
    "application",
    "driver",
    "keyspace",
    "table",
    "class",
    "statement",
    "key",
    "token",
];

/// The criteria that a rule names, with their values.
pub(super) fn matches(rule: &Value) -> String {
    let named = NAMED.iter().filter_map(|name| {
        let text = match &rule[*name] {
            Value::Null => return None,
            Value::Array(names) if names.is_empty() => return None,
            Value::Array(names) => {
                let names: Vec<&str> = names.iter().filter_map(Value::as_str).collect();
                names.join("|")
            }
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        Some(format!("{name} {text}"))
    });
    let named: Vec<String> = named.collect();
    match named.is_empty() {
        true => "all".to_owned(),
        false => named.join(", "),
    }
}

/// The effects of a rule, in words.
pub(super) fn does(rule: &Value) -> String {
    let set = |name: &str| Some(&rule[name]).filter(|value| !value.is_null());
    let text = |name: &str| rule[name].as_str();
    let mut said = Vec::new();
    said.extend(text("deny").map(|why| format!("denies: {why}")));
    if rule["read_only"] == true {
        said.push("reads only".to_owned());
    }
    said.extend(text("consistency_min").map(|level| format!("from {level}")));
    said.extend(text("consistency_max").map(|level| format!("up to {level}")));
    if rule["consistency_rewrite"] == true {
        said.push("rewrites levels".to_owned());
    }
    said.extend(set("timeout_ms").map(|ms| format!("{ms} ms")));
    said.extend(set("requests_per_second").map(|rate| format!("{rate} per second")));
    said.extend(set("bytes_per_second").map(|rate| format!("{rate} bytes per second")));
    said.extend(set("in_flight").map(|max| format!("{max} at a time")));
    if rule["last"] == true {
        said.push("last".to_owned());
    }
    let said = said.join(", ");
    match rule["warn"] == true {
        true => format!("tries out: {said}"),
        false => said,
    }
}

/// Counts of a rule's further effects, without those that are 0.
pub(super) fn also(rule: &Value) -> String {
    let counted = [
        ("rewritten", "rewritten"),
        ("timed_out", "timed out"),
        ("unprepared", "unprepared"),
    ];
    let done = counted.iter().filter_map(|(name, words)| {
        let count = rule[*name].as_u64().filter(|count| *count > 0)?;
        Some(format!("{count} {words}"))
    });
    done.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_else_a_rule_has_done_is_told_if_it_has() {
        let rule = json!({"rewritten": 3, "timed_out": 0, "unprepared": 1});
        assert_eq!(also(&rule), "3 rewritten, 1 unprepared");
        assert_eq!(also(&json!({"name": "of an older proxy"})), "");
    }

    #[test]
    fn rules_are_told_in_a_few_words() {
        let rule = json!({
            "name": "r", "role": ["a", "b"], "class": "scan", "key": [], "token": null,
            "in_flight": 4, "requests_per_second": 2.5, "warn": true,
        });
        assert_eq!(matches(&rule), "role a|b, class scan");
        assert_eq!(does(&rule), "tries out: 2.5 per second, 4 at a time");
        let rule = json!({
            "all": true, "deny": "closed", "consistency_min": "QUORUM", "last": true,
        });
        assert_eq!(matches(&rule), "all");
        assert_eq!(does(&rule), "denies: closed, from QUORUM, last");
    }
}
