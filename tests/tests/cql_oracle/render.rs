//! Puts our facts into the oracle's words and names the differences.

use helenus_cql::{
    BatchKind, Facts, InValues, Kind, Literal, Name, Op, SelectFacts, Selected, Term,
};
use serde_json::{Map, Value, json};

/// Keys of the oracle's that the facts do not claim in the same words.
const ORACLE_ONLY: [&str; 2] = ["ok", "repeatable"];

pub(crate) fn differences(facts: &Facts, answer: &Value) -> Vec<String> {
    let ours = Value::Object(statement(facts, true, answer));
    let mut found = Vec::new();
    collect("", &ours, answer, &mut found);
    found
}

fn collect(path: &str, ours: &Value, theirs: &Value, found: &mut Vec<String>) {
    match (ours, theirs) {
        (Value::Object(a), Value::Object(b)) => {
            let mut keys: Vec<&String> = a.keys().chain(b.keys()).collect();
            keys.sort();
            keys.dedup();
            for key in keys {
                if ORACLE_ONLY.contains(&key.as_str()) {
                    continue;
                }
                let (a, b) = (a.get(key), b.get(key));
                let null = Value::Null;
                collect(
                    &format!("{path}.{key}"),
                    a.unwrap_or(&null),
                    b.unwrap_or(&null),
                    found,
                );
            }
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            for (index, (a, b)) in a.iter().zip(b).enumerate() {
                collect(&format!("{path}[{index}]"), a, b, found);
            }
        }
        (a, b) if a == b => {}
        (a, b) => found.push(format!("{path}: ours {a}, Cassandra {b}")),
    }
}

fn statement(facts: &Facts, outermost: bool, answer: &Value) -> Map<String, Value> {
    let mut out = Map::new();
    let mut put = |key: &str, value: Value| {
        out.insert(key.to_owned(), value);
    };
    put("kind", json!(format!("{:?}", facts.kind)));
    put("keyspace", name(&facts.keyspace));
    put("table", name(&facts.table));
    if outermost {
        let mut markers = vec![Value::Null; usize::from(facts.markers)];
        for (name, index) in &facts.named_markers {
            markers[usize::from(*index)] = json!(name.as_str());
        }
        put("markers", json!(markers));
    }
    let equalities = || {
        facts
            .key_terms
            .iter()
            .map(|key| json!([key.column.as_str(), term(&key.term)]))
            .collect::<Value>()
    };
    match facts.kind {
        Kind::Insert | Kind::Update | Kind::Delete => {
            put("equalities", equalities());
            put("timestamp", json!(facts.using_timestamp));
            put("ttl", json!(facts.using_ttl));
            put("lwt", json!(facts.lwt));
            put("grows", json!(facts.counterish));
            // Shapes of a write's other restrictions are not among the facts.
            for key in ["tokens", "ins", "ranges", "otherRelations"] {
                put(key, answer[key].clone());
            }
        }
        Kind::Batch => {
            put("timestamp", json!(facts.using_timestamp));
            put("ttl", json!(facts.using_ttl));
            let batch = match facts.batch {
                Some(BatchKind::Logged) => "LOGGED",
                Some(BatchKind::Unlogged) => "UNLOGGED",
                Some(BatchKind::Counter) => "COUNTER",
                None => "none",
            };
            put("batch", json!(batch));
            let inner: Vec<Value> = facts
                .inner
                .iter()
                .enumerate()
                .map(|(i, inner)| Value::Object(statement(inner, false, &answer["inner"][i])))
                .collect();
            put("inner", json!(inner));
        }
        Kind::Select => {
            put("equalities", equalities());
            let default = SelectFacts::default();
            select(facts.select.as_deref().unwrap_or(&default), &mut put);
        }
        _ => {}
    }
    out
}

fn select(select: &SelectFacts, put: &mut impl FnMut(&str, Value)) {
    put("distinct", json!(select.distinct));
    put("json", json!(select.json));
    put("filtering", json!(select.allow_filtering));
    put("grouped", json!(select.group_by));
    put("limit", optional(&select.limit));
    put("perPartitionLimit", optional(&select.per_partition_limit));
    put("otherRelations", json!(select.other_relations));
    put("calls", json!(select.calls));
    let orderings = select.order_by.iter().map(|order| {
        let ann = if order.ann { "ANN " } else { "" };
        let direction = if order.descending { "DESC" } else { "ASC" };
        json!(format!("{ann}{} {direction}", order.column))
    });
    put("orderings", orderings.collect());
    let columns = match &select.columns {
        Selected::All => json!([]),
        Selected::Columns(columns) => columns
            .iter()
            .map(|item| json!([name(&item.column), name(&item.alias)]))
            .collect(),
    };
    put("columns", columns);
    let tokens = select.tokens.iter().map(|token| {
        json!({"columns": names(&token.columns), "op": op(token.op), "term": term(&token.term)})
    });
    put("tokens", tokens.collect());
    let ranges = select.ranges.iter().map(|range| {
        json!({"columns": names(&range.columns), "op": op(range.op), "terms": terms(&range.terms)})
    });
    put("ranges", ranges.collect());
    let ins = select.ins.iter().map(|list| match &list.values {
        InValues::Terms(values) => {
            json!({"columns": names(&list.columns), "terms": terms(values)})
        }
        InValues::Marker(marker) => {
            json!({"columns": names(&list.columns), "marker": term(marker)})
        }
    });
    put("ins", ins.collect());
}

fn name(name: &Option<Name>) -> Value {
    json!(name.as_deref())
}

fn names(names: &[Name]) -> Vec<&str> {
    names.iter().map(Name::as_str).collect()
}

fn terms(terms: &[Term]) -> Vec<String> {
    terms.iter().map(term).collect()
}

fn optional(value: &Option<Term>) -> Value {
    json!(value.as_ref().map(term))
}

fn op(op: Op) -> &'static str {
    match op {
        Op::Equal => "=",
        Op::NotEqual => "!=",
        Op::Less => "<",
        Op::LessEqual => "<=",
        Op::Greater => ">",
        Op::GreaterEqual => ">=",
    }
}

fn term(term: &Term) -> String {
    match term {
        Term::Marker(index) | Term::NamedMarker(index) => index.to_string(),
        Term::Literal(literal) => self::literal(literal),
        Term::Other => "other".into(),
    }
}

fn literal(literal: &Literal) -> String {
    match literal {
        Literal::Null => "NULL".into(),
        Literal::Bool(value) => format!("BOOLEAN:{value}"),
        Literal::Int(value) => format!("INTEGER:{value}"),
        Literal::BigInt(digits) => format!("INTEGER:{digits}"),
        Literal::Float(text) => format!("FLOAT:{text}"),
        Literal::Text(text) => format!("STRING:{text}"),
        Literal::Blob(bytes) => format!("HEX:{}", hex(bytes)),
        Literal::Duration(text) => format!("DURATION:{text}"),
        Literal::Uuid(bytes) => {
            let h = hex(bytes);
            format!(
                "UUID:{}-{}-{}-{}-{}",
                &h[..8],
                &h[8..12],
                &h[12..16],
                &h[16..20],
                &h[20..]
            )
        }
        other => format!("unknown {other:?}"),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}
