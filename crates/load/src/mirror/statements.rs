//! Statements of a proxy's clients, as they are met: each is looked at once, and prepared when it is first played.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::{Duration, Instant};

use helenus_capture::Statement;
use tokio::sync::Mutex;

use crate::replay::statements::Prepared;

/// Prepared statements that are kept, and bytes of these.
pub(crate) const KEPT_MAX: usize = 10_000;
const KEPT_BYTES_MAX: usize = 64 << 20;
/// Statements that are counted each by itself.
const SHOWN_MAX: usize = 1_000;
/// Time after which a statement that an endpoint did not prepare is tried again.
pub(crate) const REFUSED_FOR: Duration = Duration::from_secs(30);

/// The state of a statement at an endpoint.
#[derive(Clone, Debug)]
pub(crate) enum Preparation {
    Unknown,
    Done(Arc<Prepared>),
    /// Until then it is not asked again.
    Refused {
        why: String,
        until: Instant,
    },
}

/// A statement that is played.
#[derive(Debug)]
pub(crate) struct Known {
    pub statement: Statement,
    /// Tells it from the others.
    pub number: u64,
    /// Among those that are shown.
    pub shown: usize,
    /// By endpoint. Whoever holds one prepares the statement, so that nobody else does.
    pub prepared: Vec<Mutex<Preparation>>,
}

/// The statements that were met so far, in bounded memory.
pub(crate) struct Statements {
    endpoints: usize,
    kept: HashMap<Statement, Arc<Known>>,
    kept_bytes: usize,
    /// By text without values, and keyspace.
    shown: HashMap<(String, Option<String>), usize>,
    texts: Vec<String>,
}

impl Statements {
    pub(crate) fn new(endpoints: usize) -> Statements {
        Statements {
            endpoints,
            kept: HashMap::new(),
            kept_bytes: 0,
            shown: HashMap::new(),
            texts: Vec::new(),
        }
    }

    /// The entry of a statement. `is_prepared`: clients have prepared it; then the answer is None once there are
    /// too many of these.
    pub(crate) fn of(&mut self, statement: &Statement, is_prepared: bool) -> Option<Arc<Known>> {
        if let Some(known) = self.kept.get(statement) {
            return Some(known.clone());
        }
        let mut hasher = DefaultHasher::new();
        statement.hash(&mut hasher);
        let known = Arc::new(Known {
            number: hasher.finish(),
            shown: self.shown_of(statement),
            statement: statement.clone(),
            prepared: (0..self.endpoints)
                .map(|_| Mutex::new(Preparation::Unknown))
                .collect(),
        });
        // Texts that were not prepared have values in them, and may all be different.
        if is_prepared {
            let bytes = byte_len(statement);
            if self.kept.len() >= KEPT_MAX || self.kept_bytes + bytes > KEPT_BYTES_MAX {
                return None;
            }
            self.kept_bytes += bytes;
            self.kept.insert(statement.clone(), known.clone());
        }
        Some(known)
    }

    fn shown_of(&mut self, statement: &Statement) -> usize {
        let name = (statement.text.clone(), statement.keyspace.clone());
        if let Some(shown) = self.shown.get(&name) {
            return *shown;
        }
        if self.texts.len() >= SHOWN_MAX {
            return SHOWN_MAX;
        }
        let shown = self.texts.len();
        self.texts.push(name.0.clone());
        self.shown.insert(name, shown);
        shown
    }

    /// The text of a statement that is shown.
    pub(crate) fn text(&self, shown: usize) -> String {
        let text = self.texts.get(shown);
        text.map_or_else(
            || format!("all but the first {SHOWN_MAX} statements"),
            String::clone,
        )
    }
}

/// Bytes that a statement takes, about: it is held twice, to be found and to be played, or to be played and in the
/// request that is sent.
pub(crate) fn byte_len(statement: &Statement) -> usize {
    let texts = [&statement.keyspace, &statement.sent];
    let texts: usize = texts.into_iter().flatten().map(String::len).sum();
    2 * (size_of::<Known>() + statement.text.len() + texts)
}
