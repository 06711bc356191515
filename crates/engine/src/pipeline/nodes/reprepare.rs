//! Statements that nodes must know: prepared on all of them as soon as a client has prepared them on
//! one, and again where a node has forgotten them.

use std::sync::Arc;

use helenus_policy::ring::NodeIndex;
use helenus_wire::{ErrorBody, Opcode, Version, code, write};

use crate::features;
use crate::keys::{NodeRequestKey, PoolKey};
use crate::pipeline::engine::Engine;
use crate::pipeline::node_request::{Form, NodeRequest, Owner, Prediction, Target};
use crate::pipeline::nodes::errand::{Errand, Lesson};
use crate::pipeline::nodes::errands::{ErrandAnswer, Run};
use crate::pipeline::query::Query;
use crate::pipeline::retry::resendable::Resendable;
use crate::statement::prepared::preparing::{Learned, Preparing};
use crate::statement::prepared::unprepared::unprepared;
use crate::statement::prepared::{Prepared, Statement};
use crate::stats::add;

/// How many times a node may be taught statements for the sake of one request, beside once for each that it
/// has.
const REPREPARES_MAX: usize = 8;

/// A statement that would take more bytes than this for all nodes together is not prepared on them ahead.
const AHEAD_BYTES_MAX: usize = 1 << 20;

impl Engine {
    /// Prepares on a node what it has forgotten (or never knew), then sends the request again. False if
    /// the client must hear of it.
    pub(crate) fn reprepare(&mut self, key: NodeRequestKey, node: NodeIndex, id: &[u8]) -> bool {
        let known = self.statements.prepared(&self.cx.shared, id);
        let Some(prepared) = known.or_else(|| self.recall_made(key, id)) else {
            return false;
        };
        let made = self.made_for(key).len();
        let Some(query) = self.requests.query(key) else {
            return true;
        };
        let pool = query.pool;
        let reprepares_max = REPREPARES_MAX + query.statement_count() + made;
        let Some(request) = self.requests.nodes.get_mut(key) else {
            return true;
        };
        if !request.may_be_taught(reprepares_max) {
            return false;
        }
        if self.links.repreparing.join(id, node, Some(key)) {
            return true;
        }
        add(&self.cx.shared.stats.global.reprepares, 1);
        let lesson = Errand::Lesson(Lesson {
            id: id.into(),
            node,
        });
        let keyspace = prepared.keyspace.as_deref();
        if self.prepare_on(&prepared.statement, keyspace, node, pool, lesson) {
            return true;
        }
        self.links.repreparing.take(id, node);
        false
    }

    /// Statements that the proxy has made for a request, and had prepared.
    fn made_for(&self, key: NodeRequestKey) -> &[Arc<Prepared>] {
        let request = self.requests.nodes.get(key);
        let client = request.and_then(|request| request.client());
        let client = client.and_then(|client| self.requests.clients.get(client));
        client.map_or(&[], |client| features::prepared(&client.features))
    }

    /// Makes known again one of the statements that the proxy has made for a request, if the registry has forgotten it.
    fn recall_made(&mut self, key: NodeRequestKey, id: &[u8]) -> Option<Arc<Prepared>> {
        let mut made = self.made_for(key).iter();
        let made = made.find(|made| *made.id == *id)?.clone();
        self.statements.recall(&self.cx.shared, &made);
        Some(made)
    }

    /// A node has answered to the PREPARE of what it had forgotten, or another in its place.
    fn on_reprepared(&mut self, lesson: &Lesson, answer: &ErrandAnswer<'_>) {
        let ErrandAnswer {
            node,
            opcode,
            content,
            version,
        } = *answer;
        let id = &*lesson.id;
        let waiting = self.end_lesson(id, lesson.node);
        if opcode == Opcode::Result {
            let is_awaited = !waiting.is_empty();
            let same = self
                .statements
                .is_known_as(&self.cx, id, is_awaited, content, version);
            for key in waiting {
                match same {
                    true => self.send_again(key, node),
                    false => self.fail_unprepared(key, id),
                }
            }
            return;
        }
        // Truly gone: the table was dropped, for instance. The client hears why from the node.
        let (code, message, fields) = match ErrorBody::parse(content) {
            Ok(e) => (e.code, e.message.to_owned(), e.fields.to_vec()),
            Err(_) => (
                code::SERVER,
                "Helenus: a node could not prepare the statement again: prepare it anew".to_owned(),
                Vec::new(),
            ),
        };
        for key in waiting {
            self.fail_unsendable(key, code, &message, &fields);
        }
    }

    /// The PREPARE of a statement on a node has ended, however. Returns the node requests that have waited
    /// for it.
    fn end_lesson(&mut self, id: &[u8], node: NodeIndex) -> Vec<NodeRequestKey> {
        features::on_prepare_ended(self, node, id);
        self.links.take_repreparing(id, node)
    }

    /// Sends a node request once more to the node that it was on.
    fn send_again(&mut self, key: NodeRequestKey, node: NodeIndex) {
        // EXECUTE of a client of an older version carries the metadata id that is now known.
        let prepared = self.requests.query(key).and_then(|of| of.prepared.clone());
        if let Some(prepared) = prepared {
            let newest = self.statements.newest(&self.cx.shared, &prepared);
            if newest.description == prepared.description
                && let Some(query) = self.requests.query_mut(key)
            {
                query.prepared = Some(newest);
            }
        }
        if let Some(request) = self.requests.nodes.get_mut(key) {
            request.put_in_front(node);
        }
        self.route(key);
    }

