//! Connections that are wanted.

use helenus_policy::ring::NodeIndex;

use crate::context::Context;
use crate::keys::PoolKey;
use crate::node::kind::LinkKind;
use crate::node::links::Links;
use crate::output::{Opening, Output};

impl Links {
    /// Asks for a connection; its slot is already marked as connecting.
    pub(super) fn ask_for(&self, cx: &mut Context, pool: PoolKey, node: NodeIndex, kind: LinkKind) {
        let Some(of) = self.pools.get(pool) else {
            return;
        };
        let opening = Opening {
            pool,
            node,
            kind,
            identity: of.identity.clone(),
            address: cx.snapshot.nodes[node.as_usize()].address,
            version: cx.snapshot.version,
            cluster: cx.snapshot.cluster_name.clone(),
        };
        cx.ask(Output::Open(opening));
    }
}
