//! Errands: the proxy's own requests to nodes, not for the answer to a client.

use std::fmt::{self, Display, Formatter};
use std::sync::Arc;

use helenus_policy::ring::NodeIndex;

use crate::statement::prepared::Statement;

/// Why the proxy itself sends a node request. [`Run`] says how each goes on.
///
/// [`Run`]: crate::pipeline::nodes::errands::Run
#[derive(Clone, Debug)]
pub(crate) enum Errand {
    Lesson(Lesson),
    Derived(Derived),
}

/// A node has forgotten the statement with this id, or does not know it yet. Others may wait for it.
#[derive(Clone, Debug)]
pub(crate) struct Lesson {
    pub id: Box<[u8]>,
    pub node: NodeIndex,
}

/// Nodes are to know a statement that the proxy has made, for the sake of this one.
#[derive(Clone, Debug)]
pub(crate) struct Derived(pub Arc<Statement>);

impl Display for Errand {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Errand::Lesson(Lesson { node, .. }) => write!(f, "a PREPARE for {node:?}"),
            Errand::Derived(_) => f.write_str("a PREPARE of what the proxy has derived"),
        }
    }
}
