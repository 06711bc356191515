//! Random operations over a few tables of random shapes.

mod invalid;
mod statements;

use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::schema::Table;
use crate::values::Ty;

/// Stands for the keyspace in texts.
pub(crate) const KEYSPACE: &str = "{ks}";

/// A statement and the types of its markers.
#[derive(Clone, Debug)]
pub(crate) struct Template {
    pub text: String,
    /// Name (of named markers) and type.
    pub markers: Vec<(Option<String>, Ty)>,
    pub keyed: bool,
}

/// A bound value.
#[derive(Clone, Debug)]
pub(crate) enum Bound {
    Bytes(Vec<u8>),
    /// −1 null, −2 unset; anything else is an offence.
    Length(i32),
}

/// Parameters of QUERY, EXECUTE and BATCH besides the statement.
#[derive(Clone, Debug, Default)]
pub(crate) struct Options {
    pub consistency: u16,
    pub values: Vec<Bound>,
    pub names: Option<Vec<String>>,
    pub skip_metadata: bool,
    pub page_size: Option<i32>,
    pub serial_consistency: Option<u16>,
    pub timestamp: Option<i64>,
    /// v5: name the keyspace in the request.
    pub keyspace: bool,
    pub now_in_seconds: Option<i32>,
}

#[derive(Clone, Debug)]
pub(crate) enum Child {
    Text(String, Vec<Bound>),
    Prepared(usize, Vec<Bound>),
}

#[derive(Clone, Debug)]
pub(crate) enum What {
    Query(String, Options),
    Prepare(Template, bool),
    /// Index of the prepared statement, counted from the latest.
    Execute(usize, Options),
    Batch(u8, Vec<Child>, Options),
}

#[derive(Clone, Debug)]
pub(crate) struct Op {
    pub what: What,
    pub tracing: bool,
    /// It carries a custom payload, from v4 on, which Cassandra's own handler ignores.
    pub payload: bool,
}

impl Op {
    /// The prepared statements it names, counted from the latest.
    pub(crate) fn prepared(&self) -> Vec<usize> {
        match &self.what {
            What::Execute(back, _) => vec![*back],
            What::Batch(_, children, _) => {
                let prepared = children.iter().filter_map(|child| match child {
                    Child::Prepared(back, _) => Some(*back),
                    Child::Text(..) => None,
                });
                prepared.collect()
            }
            _ => Vec::new(),
        }
    }

    /// True if the nodes may have to agree on a new schema.
    pub(crate) fn changes_schema(&self) -> bool {
        let What::Query(text, _) = &self.what else {
            return false;
        };
        ["CREATE", "ALTER", "DROP"]
            .iter()
            .any(|verb| text.starts_with(verb))
    }
}

pub(crate) struct Generator {
    pub rng: ChaCha8Rng,
    pub tables: Vec<Table>,
    /// Prepared statements of this connection; the runner keeps their ids in the same order.
    pub prepared: Vec<Template>,
    vectors: bool,
    made: usize,
    pub clock: i64,
    /// Texts may leave the keyspace out (after USE, or named in the request).
    unqualified: bool,
    /// Statements are to be prepared, and run many times.
    prepares: bool,
}

/// More would only slow the nodes down.
const TABLES_MAX: usize = 8;
pub(crate) const QUORUM: u16 = 4;
pub(crate) const ALL: u16 = 5;
const TWO: u16 = 2;
const THREE: u16 = 3;
/// Answers at these levels are the same whichever replicas give them: there are three of each row, or one, of which two
/// cannot be had.
const LEVELS: &[u16] = &[QUORUM, QUORUM, QUORUM, ALL, 6, TWO, THREE];
/// At these, ONE and LOCAL_ONE, what was written at ALL is seen, and nothing else may be asked.
const LEVELS_OF_ONE: &[u16] = &[1, 10, 1, 10, QUORUM];

impl Generator {
    pub(crate) fn new(seed: u64, vectors: bool) -> Generator {
        Generator {
            rng: ChaCha8Rng::seed_from_u64(seed),
            tables: Vec::new(),
            prepared: Vec::new(),
            vectors,
            made: 0,
            clock: 1_700_000_000_000_000,
            unqualified: false,
            prepares: false,
        }
    }

    /// A new table.
    pub(crate) fn create_table(&mut self) -> Op {
        self.made += 1;
        let name = format!("t{}", self.made);
        let (table, text) = Table::random(name, &mut self.rng, self.vectors);
        self.tables.push(table);
        plain(text)
    }

