//! How a client request goes on: its execution does something, and what that leaves to be done is done.

use helenus_wire::{ErrorBody, Opcode, code};

use crate::exec::Execution;
use crate::exec::context::{ExecContext, Todo};
use crate::exec::outcome::{FailedBy, KeptAnswer, Step};
use crate::keys::{ClientRequestKey, NodeRequestKey};
use crate::memory::{Body, NO_MEMORY};
use crate::pipeline::engine::Engine;
use crate::pipeline::finish::Reply;

impl Engine {
    /// Lets a request's execution do something, and then what it leaves to be done.
    pub(crate) fn advance<'a>(
        &mut self,
        key: ClientRequestKey,
        act: impl FnOnce(&mut Execution, &mut ExecContext<'_>) -> Step<'a>,
    ) -> Step<'a> {
        let is_wanted = self.is_wanted(key);
        self.cx.rotation = self.cx.rotation.wrapping_add(1);
        let rotation = self.cx.rotation;
        let Some(request) = self.requests.clients.get_mut(key) else {
            return Step::Wait;
        };
        let (execution, query, target) = request.carried_out();
        let mut cx = ExecContext {
            engine: &mut self.cx,
            key,
            query,
            target,
            queues: &self.queues,
            links: &self.links,
            requests: &mut self.requests.nodes,
            rotation,
            is_wanted,
            todo: Todo::default(),
        };
        let step = act(execution, &mut cx);
        let todo = cx.todo;
        request.query.send_before = todo.send_before.or(request.query.send_before);
        for node_request in todo.cancel {
            self.drop_node_request(node_request);
        }
        for (node_request, job) in todo.reprioritise {
            self.reprioritise(node_request, job);
        }
        for node_request in todo.route {
            self.route(node_request);
        }
        if let Some(prepare) = todo.prepare {
            self.prepare_over_range(key, &prepare);
        }
        step
    }

    /// Does what is next for a request. `reply`: what a node has answered to the whole of it.
    pub(crate) fn take_step(
        &mut self,
        key: ClientRequestKey,
        step: Step<'_>,
        reply: Option<Reply<'_>>,
    ) {
        let version = reply.as_ref().map(|reply| reply.version);
        let version = version.unwrap_or(self.cx.snapshot.version());
        match step {
            Step::Wait | Step::Whole => {}
            Step::PassThrough => {
                if let Some(reply) = reply {
                    self.answer_clients(key, reply);
                }
            }
            Step::Kept(kept) => self.answer_clients(key, reply_of(kept)),
            Step::Agreed(kept, link) => {
                let node = self.links.node_of(link);
                self.hold_until_agreed(key, node, reply_of(kept));
            }
            Step::Done { header_flags, body } => {
                let reply = Reply {
                    opcode: Opcode::Result,
                    header_flags,
                    body: Body::Joined(body),
                    version,
                };
                self.answer_clients(key, reply);
            }
            Step::Failed(failure) => {
                let ErrorBody {
                    code,
                    message,
                    fields,
                } = failure.error;
                match failure.by {
                    FailedBy::Proxy => self.fail_client(key, code, message, fields),
                    FailedBy::Node(version) => self.answer_with_error(key, failure.error, version),
                }
            }
            Step::Broken(why) => {
                let text = format!("Helenus: a node sent an answer that cannot be read: {why}");
                self.fail_client(key, code::SERVER, &text, &[]);
            }
            Step::NoMemory => self.fail_client(key, code::OVERLOADED, NO_MEMORY, &[]),
            Step::Unwanted => self.end_request(key),
        }
    }

    /// The statement that an aggregate has asked the nodes to prepare is prepared by now, or was refused.
    pub(crate) fn on_range_settled(&mut self, key: ClientRequestKey) {
        let step = self.advance(key, |execution, cx| execution.on_range_settled(cx));
        self.take_step(key, step, None);
    }

    /// One of two attempts has come to nothing; true if the other goes on without it.
    pub(crate) fn goes_on_without(
        &mut self,
        client: ClientRequestKey,
        attempt: NodeRequestKey,
    ) -> bool {
        let request = self.requests.clients.get_mut(client);
        request.is_some_and(|request| request.execution.goes_on_without(attempt))
    }
}

fn reply_of(kept: KeptAnswer) -> Reply<'static> {
    Reply {
        opcode: kept.opcode,
        header_flags: kept.header_flags,
        body: Body::Joined(kept.body.into()),
        version: kept.version,
    }
}
