//! The engine as features see it, whose fields are the pipeline's alone: the stations that they may touch. Who waits in queues,
//! who has been paused, and what is to be done next, they change by the engine's methods only.

use std::sync::Arc;

use helenus_policy::ring::NodeIndex;

use crate::context::Context;
use crate::features;
use crate::keys::NodeRequestKey;
use crate::pipeline::engine::Engine;
use crate::pipeline::node_request::NodeRequest;
use crate::pipeline::request::Requests;
use crate::scheduler::Queues;
use crate::session::clients::Clients;
use crate::statement::Statements;
use crate::statement::prepared::Prepared;
use crate::upstream::links::Links;

/// Stations that are used at the same time.
pub(crate) struct Stations<'e> {
    pub(crate) cx: &'e mut Context,
    pub(crate) features: &'e mut features::State,
    pub(crate) requests: &'e mut Requests,
    pub(crate) statements: &'e mut Statements,
    pub(crate) clients: &'e mut Clients,
    pub(crate) links: &'e mut Links,
}

impl Engine {
    #[inline]
    pub(crate) fn stations(&mut self) -> Stations<'_> {
        Stations {
            cx: &mut self.cx,
            features: &mut self.features,
            requests: &mut self.requests,
            statements: &mut self.statements,
            clients: &mut self.clients,
            links: &mut self.links,
        }
    }

    #[inline]
    pub(crate) fn cx(&self) -> &Context {
        &self.cx
    }

    #[inline]
    pub(crate) fn cx_mut(&mut self) -> &mut Context {
        &mut self.cx
    }

    #[inline]
    pub(crate) fn features(&self) -> &features::State {
        &self.features
    }

    #[inline]
    pub(crate) fn features_mut(&mut self) -> &mut features::State {
        &mut self.features
    }

    #[inline]
    pub(crate) fn requests(&self) -> &Requests {
        &self.requests
    }

    #[inline]
    pub(crate) fn requests_mut(&mut self) -> &mut Requests {
        &mut self.requests
    }

    #[inline]
    pub(crate) fn statements(&self) -> &Statements {
        &self.statements
    }

    #[inline]
    pub(crate) fn statements_mut(&mut self) -> &mut Statements {
        &mut self.statements
    }

    #[inline]
    pub(crate) fn clients(&self) -> &Clients {
        &self.clients
    }

    #[inline]
    pub(crate) fn links(&self) -> &Links {
        &self.links
    }

    #[inline]
    pub(crate) fn queues(&self) -> &Queues {
        &self.queues
    }

    /// What nodes know as this id, if any worker has heard of it.
    pub(crate) fn prepared(&mut self, id: &[u8]) -> Option<Arc<Prepared>> {
        self.statements.prepared(&self.cx.shared, id)
    }

    /// Makes a prepared statement known again that was forgotten.
    pub(crate) fn remember_prepared(&mut self, prepared: &Arc<Prepared>) {
        self.statements.recall(&self.cx.shared, prepared);
    }

    /// Keeps a node request of a feature's.
    pub(crate) fn keep_node_request(&mut self, request: NodeRequest) -> NodeRequestKey {
        self.requests.nodes.insert(&self.cx.memory, request)
    }

    /// Another node has answered first what this one has had for so long; true if it has said nothing since.
    pub(crate) fn note_overtaken(&mut self, node: NodeIndex, waited_us: u32) -> bool {
        self.queues.note_overtaken(&self.cx, node, waited_us)
    }
}