    /// Answers as a node that does not know the statement.
    pub(crate) fn fail_unprepared(&mut self, key: NodeRequestKey, id: &[u8]) {
        let (text, fields) = unprepared(id);
        // It may be the rest of a page, by an id that its client has never seen.
        self.fail_unsendable(key, code::UNPREPARED, &text, &fields);
    }

    /// A PREPARE has succeeded on one node: remember it, and tell the other nodes.
    pub(crate) fn on_prepared(&mut self, key: NodeRequestKey, content: &[u8], version: Version) {
        let Some(request) = self.requests.nodes.get(key) else {
            return;
        };
        let (Some(query), Some(node)) = (self.requests.query_of(request), request.node()) else {
            return;
        };
        let (pool, Some(statement)) = (query.pool, &query.statement) else {
            return;
        };
        let preparing = Preparing {
            statement,
            version: query.version,
            header_flags: query.header_flags,
            body: &query.body,
            session: query.keyspace.as_deref(),
        };
        let client = request.client();
        let client = client.and_then(|client| self.requests.clients.get(client));
        let learned = self
            .statements
            .learn_prepared(&self.cx, &preparing, content, version);
        if let (Some(client), Some(learned)) = (client, &learned) {
            let session = client.caller().session;
            self.statements.note_told(session, learned.prepared());
        }
        let Some(Learned::New(prepared)) = learned else {
            return;
        };
        let snapshot = self.cx.snapshot.clone();
        if prepared.statement.text.len() * snapshot.nodes().count() > AHEAD_BYTES_MAX {
            // Each learns it when it is first asked.
            return;
        }
        for (other, _) in snapshot.nodes().by_index() {
            if other != node && self.links.has_link(pool, other) {
                self.prepare_ahead(&prepared, other, pool);
            }
        }
    }

    /// Prepares a statement on a node before it is needed there. Requests that come there first wait
    /// for it: a node that is asked twice at a time forgets in between what it has just learned.
    pub(crate) fn prepare_ahead(&mut self, prepared: &Prepared, node: NodeIndex, pool: PoolKey) {
        if self.links.repreparing.join(&prepared.id, node, None) {
            return;
        }
        add(&self.cx.shared.stats.global.prepares_ahead, 1);
        let (statement, keyspace) = (&prepared.statement, prepared.keyspace.as_deref());
        let lesson = Errand::Lesson(Lesson {
            id: prepared.id.clone(),
            node,
        });
        if !self.prepare_on(statement, keyspace, node, pool, lesson) {
            self.end_lesson(&prepared.id, node);
        }
    }

    /// Sends PREPARE of a statement to a node, for the proxy's own sake.
    pub(crate) fn prepare_on(
        &mut self,
        statement: &Arc<Statement>,
        keyspace: Option<&str>,
        node: NodeIndex,
        pool: PoolKey,
        errand: Errand,
    ) -> bool {
        let version = self.cx.snapshot.version();
        let mut body = Vec::with_capacity(statement.text.len() + 16);
        write::long_string(&mut body, &statement.text);
        if version == Version::V5 {
            match keyspace {
                Some(keyspace) => {
                    write::u32(&mut body, 1);
                    write::string(&mut body, keyspace);
                }
                None => write::u32(&mut body, 0),
            }
        }
        let keyspace = match version {
            Version::V5 => None,
            _ => keyspace.map(Into::into),
        };
        let query = Query {
            keyspace,
            statement: Some(statement.clone()),
            pool,
            resendable: Resendable::Always,
            ..Query::new(Opcode::Prepare, version, body)
        };
        let form = Form::Other(Box::new(query));
        let request = NodeRequest::new(
            Owner::Errand(errand),
            form,
            Prediction::Learned,
            Target::At(node),
            self.cx.now,
        );
        let key = self.requests.nodes.insert(&self.cx.memory, request);
        if self.dispatch(key, node) {
            return true;
        }
        self.drop_node_request(key);
        false
    }
}

impl Run for Lesson {
    fn on_answered(&self, engine: &mut Engine, key: NodeRequestKey, answer: &ErrandAnswer<'_>) {
        engine.drop_node_request(key);
        engine.on_reprepared(self, answer);
    }

    /// That tells nothing of the statement. Requests that wait for it have not been executed: any other node may have
    /// them.
    fn on_lost(&self, engine: &mut Engine, key: NodeRequestKey) {
        let waiting = engine.end_lesson(&self.id, self.node);
        engine.drop_node_request(key);
        for key in waiting {
            if let Some(request) = engine.requests.nodes.get_mut(key)
                && request.untried().is_none_or(|plan| plan.is_empty())
            {
                // Nodes that were in trouble when it was planned may serve by now.
                request.set_target(Target::ANY);
            }
            engine.route(key);
        }
    }

    fn on_failed(&self, engine: &mut Engine, key: NodeRequestKey, error: ErrorBody<'_>) {
        engine.drop_node_request(key);
        for key in engine.end_lesson(&self.id, self.node) {
            engine.fail_unsendable(key, error.code, error.message, error.fields);
        }
    }

    /// Requests that wait for it have not been executed, and go to any other node.
    fn may_be_rescued(&self, engine: &Engine, is_other: &dyn Fn(NodeIndex) -> bool) -> bool {
        let nodes = engine.cx.snapshot.nodes();
        let mut all = nodes.by_index().map(|(node, _)| node);
        all.any(|node| !nodes.is_remote(node) && is_other(node))
    }
}

#[cfg(test)]
mod tests;
