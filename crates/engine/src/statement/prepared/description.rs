//! All that PREPARED tells a client of a statement: whoever has learned something else must hear so.

use std::hash::{DefaultHasher, Hash, Hasher};

use helenus_wire::PreparedView;
use serde::{Deserialize, Serialize};

/// The names and types of markers, which of them make up the partition key, and the columns of the result, as a
/// number. A client's way to bind values and to read rows follows from these.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub(crate) struct Description(u64);

impl Description {
    pub(crate) fn of(view: &PreparedView<'_>) -> Description {
        let mut hasher = DefaultHasher::new();
        view.marker_metadata.hash(&mut hasher);
        view.result_metadata_id.hash(&mut hasher);
        view.result_metadata.hash(&mut hasher);
        Description(hasher.finish())
    }
}
