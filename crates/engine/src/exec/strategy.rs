//! Ways to carry out a client request by several node requests.

use std::fmt::Debug;

use crate::exec::context::ExecContext;
use crate::exec::outcome::{Outcome, Step};
use crate::keys::NodeRequestKey;
use crate::statement::learned::Learned;

/// A small state machine: what became of a node request goes in, what is next comes out.
///
/// It has at most one node request for the whole of the client's at a time, or any number for parts of it, by number.
pub(crate) trait Strategy: Debug {
    /// Sends what comes first, if that was not sent when it was made.
    fn begin(&mut self, _around: &mut ExecContext<'_>) -> Step<'static> {
        Step::Wait
    }

    /// Takes in what became of the node request for the whole.
    fn on_whole<'a>(&mut self, _around: &mut ExecContext<'_>, outcome: Outcome<'a>) -> Step<'a> {
        outcome.unchanged()
    }

    /// Takes in what became of its part of that number. [`Step::Whole`]: nothing of it is under way any more.
    fn on_part<'a>(
        &mut self,
        cx: &mut ExecContext<'_>,
        part: u16,
        outcome: Outcome<'a>,
    ) -> Step<'a>;

    /// The statement that it had asked the nodes to prepare is prepared by now, or was refused.
    fn on_range_settled(&mut self, _around: &mut ExecContext<'_>) -> Step<'static> {
        Step::Wait
    }

    /// The node request that it waits for, if it is one alone.
    fn whole(&self) -> Option<NodeRequestKey> {
        None
    }

    /// The node requests for its parts that have not been answered.
    fn children(&self) -> Vec<NodeRequestKey>;

    /// True if it waits for this node request as for its part of that number.
    fn awaits(&self, part: u16, child: NodeRequestKey) -> bool;

    /// True if parts are under way in place of the whole.
    fn is_in_parts(&self) -> bool {
        self.whole().is_none()
    }

    /// How often its part of that number has been halved.
    fn halved(&self, _part: u16) -> u8 {
        0
    }

    /// True if it is a page of a scan, which any number of node requests may go to.
    fn is_page(&self) -> bool {
        false
    }

    /// True if a page of it has been read already.
    fn has_rows(&self) -> bool {
        false
    }

    /// Its client is answered now, whatever its node requests come to. They are not waited for any more.
    fn on_cut_short(&mut self, _around: &mut ExecContext<'_>) {}

    /// Its name for people.
    fn name(&self) -> &'static str;

    /// Bytes of answers that are kept.
    fn byte_len(&self) -> usize {
        0
    }

    /// The node request for the whole has timed out.
    fn note_timeout(&self, _learned: &Learned) {}
}
