//! The end of a page that was read in parts.

use helenus_wire::{PageStart, RowsJoin};

use crate::rewrite::values::clamp;

/// The last piece of a page that was read in parts.
#[derive(Debug)]
pub(crate) struct Tail {
    /// Rows left of the statement's LIMIT when the page began.
    pub remaining: u32,
    /// True if the client wants no metadata although the parts have them.
    pub skip_metadata: bool,
}

impl Tail {
    /// Makes the page that the client gets of all its rows.
    pub(in crate::exec) fn finish(&self, join: &mut RowsJoin) {
        let state = self.state(join);
        join.set_paging_state(state);
        if self.skip_metadata {
            join.skip_metadata();
        }
    }

    /// The client's paging state in place of the last piece's.
    fn state(&self, join: &RowsJoin) -> Option<Vec<u8>> {
        let remaining = self.remaining.saturating_sub(clamp(join.row_count()));
        let start = PageStart::parse(join.paging_state()?).ok()?;
        (remaining > 0).then(|| start.with_remaining(remaining).write())
    }
}
