//! Which permits are kept when scans are given up, and when they are returned ([`crate::scheduler::kept`]).

use std::time::Instant;

use helenus_policy::ring::NodeIndex;

use crate::context::Context;
use crate::keys::LinkKey;
use crate::scheduler::kept::Kept;
use crate::scheduler::{Admission, Queues};

impl Admission {
    /// True if it has a scan permit.
    #[inline]
    pub(crate) fn has_permit(&self) -> bool {
        self.permit.is_some()
    }
}

impl Queues {
    /// Keeps the permit of what was sent there and has been given up, until its answer comes, or until then.
    pub(crate) fn keep_permit(
        &mut self,
        cx: &Context,
        admission: &mut Admission,
        link: LinkKey,
        stream: i16,
        until: Instant,
    ) {
        if until > cx.now
            && let Some(permit) = admission.permit.take()
        {
            self.kept.keep(Kept {
                _permit: permit.keep(),
                node: admission.place.node,
                link,
                stream,
                until,
            });
        }
    }

    /// A request that has been given up there is over: its answer has come, or there will be none.
    #[inline]
    pub(crate) fn on_late_answer(&mut self, cx: &mut Context, link: LinkKey, stream: i16) {
        if let Some(node) = self.kept.give_back(link, stream) {
            self.on_permit_returned(cx, node);
        }
    }

    /// A link is gone, so that no answer can tell when its node is done: it will be by then.
    pub(crate) fn on_link_gone(&mut self, link: LinkKey, until: Instant) {
        self.kept.bound(link, until);
    }

    /// Returns the permits whose time is over, once a tick.
    pub(crate) fn return_permits(&mut self, cx: &mut Context) {
        while let Some(node) = self.kept.give_back_due(cx.now) {
            self.on_permit_returned(cx, node);
        }
    }

    fn on_permit_returned(&mut self, cx: &mut Context, node: NodeIndex) {
        let noted = self.offer_permit(cx, node);
        self.note(node, noted);
    }
}
