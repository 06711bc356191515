//! Random statements on a table with two JSON columns.

use rand::RngExt;
use rand::seq::{IndexedRandom, SliceRandom};
use rand_chacha::ChaCha8Rng;

use crate::session::Value;

/// Where the table's name goes.
pub(crate) const TABLE: &str = "{table}";
const PARTITIONS: i32 = 6;
const ROWS: i32 = 20;

/// How values stand in a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Literals,
    Markers,
    Names,
}

/// A statement with its values.
#[derive(Clone, Debug)]
pub(crate) struct Statement {
    pub text: String,
    pub values: Vec<Value>,
    pub form: Form,
    pub is_conditional: bool,
    /// Partition and row of a write.
    pub key: (i32, i32),
}

impl Statement {
    fn new(form: Form) -> Statement {
        Statement {
            text: String::new(),
            values: Vec::new(),
            form,
            is_conditional: false,
            key: (0, 0),
        }
    }

    fn say(&mut self, text: &str) {
        self.text.push_str(text);
    }

    fn bind(&mut self, value: Value) {
        let marker = format!(":m{}", self.values.len());
        match (self.form, &value) {
            (Form::Literals, Value::Int(n)) => self.say(&n.to_string()),
            (Form::Literals, Value::Text(text)) => {
                let quoted = format!("'{}'", text.replace('\'', "''"));
                self.say(&quoted);
            }
            (Form::Literals, Value::Null | Value::Unset) => self.say("null"),
            (Form::Markers, _) => {
                self.say("?");
                self.values.push(value);
            }
            (Form::Names, _) => {
                self.say(&marker);
                self.values.push(value);
            }
        }
    }
}

pub(crate) fn document(rng: &mut ChaCha8Rng) -> String {
    let word = *["ant", "bee", "c\\\"at", "d'og", "größe"]
        .choose(rng)
        .expect("words");
    let n = rng.random_range(0..1_000);
    match rng.random_range(0..10) {
        0 => String::new(),
        1 => format!("no JSON at all: {word}"),
        2 => format!("{{ \"name\" :\t\"{word}\", \"n\": {n}.50 }}"),
        _ => format!(
            r#"{{"name":"{word}","seen":[{n},{},3],"at":{{"city":"Athens","zip":"{n:05}"}},"ok":true}}"#,
            n / 2
        ),
    }
}

fn form(rng: &mut ChaCha8Rng) -> Form {
    *[Form::Literals, Form::Markers, Form::Names]
        .choose(rng)
        .expect("forms")
}

/// The columns outside of the key that a write sets, with values.
fn changes(rng: &mut ChaCha8Rng) -> Vec<(&'static str, Value)> {
    let mut columns = vec!["doc", "\"Note\"", "n"];
    columns.shuffle(rng);
    columns.truncate(rng.random_range(1..=3));
    let value = |column: &str, rng: &mut ChaCha8Rng| match rng.random_range(0..10) {
        0 => Value::Null,
        1 => Value::Unset,
        _ if column == "n" => Value::Int(rng.random_range(0..9)),
        _ => Value::Text(document(rng)),
    };
    columns
        .into_iter()
        .map(|column| (column, value(column, rng)))
        .collect()
}

fn key(rng: &mut ChaCha8Rng) -> (i32, i32) {
    (rng.random_range(0..PARTITIONS), rng.random_range(0..ROWS))
}

/// INSERT JSON of some columns.
fn write_json(rng: &mut ChaCha8Rng, is_conditional: bool) -> Statement {
    let mut of = Statement::new(form(rng));
    let (k, c) = key(rng);
    of.key = (k, c);
    let mut members = vec![format!("\"k\": {k}"), format!("\"C\":{c}")];
    for (name, value) in changes(rng) {
        let value = match value {
            Value::Int(n) => n.to_string(),
            Value::Text(text) => serde_json::Value::String(text).to_string(),
            Value::Null => "null".to_owned(),
            Value::Unset => continue,
        };
        let name = serde_json::Value::String(name.to_owned());
        members.push(format!("{name}: {value}"));
    }
    members.shuffle(rng);
    of.say(&format!("INSERT INTO {TABLE} JSON "));
    of.bind(Value::Text(format!("{{{}}}", members.join(", "))));
    let unnamed = ["", " DEFAULT NULL", " DEFAULT UNSET"];
    of.say(unnamed.choose(rng).expect("words"));
    if is_conditional {
        of.say(" IF NOT EXISTS");
        of.is_conditional = true;
    }
    of
}

