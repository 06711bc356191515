//! Scan permits of scans whose answers nobody waits for any more.
//!
//! A client leaves, a page has taken too long, a link is closed for silence: the node may work on all the same, and
//! cannot be told to stop. If the permit were returned at once, the node would be asked for more scans than it has
//! permits. So it is kept until the answer has come, or the node has said that there will be none, or the node
//! must be done by its own time-outs.

use std::time::Instant;

use helenus_policy::ring::NodeIndex;

use crate::keys::LinkKey;
use crate::scheduler::shared_node::ScanPermit;

/// A permit that is kept for what was sent on this stream.
#[derive(Debug)]
pub(super) struct Kept {
    pub(super) _permit: ScanPermit,
    pub(super) node: NodeIndex,
    pub(super) link: LinkKey,
    pub(super) stream: i16,
    pub(super) until: Instant,
}

/// All of a worker: few, if any.
#[derive(Debug, Default)]
pub(super) struct KeptPermits(Vec<Kept>);

impl KeptPermits {
    pub(super) fn keep(&mut self, kept: Kept) {
        self.0.push(kept);
    }

    /// Returns that of this stream. The node that has it back.
    #[inline]
    pub(super) fn give_back(&mut self, link: LinkKey, stream: i16) -> Option<NodeIndex> {
        let mut kept = self.0.iter();
        let at = kept.position(|kept| (kept.link, kept.stream) == (link, stream))?;
        Some(self.0.swap_remove(at).node)
    }

    /// Returns one whose time is over. The node that has it back.
    pub(super) fn give_back_due(&mut self, now: Instant) -> Option<NodeIndex> {
        let at = self.0.iter().position(|kept| kept.until <= now)?;
        Some(self.0.swap_remove(at).node)
    }

    /// Those of a link are kept no longer than this.
    pub(super) fn bound(&mut self, link: LinkKey, until: Instant) {
        for kept in self.0.iter_mut().filter(|kept| kept.link == link) {
            kept.until = kept.until.min(until);
        }
    }
}
