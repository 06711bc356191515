//! Statements that nodes are being taught, and the node requests that wait for that.

use helenus_policy::ring::NodeIndex;
use rustc_hash::FxHashMap;

use crate::keys::NodeRequestKey;

/// A statement, by its id, at a node.
type Lesson = (Box<[u8]>, NodeIndex);

/// PREPAREs of the proxy's own that are under way.
#[derive(Default)]
pub(crate) struct Repreparing(FxHashMap<Lesson, Vec<NodeRequestKey>>);

impl Repreparing {
    /// Lets node requests wait for a PREPARE; false if it has still to be sent.
    pub(crate) fn join(
        &mut self,
        id: &[u8],
        node: NodeIndex,
        node_request: Option<NodeRequestKey>,
    ) -> bool {
        let lesson = (Box::from(id), node);
        if let Some(waiting) = self.0.get_mut(&lesson) {
            waiting.extend(node_request);
            return true;
        }
        self.0.insert(lesson, node_request.into_iter().collect());
        false
    }

    /// The node requests that have waited for a PREPARE, which has ended.
    pub(crate) fn take(&mut self, id: &[u8], node: NodeIndex) -> Vec<NodeRequestKey> {
        self.0.remove(&(Box::from(id), node)).unwrap_or_default()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn waiting(&self) -> impl Iterator<Item = NodeRequestKey> + '_ {
        self.0.values().flatten().copied()
    }
}
