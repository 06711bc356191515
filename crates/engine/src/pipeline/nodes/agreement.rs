//! Answers that wait until the nodes agree on the schema.

use std::net::SocketAddr;
use std::time::Duration;

use helenus_policy::ring::NodeIndex;

use crate::exec::scan::warnings::with_warning;
use crate::keys::{ClientRequestKey, NodeRequestKey};
use crate::output::{Agreement, HeldAnswer, Output};
use crate::pipeline::engine::Engine;
use crate::pipeline::finish::Reply;
use crate::pipeline::node_request::NodeRequest;
use crate::snapshot::Node;
use crate::stats::add;

impl Engine {
    /// The client may next ask any node: so it hears of its schema change only when all nodes that are up
    /// know it, or after `cluster.schema_agreement_max_ms`.
    pub(crate) fn hold_for_agreement(
        &mut self,
        client: ClientRequestKey,
        key: NodeRequestKey,
        reply: Reply<'_>,
    ) {
        let node = self.requests.nodes.get(key).and_then(NodeRequest::node);
        self.drop_node_request(key);
        self.hold_until_agreed(client, node, reply);
    }

    /// The same for an answer that a node has given, which may have been kept.
    pub(crate) fn hold_until_agreed(
        &mut self,
        client: ClientRequestKey,
        node: Option<NodeIndex>,
        reply: Reply<'_>,
    ) {
        let node = node.and_then(|node| self.cx.snapshot.nodes().get(node));
        let coordinator = node.map(Node::address);
        let Some(coordinator) = coordinator else {
            return self.answer_clients(client, reply);
        };
        let mut statement = None;
        if let Some(request) = self.requests.clients.get_mut(client) {
            statement = request.asked().digest(None).map(|digest| digest.text);
            // Pages that have been joined so far are not part of that answer.
            self.cx.memory.sub(request.execution.byte_len());
            // It has been executed: no time-out can undo that.
            request.execution.hold();
        }
        add(&self.cx.shared.stats.global.schema_agreements, 1);
        let limit = Duration::from_millis(self.cx.shared.config.cluster.schema_agreement_max_ms);
        self.cx.ask(Output::Agree(HeldAnswer {
            request: client,
            coordinator,
            statement,
            limit,
            opcode: reply.opcode,
            header_flags: reply.header_flags,
            body: reply.body.to_vec(),
            version: reply.version,
        }));
    }
}

/// The flags and body of an answer that tells its client which nodes lack its change, if some do. Most drivers log
/// that. One that knows a single proxy cannot see it otherwise: it compares versions of the schema, and there is one.
pub(crate) fn warned(held: &HeldAnswer, agreement: &Agreement) -> Option<(u8, Vec<u8>)> {
    let Agreement::Missed(without) = agreement else {
        return None;
    };
    let without: Vec<String> = without.iter().map(SocketAddr::to_string).collect();
    let who = match without.as_slice() {
        [] => "some may lack it".to_owned(),
        [one] => format!("{one} lacks it, or does not say"),
        several => format!("{} lack it, or do not say", several.join(", ")),
    };
    let warning = format!(
        "Helenus: this change has been made, but the nodes do not agree on the schema after {:?}: {who}. For a while \
         statements that need the change may fail.",
        held.limit
    );
    // An answer that cannot be read goes to the client as it came.
    with_warning(held.header_flags, &held.body, &warning).ok()
}

#[cfg(test)]
mod tests;