    pub(crate) fn next(&mut self) -> Op {
        self.clock += 1;
        self.unqualified = false;
        let tracing = self.rng.random_bool(0.003);
        let mut what = match self.rng.random_range(0..1000) {
            0..6 => return self.schema_change(),
            6..20 => {
                let text = format!("USE {KEYSPACE}");
                What::Query(text, self.options(Vec::new()))
            }
            20..120 => {
                self.unqualified = self.rng.random_bool(0.2);
                let keyspace = self.unqualified && self.rng.random_bool(0.7);
                self.prepares = true;
                let template = self.statement(true);
                self.prepares = false;
                What::Prepare(template, keyspace)
            }
            120..420 if !self.prepared.is_empty() => {
                let back = self.rng.random_range(0..self.prepared.len().min(60));
                let template = self.prepared[self.prepared.len() - 1 - back].clone();
                let mut options = self.bind(&template);
                options.skip_metadata = self.rng.random_bool(0.4);
                What::Execute(back, options)
            }
            420..500 => self.batch(),
            500..560 => {
                let text = self.invalid();
                What::Query(text, self.options(Vec::new()))
            }
            560..620 => {
                let template = self.statement(false);
                let text = self.mutate(&template.text);
                What::Query(text, self.options(Vec::new()))
            }
            _ => {
                self.unqualified = self.rng.random_bool(0.15);
                let bound = self.rng.random_bool(0.5);
                let template = self.statement(bound);
                let mut options = self.bind(&template);
                options.keyspace = self.unqualified && self.rng.random_bool(0.7);
                What::Query(template.text, options)
            }
        };
        self.state_time(&mut what);
        self.choose_level(&mut what);
        let payload = self.rng.random_bool(0.02);
        Op {
            what,
            tracing,
            payload,
        }
    }

    /// Tables that are read at ONE are written at ALL.
    fn choose_level(&mut self, what: &mut What) {
        let prepared = |back: usize| &*self.prepared[self.prepared.len() - 1 - back].text;
        let texts: Vec<&str> = match &*what {
            What::Query(text, _) => vec![text],
            What::Execute(back, _) => vec![prepared(*back)],
            What::Batch(_, children, _) => children
                .iter()
                .map(|child| match child {
                    Child::Text(text, _) => text,
                    Child::Prepared(back, _) => prepared(*back),
                })
                .collect(),
            What::Prepare(..) => return,
        };
        // A text that was mutated may name another table than it did.
        let named = |of_one: bool| {
            let tables = self.tables.iter().filter(|table| table.of_one == of_one);
            tables
                .map(|table| &table.name)
                .any(|name| texts.iter().any(|text| names(text, name)))
        };
        let (of_one, of_others) = (named(true), named(false));
        let is_read = texts.iter().all(|text| text.starts_with("SELECT"));
        let (What::Query(_, options) | What::Execute(_, options) | What::Batch(_, _, options)) =
            what
        else {
            return;
        };
        if of_one && !is_read {
            options.consistency = ALL;
        } else if of_one && !of_others {
            options.consistency = *LEVELS_OF_ONE.choose(&mut self.rng).unwrap();
        }
    }

    /// Nothing may be written at a time that a node chooses, unless nobody asks for it: a text for a table with
    /// conditional updates sometimes is.
    fn state_time(&mut self, what: &mut What) {
        if let What::Query(text, _) = &*what {
            let mut others = self.tables.iter().filter(|table| !table.lwt);
            if !others.any(|table| names(text, &table.name)) && self.rng.random_bool(0.2) {
                return;
            }
        }
        let (text, options) = match what {
            What::Query(text, options) => (text.as_str(), options),
            What::Execute(back, options) => {
                let at = self.prepared.len() - 1 - *back;
                (self.prepared[at].text.as_str(), options)
            }
            What::Batch(_, _, options) => ("", options),
            What::Prepare(..) => return,
        };
        if !text.contains(" USING TIMESTAMP 17") && !text.starts_with("SELECT") {
            options.timestamp = Some(self.clock);
        }
    }

    fn batch(&mut self) -> What {
        let kind = *[0, 0, 1, 1, 2].choose(&mut self.rng).unwrap();
        let children = (0..self.rng.random_range(0..5)).map(|_| {
            if self.rng.random_bool(0.4) && !self.prepared.is_empty() {
                let back = self.rng.random_range(0..self.prepared.len().min(60));
                let template = self.prepared[self.prepared.len() - 1 - back].clone();
                if !template.text.starts_with("SELECT") || self.rng.random_bool(0.05) {
                    let options = self.bind(&template);
                    return Child::Prepared(back, options.values);
                }
            }
            let bound = self.rng.random_bool(0.5);
            let mut template = self.modification(bound);
            while template.markers.iter().any(|(name, _)| name.is_some()) {
                template = self.modification(bound);
            }
            let options = self.bind(&template);
            Child::Text(template.text, options.values)
        });
        let children = children.collect();
        let mut options = self.options(Vec::new());
        options.page_size = None;
        What::Batch(kind, children, options)
    }

