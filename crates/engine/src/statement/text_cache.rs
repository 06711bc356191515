//! The facts of the texts that clients have sent lately: to read a text takes longer than all else
//! that happens to its request.

use std::borrow::Borrow;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use crate::recent::Recent;
use crate::statement::prepared::Statement;

/// Longer texts are mostly unique (literals in bulk): not worth their memory.
const TEXT_KEPT_MAX: usize = 16 * 1024;

/// What is known of texts, up to a bound in bytes.
pub(super) struct TextCache {
    known: Recent<Text, Arc<Statement>>,
}

impl TextCache {
    pub(super) fn new(bytes_max: usize) -> TextCache {
        TextCache {
            known: Recent::new(bytes_max),
        }
    }

    pub(super) fn set_bytes_max(&mut self, bytes_max: usize) {
        self.known.set_bytes_max(bytes_max);
    }

    /// What a text asks for.
    pub(super) fn statement(&mut self, text: &str) -> Arc<Statement> {
        if let Some(found) = self.known.get(text) {
            return found;
        }
        let statement = Arc::new(Statement::new(text));
        if text.len() <= TEXT_KEPT_MAX {
            let weight = statement.byte_len();
            let text = Text(statement.clone());
            self.known.insert(text, statement.clone(), weight);
        }
        statement
    }
}

/// A statement as the key of a map, by its text.
#[derive(Clone, Debug)]
struct Text(Arc<Statement>);

impl Borrow<str> for Text {
    fn borrow(&self) -> &str {
        &self.0.text
    }
}

impl PartialEq for Text {
    fn eq(&self, other: &Self) -> bool {
        self.0.text == other.0.text
    }
}

impl Eq for Text {}

impl Hash for Text {
    fn hash<H: Hasher>(&self, state: &mut H) {
        // As that of the str that it stands for.
        self.0.text.hash(state);
    }
}
