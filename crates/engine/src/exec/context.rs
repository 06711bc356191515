//! An execution's view of the engine, and the work that it leaves to it.

use std::sync::Arc;
use std::time::Instant;

use helenus_cql::SelectFacts;
use helenus_policy::predict::{Estimate, TableSize};
use helenus_policy::ring::NodeIndex;
use helenus_policy::schedule::Class;

use crate::context::Context;
use crate::exec::scan::token_splits::Stretch;
use crate::keys::{ClientRequestKey, NodeRequestKey};
use crate::memory::Ledger;
use crate::pipeline::node_request::{Form, NodeRequest, NodeRequests, Owner, Prediction, Target};
use crate::pipeline::query::Query;
use crate::scheduler::{PartJob, Queues};
use crate::statement::learned::Learned;
use crate::statement::pieces::filters;
use crate::statement::prepared::Statement;
use crate::stats::add;
use crate::upstream::links::Links;

/// A statement over parts of the ring that the nodes are to prepare.
pub(crate) struct RangePrepare {
    /// The statement as its clients know it.
    pub statement: Arc<Statement>,
    pub derived: Arc<Statement>,
    pub keyspace: Option<Box<str>>,
}

/// Work that a step leaves to the engine.
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
    /// Until when the client's own request may be sent from now on.
    pub send_before: Option<Instant>,
}

/// An execution's view of the engine.
pub(crate) struct ExecContext<'a> {
    pub engine: &'a mut Context,
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
    /// True if anyone waits for the answer.
    pub is_wanted: bool,
    pub todo: Todo,
}

impl<'a> ExecContext<'a> {
    /// Knowledge from the statement's earlier answers, if it has a statement.
    pub(crate) fn learned(&self) -> Option<&'a Learned> {
        Some(&self.statement()?.learned)
    }

    pub(crate) fn statement(&self) -> Option<&'a Statement> {
        self.query.statement.as_deref()
    }

    /// True if it may read many rows for each that it returns.
    pub(crate) fn filters(&self) -> bool {
        let facts = self.statement().map(|statement| &statement.facts);
        facts.is_some_and(|facts| {
            let select = facts.select.as_deref();
            select.is_some_and(|select| filters(facts, select))
        })
    }

    pub(crate) fn memory(&self) -> &Ledger {
        &self.engine.memory
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
        let request = NodeRequest::new(owner, form, work, target, self.engine.now);
        let key = self.requests.insert(&self.engine.memory, request);
        self.todo.route.push(key);
        key
    }

    /// Takes node requests that wait out of their nodes' queues. Answers to those in flight come back to nobody.
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

    /// True if no node has had it, as far as is known.
    pub(crate) fn is_unsent(&self, child: NodeRequestKey) -> bool {
        let child = self.requests.get(child);
        child.is_some_and(|child| child.flight().is_none() && !child.is_in_doubt())
    }

    pub(crate) fn is_in_flight(&self, child: NodeRequestKey) -> bool {
        let child = self.requests.get(child);
        child.is_some_and(|child| child.flight().is_some())
    }

    /// True if nodes have had anything else than scans to do a moment ago, from any worker.
    pub(crate) fn others_lately(&self) -> bool {
        self.queues.others_lately(self.engine.now_us())
    }

    /// True if scans are in flight, from any worker, or wait here.
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

    /// True if a near node can be asked, and is not known to be in trouble.
    pub(crate) fn is_usable(&self, node: NodeIndex) -> bool {
        self.links.is_fit(self.engine, self.query.pool, node)
            && !self.engine.snapshot.nodes().is_remote(node)
    }

    /// Nodes answer a statement as it is, but have refused its parts.
    pub(crate) fn blame_parts(&self, statement: &Statement) {
        add(&self.engine.shared.stats.global.scans_not_in_parts, 1);
        let table = statement.facts.table.as_ref();
        let table = table.map_or("?", |name| name.as_str());
        tracing::info!(
            table,
            "nodes answer a statement as it is but refuse its parts: it is read whole for a while"
        );
        statement.learned.suspension.begin(self.engine.now);
    }

    /// How large its table is, if a node has told.
    pub(crate) fn table_size(&self) -> Option<TableSize> {
        let prepared = self.query.prepared.as_ref();
        let (keyspace, table) = match prepared.and_then(|prepared| prepared.table.as_ref()) {
            Some((keyspace, table)) => (&**keyspace, &**table),
            None => self.statement()?.table(self.query.keyspace.as_deref())?,
        };
        self.engine.snapshot.schema().size_of(keyspace, table)
    }

    /// True if it reads all of its part of the ring, however little it returns.
    fn reads_all(&self) -> bool {
        let facts = self.statement().map(|statement| &statement.facts);
        facts.is_some_and(|facts| {
            let select = facts.select.as_deref();
            let seeks = |select: &SelectFacts| {
                let restricts = !facts.key_terms.is_empty()
                    || !select.ins.is_empty()
                    || !select.ranges.is_empty()
                    || select.other_relations;
                restricts && !select.allow_filtering || select.ann
            };
            select.is_some_and(|select| {
                let folds = select.aggregates || select.group_by;
                !seeks(select) && (folds || select.limit.is_none())
            })
        })
    }

    /// Predicted work of a scan as it came, over this part of the ring, if that is known.
    pub(crate) fn whole_scan(&self, bounds: Option<Stretch>) -> Prediction {
        let learned = self.learned().filter(|learned| learned.has_answers());
        let work_us = learned.map(|learned| learned.service_us(Class::Scan));
        let tokens = bounds.unwrap_or(Stretch::WHOLE).tokens();
        let size = || self.table_size().filter(|_| self.reads_all());
        let work_us = work_us.or_else(|| Some(size()?.us_of(tokens)));
        let class_us = || Estimate::of_class(Class::Scan).typical_us();
        Prediction::Scan {
            work_us: work_us.unwrap_or_else(class_us),
        }
    }
}
