//! What an execution sees of the engine, and what it has it do.

use std::sync::Arc;

use helenus_policy::ring::NodeIndex;
use helenus_policy::route::Locality;
use helenus_policy::schedule::Class;

use crate::admission::{PartJob, Queues};
use crate::context::Context;
use crate::keys::{ClientRequestKey, NodeRequestKey};
use crate::memory::Ledger;
use crate::node::links::Links;
use crate::node_request::{Form, NodeRequest, NodeRequests, Owner, Prediction, Target};
use crate::query::Query;
use crate::statement::learned::Learned;
use crate::statement::prepared::Statement;
use crate::stats::add;

/// A statement over parts of the ring that the nodes are to prepare.
pub(crate) struct RangePrepare {
    /// The statement as its clients know it.
    pub statement: Arc<Statement>,
    pub derived: Arc<Statement>,
    pub keyspace: Option<Box<str>>,
}

/// What a step leaves to the engine.
#[derive(Default)]
pub(crate) struct Todo {
    /// Node requests to be routed.
    pub route: Vec<NodeRequestKey>,
    /// Node requests to be taken out of their nodes' queues and forgotten.
    pub cancel: Vec<NodeRequestKey>,
    /// Parts that have another place among other work now.
    pub reprioritise: Vec<(NodeRequestKey, PartJob)>,
    /// A statement that the nodes are to prepare.
    pub prepare: Option<RangePrepare>,
}

/// What an execution sees.
pub(crate) struct Surroundings<'a> {
    pub cx: &'a mut Context,
    /// The client request.
    pub key: ClientRequestKey,
    pub query: &'a Query,
    /// Where the whole of it goes.
    pub target: &'a Target,
    pub queues: &'a Queues,
    pub links: &'a Links,
    pub requests: &'a mut NodeRequests,
    /// Grows with every routed request; spreads them over equals.
    pub rotation: u64,
    /// Whether anyone waits for the answer.
    pub is_wanted: bool,
    pub todo: Todo,
}

impl<'a> Surroundings<'a> {
    /// What is known of the statement.
    pub(crate) fn learned(&self) -> Option<&'a Learned> {
        Some(&self.statement()?.learned)
    }

    pub(crate) fn statement(&self) -> Option<&'a Statement> {
        self.query.statement.as_deref()
    }

    pub(crate) fn memory(&self) -> &Ledger {
        &self.cx.memory
    }

    /// Sends a node request for the whole of it.
    pub(crate) fn send_whole(
        &mut self,
        form: Form,
        work: Prediction,
        target: Target,
    ) -> NodeRequestKey {
        self.send(Owner::Whole(self.key), form, work, target)
    }

    /// Sends a node request for a part of it.
    pub(crate) fn send_part(
        &mut self,
        part: u16,
        query: Query,
        work: Prediction,
        target: Target,
    ) -> NodeRequestKey {
        let form = Form::Other(Box::new(query));
        self.send(Owner::Part(self.key, part), form, work, target)
    }

    fn send(
        &mut self,
        owner: Owner,
        form: Form,
        work: Prediction,
        target: Target,
    ) -> NodeRequestKey {
        let request = NodeRequest::new(owner, form, work, target, self.cx.now);
        let key = self.requests.insert(&self.cx.memory, request);
        self.todo.route.push(key);
        key
    }

    /// Takes node requests that wait out of their nodes' queues. What is in flight comes back to nobody.
    pub(crate) fn cancel_queued(&mut self, children: &[NodeRequestKey]) {
        for child in children {
            if self.is_queued(*child) {
                self.todo.cancel.push(*child);
            }
        }
    }

    pub(crate) fn is_queued(&self, child: NodeRequestKey) -> bool {
        self.requests.get(child).is_some_and(NodeRequest::is_queued)
    }

    pub(crate) fn is_in_flight(&self, child: NodeRequestKey) -> bool {
        let child = self.requests.get(child);
        child.is_some_and(|child| child.flight().is_some())
    }

    /// Whether nodes have had anything else than scans to do a moment ago, from any worker.
    pub(crate) fn others_lately(&self) -> bool {
        self.queues.others_lately(self.cx.now_us())
    }

    /// Whether scans are in flight, from any worker, or wait here.
    pub(crate) fn scans_about(&self) -> bool {
        self.queues.scans_about()
    }

    /// Scan permits of all nodes.
    pub(crate) fn scan_permits(&self) -> usize {
        self.queues.scan_permits()
    }

    /// Scan permits of all nodes while nothing else is to be done.
    pub(crate) fn scan_permits_idle(&self) -> u64 {
        self.queues.scan_permits_idle()
    }

    /// Whether a near node can be asked, and is not known to be in trouble.
    pub(crate) fn is_usable(&self, node: NodeIndex) -> bool {
        self.links.has_link(self.query.pool, node)
            && self.links.is_sound(node, self.cx.now)
            && self.cx.snapshot.places.locality(node) != Some(Locality::Remote)
    }

    /// Nodes answer a statement as it is, but have refused its parts.
    pub(crate) fn blame_parts(&self, statement: &Statement) {
        add(&self.cx.shared.stats.global.scans_not_in_parts, 1);
        let table = statement.facts.table.as_ref();
        let table = table.map_or("?", |name| name.as_str());
        tracing::info!(
            table,
            "nodes answer a statement as it is but refuse its parts: it is read whole for a while"
        );
        statement.learned.suspension.begin(self.cx.now);
    }

    /// Predicted work of a scan as it came.
    pub(crate) fn whole_scan(&self) -> Prediction {
        let learned = self.learned();
        let work_us = learned.map_or(1_000, |learned| learned.service_us(Class::Scan));
        Prediction::Scan { work_us }
    }
}
