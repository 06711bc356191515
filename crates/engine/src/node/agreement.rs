//! Answers that wait until the nodes agree on the schema.

use std::time::Duration;

use crate::ends::Reply;
use crate::engine::Engine;
use crate::execution::Execution;
use crate::keys::{ClientRequestKey, NodeRequestKey};
use crate::output::{HeldAnswer, Output};
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
        let node = self
            .requests
            .nodes
            .get(key)
            .and_then(|request| request.node);
        let node = node.and_then(|node| self.cx.snapshot.nodes.get(node.as_usize()));
        let coordinator = node.map(|node| node.address);
        self.drop_node_request(key);
        let Some(coordinator) = coordinator else {
            return self.answer_clients(client, reply);
        };
        let mut statement = None;
        if let Some(request) = self.requests.clients.get_mut(client) {
            statement = request.asked().digest(None).map(|digest| digest.text);
            // What has been joined so far is not part of that answer.
            self.cx.memory.sub(request.execution.byte_len());
            // It has been executed: no time-out can undo that.
            request.execution = Execution::Held;
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