    fn options(&mut self, values: Vec<Bound>) -> Options {
        let rng = &mut self.rng;
        let mut consistency = *LEVELS.choose(rng).unwrap();
        if rng.random_bool(0.02) {
            // ANY, SERIAL and LOCAL_SERIAL do not fit everywhere.
            consistency = *[0, 8, 9, 7].choose(rng).unwrap();
        }
        Options {
            consistency,
            values,
            page_size: match rng.random_range(0..10) {
                0..4 => Some(rng.random_range(1..12)),
                4..6 => Some(5000),
                6 => Some(rng.random_range(-1..1)),
                _ => None,
            },
            serial_consistency: match rng.random_range(0..10) {
                0..2 => Some(8),
                2 => Some(9),
                3 if rng.random_bool(0.1) => Some(4),
                _ => None,
            },
            timestamp: rng.random_bool(0.1).then_some(self.clock),
            now_in_seconds: rng.random_bool(0.05).then_some(1_700_000_000),
            ..Options::default()
        }
    }

    fn bind(&mut self, template: &Template) -> Options {
        let mut values = Vec::new();
        for (_, ty) in &template.markers {
            let n = self.rng.random_range(0..100);
            values.push(match n {
                // A node never answers a DELETE of what is less than null.
                0 if !template.text.starts_with("DELETE") => Bound::Length(-1),
                1 if !template.keyed || self.rng.random_bool(0.2) => Bound::Length(-2),
                2 if self.rng.random_bool(0.5) => Bound::Bytes(vec![1, 2, 3]),
                3 if self.rng.random_bool(0.2) => Bound::Bytes(Vec::new()),
                4 if self.rng.random_bool(0.03) => Bound::Length(-3),
                _ => Bound::Bytes(ty.value(&mut self.rng, template.keyed).bytes),
            });
        }
        if self.rng.random_bool(0.01) {
            values.push(Bound::Bytes(vec![0; 4]));
        } else if self.rng.random_bool(0.01) {
            values.pop();
        }
        let names: Vec<String> = template
            .markers
            .iter()
            .filter_map(|(name, _)| name.clone())
            .collect();
        let mut options = self.options(values);
        if !names.is_empty()
            && names.len() == options.values.len()
            && (self.rng.random_bool(0.5) || template.markers.len() != names.len())
        {
            options.names = Some(names);
        }
        options
    }

    fn schema_change(&mut self) -> Op {
        let choice = self.rng.random_range(0..10);
        if self.tables.len() < 4 || choice < 3 {
            return self.create_table();
        }
        let at = self.rng.random_range(0..self.tables.len());
        let name = self.tables[at].name.clone();
        if self.tables.len() > TABLES_MAX {
            self.tables.remove(at);
            return plain(format!("DROP TABLE {KEYSPACE}.{name}"));
        }
        let table = &mut self.tables[at];
        plain(match choice {
            3 if self.made > 6 => {
                self.tables.remove(at);
                format!("DROP TABLE {KEYSPACE}.{name}")
            }
            4 if table.regular.len() > 2 => {
                let column = table.regular.pop().map(|c| c.name).unwrap_or_default();
                format!("ALTER TABLE {KEYSPACE}.{name} DROP {column}")
            }
            5 => format!("TRUNCATE {KEYSPACE}.{name}"),
            6 => format!("CREATE TABLE {KEYSPACE}.{name} (a int PRIMARY KEY)"),
            7 => format!("DROP TABLE IF EXISTS {KEYSPACE}.nothing"),
            _ if !table.counter => {
                self.made += 1;
                let column = format!("x{}", self.made);
                let ty = Ty::Native("int");
                table.regular.push(crate::schema::Column {
                    name: column.clone(),
                    ty,
                    is_static: false,
                });
                format!("ALTER TABLE {KEYSPACE}.{name} ADD {column} int")
            }
            _ => format!("ALTER TABLE {KEYSPACE}.{name} WITH comment = 'other'"),
        })
    }

    /// A statement that most likely says nothing to Cassandra any more.
    fn mutate(&mut self, text: &str) -> String {
        let mut chars: Vec<char> = text.chars().collect();
        let at = self.rng.random_range(0..chars.len());
        match self.rng.random_range(0..4) {
            0 => {
                chars.remove(at);
            }
            1 => chars.insert(
                at,
                *['(', '\'', '?', ';', 'x', '"']
                    .choose(&mut self.rng)
                    .unwrap(),
            ),
            2 => chars.truncate(at),
            _ => {
                let other = self.rng.random_range(0..chars.len());
                chars.swap(at, other);
            }
        }
        chars.into_iter().collect()
    }
}

/// A text as it is, at QUORUM.
pub(crate) fn plain(text: String) -> Op {
    let options = Options {
        consistency: QUORUM,
        ..Options::default()
    };
    Op {
        what: What::Query(text, options),
        tracing: false,
        payload: false,
    }
}

/// True if a text has this name as a word of its own.
fn names(text: &str, name: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(name).any(|(at, _)| {
        !text[..at].ends_with(is_part) && !text[at + name.len()..].starts_with(is_part)
    })
}
