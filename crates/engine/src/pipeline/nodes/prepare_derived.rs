//! Statements that the proxy has made of clients': over parts of the ring, and others. They are asked of
//! the nodes once, for all workers and all that wait for it.

use std::sync::Arc;

use helenus_policy::ring::NodeIndex;
use helenus_wire::{ErrorBody, Opcode, PreparedView, ResultKind, code, result_kind};

use crate::backlog::Work;
use crate::exec::context::RangePrepare;
use crate::exec::scan::in_range::{InRange, REFUSED_FOR, Waiter, settle_range};
use crate::keys::{ClientRequestKey, NodeRequestKey, PoolKey};
use crate::pipeline::engine::Engine;
use crate::pipeline::nodes::errand::{Derived, Errand};
use crate::pipeline::nodes::errands::{ErrandAnswer, Run};
use crate::shared::WorkerMessage;
use crate::statement::prepared::Statement;

impl Engine {
    /// Has a node prepare a statement over parts of the ring, for the sake of a client request.
    pub(crate) fn prepare_over_range(&mut self, key: ClientRequestKey, prepare: &RangePrepare) {
        let Some(request) = self.requests.clients.get(key) else {
            return self.settle_waiting(&prepare.statement, InRange::default());
        };
        self.prepare_derived(request.query.pool, prepare);
    }

    /// Has a node prepare what the proxy has made, where that has not been asked for yet.
    pub(crate) fn prepare_made<'s>(
        &mut self,
        pool: PoolKey,
        statements: impl Iterator<Item = &'s Arc<Statement>>,
    ) {
        for statement in statements {
            if statement.begin_preparing(self.cx.now) {
                let prepare = RangePrepare {
                    statement: statement.clone(),
                    derived: statement.clone(),
                    keyspace: None,
                };
                self.prepare_derived(pool, &prepare);
            }
        }
    }

    fn prepare_derived(&mut self, pool: PoolKey, prepare: &RangePrepare) {
        let nodes = self.cx.snapshot.nodes().count();
        self.cx.rotation = self.cx.rotation.wrapping_add(1);
        let sent = (0..nodes).any(|step| {
            let node = NodeIndex(((self.cx.rotation as usize + step) % nodes) as u16);
            let errand = Errand::Derived(Derived(prepare.statement.clone()));
            let linked = self.links.has_link(pool, node);
            let keyspace = prepare.keyspace.as_deref();
            linked && self.prepare_on(&prepare.derived, keyspace, node, pool, errand)
        });
        if !sent {
            // Those that wait go on as they are.
            self.settle_waiting(&prepare.statement, InRange::default());
        }
    }

    /// Notes what the nodes know now, and resumes the aggregates that have waited for it.
    fn settle_waiting(&mut self, statement: &Statement, known: InRange) {
        for Waiter { worker, request } in settle_range(statement, known) {
            match worker == self.cx.index {
                true => self.later(Work::Resume(request)),
                false => {
                    let message = WorkerMessage::Aggregate(request);
                    self.cx.tell(worker, message);
                }
            }
        }
    }
}

impl Run for Derived {
    fn on_answered(&self, engine: &mut Engine, key: NodeRequestKey, answer: &ErrandAnswer<'_>) {
        let (content, version) = (answer.content, answer.version);
        let known = if answer.opcode == Opcode::Result
            && matches!(result_kind(content), Ok(ResultKind::Prepared))
            && let Ok(view) = PreparedView::parse(content, version)
        {
            engine.on_prepared(key, content, version);
            let prepared = engine.prepared(view.id);
            prepared.map(InRange::Known)
        } else {
            let refused = ErrorBody::parse(content)
                .is_ok_and(|e| matches!(e.code, code::INVALID | code::SYNTAX));
            let until = engine.cx.now + REFUSED_FOR;
            let query = engine.requests.query(key).filter(|_| refused);
            let text = query.and_then(|query| Some(query.statement.as_ref()?.text.clone()));
            text.map(|text| InRange::Refused { text, until })
        };
        engine.drop_node_request(key);
        engine.settle_waiting(&self.0, known.unwrap_or_default());
    }

    fn on_lost(&self, engine: &mut Engine, key: NodeRequestKey) {
        engine.drop_node_request(key);
        engine.settle_waiting(&self.0, InRange::default());
    }

    fn on_failed(&self, engine: &mut Engine, key: NodeRequestKey, _error: ErrorBody<'_>) {
        self.on_lost(engine, key);
    }

    fn may_be_rescued(&self, _engine: &Engine, _is_other: &dyn Fn(NodeIndex) -> bool) -> bool {
        false
    }
}
