//! What the catalogue means for the tables.

use super::{encodings, layouts};

#[derive(Clone, Debug, Default)]
pub(crate) struct Known {
    pub layouts: layouts::Known,
    pub encodings: encodings::Known,
}

impl Known {
    /// What a node that lags behind in its schema may say.
    pub(crate) fn rejected(&self) -> usize {
        self.layouts.rejected + self.encodings.rejected
    }

    /// What does not fit, as sentences.
    pub(crate) fn problems(&self) -> impl Iterator<Item = &String> {
        self.layouts.problems.iter().chain(&self.encodings.problems)
    }
}