pub(crate) fn write(rng: &mut ChaCha8Rng, may_be_conditional: bool) -> Statement {
    let mut of = Statement::new(form(rng));
    let (k, c) = key(rng);
    of.key = (k, c);
    let is_conditional = may_be_conditional && rng.random_bool(0.15);
    if rng.random_bool(0.1) {
        return write_json(rng, is_conditional);
    }
    let ttl = (rng.random_bool(0.2)).then(|| Value::Int(rng.random_range(10_000..20_000)));
    match rng.random_range(0..10) {
        0..4 => {
            let changes = changes(rng);
            of.say(&format!("INSERT INTO {TABLE} (k, c"));
            changes
                .iter()
                .for_each(|(name, _)| of.say(&format!(", {name}")));
            of.say(") VALUES (");
            of.bind(Value::Int(k));
            of.say(",");
            of.bind(Value::Int(c));
            for (_, value) in changes {
                of.say(", ");
                of.bind(value);
            }
            of.say(")");
            if is_conditional {
                of.say(" IF NOT EXISTS");
                of.is_conditional = true;
            }
            if let Some(ttl) = ttl {
                of.say(" USING TTL ");
                of.bind(ttl);
            }
        }
        4..8 => {
            of.say(&format!("UPDATE {TABLE}"));
            if let Some(ttl) = ttl {
                of.say(" USING TTL ");
                of.bind(ttl);
            }
            for (at, (name, value)) in changes(rng).into_iter().enumerate() {
                of.say(if at == 0 { " SET " } else { ", " });
                of.say(&format!("{name} = "));
                of.bind(value);
            }
            of.say(" WHERE k = ");
            of.bind(Value::Int(k));
            of.say(" AND c = ");
            of.bind(Value::Int(c));
            if is_conditional {
                of.is_conditional = true;
                if rng.random_bool(0.5) {
                    of.say(" IF EXISTS");
                } else {
                    of.say(" IF n = ");
                    of.bind(Value::Int(rng.random_range(0..9)));
                }
            }
        }
        _ => {
            let what = *["", "doc ", "n, \"Note\" ", "\"Note\", doc "]
                .choose(rng)
                .expect("columns");
            of.say(&format!("DELETE {what}FROM {TABLE} WHERE k = "));
            of.bind(Value::Int(k));
            match (what.is_empty(), rng.random_range(0..4)) {
                (true, 0) => {}
                (true, 1) => {
                    of.say(" AND c > ");
                    of.bind(Value::Int(ROWS - 2));
                }
                _ => {
                    of.say(" AND c = ");
                    of.bind(Value::Int(c));
                }
            }
        }
    }
    of
}

pub(crate) fn select(rng: &mut ChaCha8Rng) -> Statement {
    let mut of = Statement::new(form(rng));
    let (k, c) = key(rng);
    let is_grouped = rng.random_bool(0.1);
    let selection = match rng.random_range(0..10) {
        0 => "count(*)".to_owned(),
        1 => "max(n), doc".to_owned(),
        2 => "token(k), n, \"Note\"".to_owned(),
        3 | 4 => "*".to_owned(),
        _ => {
            let all = [
                "k",
                "c",
                "doc",
                "\"Note\"",
                "n",
                "doc AS d",
                "\"Note\" AS \"N\"",
                "doc",
                "m",
            ];
            let count = rng.random_range(1..6);
            let chosen: Vec<&str> = all.sample(rng, count).copied().collect();
            chosen.join(", ")
        }
    };
    let json = if rng.random_bool(0.15) { "JSON " } else { "" };
    of.say(&format!("SELECT {json}{selection} FROM {TABLE}"));
    let mut is_reversed = false;
    let is_whole = match rng.random_range(0..6) {
        0 => true,
        1 => {
            of.say(" WHERE k IN (");
            of.bind(Value::Int(k));
            of.say(", ");
            of.bind(Value::Int((k + 2) % PARTITIONS));
            of.say(")");
            false
        }
        2 | 3 => {
            of.say(" WHERE k = ");
            of.bind(Value::Int(k));
            false
        }
        4 => {
            of.say(" WHERE k = ");
            of.bind(Value::Int(k));
            of.say(" AND c >= ");
            of.bind(Value::Int(c));
            is_reversed = !is_grouped && rng.random_bool(0.5);
            false
        }
        _ => {
            of.say(" WHERE k = ");
            of.bind(Value::Int(k));
            of.say(" AND c = ");
            of.bind(Value::Int(c));
            false
        }
    };
    if is_grouped {
        of.say(" GROUP BY k");
    }
    if is_reversed {
        of.say(" ORDER BY c DESC");
    }
    if rng.random_bool(0.2) {
        of.say(" PER PARTITION LIMIT 3");
    }
    if rng.random_bool(0.3) {
        of.say(" LIMIT ");
        of.bind(Value::Int(rng.random_range(1..12)));
    }
    if is_whole && rng.random_bool(0.3) {
        of.say(" ALLOW FILTERING");
    }
    of
}
