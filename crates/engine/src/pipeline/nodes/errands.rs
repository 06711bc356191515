//! Ends of the proxy's own errands at nodes.

use helenus_policy::ring::NodeIndex;
use helenus_wire::{ErrorBody, Opcode, Version};

use crate::keys::NodeRequestKey;
use crate::pipeline::engine::Engine;
use crate::pipeline::node_request::Owner;
use crate::pipeline::nodes::errand::Errand;

/// A node's answer to an errand.
#[derive(Clone, Copy)]
pub(crate) struct ErrandAnswer<'a> {
    pub node: NodeIndex,
    pub opcode: Opcode,
    /// The body behind tracing id, warnings and payload.
    pub content: &'a [u8],
    pub version: Version,
}

/// How an errand ends. Each function forgets the node request, and has whoever waits for it go on.
pub(crate) trait Run {
    fn on_answered(&self, engine: &mut Engine, key: NodeRequestKey, answer: &ErrandAnswer<'_>);

    /// Nothing has come of it, for a reason that may pass: its link broke, or its node was silent.
    fn on_lost(&self, engine: &mut Engine, key: NodeRequestKey);

    /// It could not be sent, or its answer could not be read.
    fn on_failed(&self, engine: &mut Engine, key: NodeRequestKey, error: ErrorBody<'_>);

    /// True if it need not wait for a silent node. `is_other`: another node, which is well.
    fn may_be_rescued(&self, engine: &Engine, is_other: &dyn Fn(NodeIndex) -> bool) -> bool;
}

impl Errand {
    fn run(&self) -> &dyn Run {
        match self {
            Errand::Lesson(of) => of,
            Errand::Derived(of) => of,
        }
    }

    pub(crate) fn may_be_rescued(
        &self,
        engine: &Engine,
        is_other: &dyn Fn(NodeIndex) -> bool,
    ) -> bool {
        self.run().may_be_rescued(engine, is_other)
    }
}

impl Engine {
    /// A node has answered an errand.
    pub(crate) fn on_errand_answered(&mut self, key: NodeRequestKey, answer: &ErrandAnswer<'_>) {
        if let Some(errand) = self.errand(key) {
            errand.run().on_answered(self, key, answer);
        }
    }

    /// Nothing has come of an errand, for a reason that may pass. False if the node request is something else.
    pub(crate) fn on_errand_lost(&mut self, key: NodeRequestKey) -> bool {
        let errand = self.errand(key);
        if let Some(errand) = &errand {
            errand.run().on_lost(self, key);
        }
        errand.is_some()
    }

    /// An errand could not be sent, or its answer could not be read.
    pub(crate) fn on_errand_failed(&mut self, key: NodeRequestKey, error: ErrorBody<'_>) {
        if let Some(errand) = self.errand(key) {
            errand.run().on_failed(self, key, error);
        }
    }

    fn errand(&self, key: NodeRequestKey) -> Option<Errand> {
        match self.requests.nodes.get(key)?.owner() {
            Owner::Errand(errand) => Some(errand.clone()),
            Owner::Whole(_) | Owner::Part(..) => None,
        }
    }
}
