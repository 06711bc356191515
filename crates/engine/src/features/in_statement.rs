//! What features keep with statements.

use crate::features::*;

/// With a write that has a marker for its timestamp.
#[derive(Debug, Default)]
pub(crate) struct InTimedForm {
    pub(super) merge: merge::Refusals,
}
