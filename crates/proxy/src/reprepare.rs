//! Statements that nodes must know: prepared on all of them as soon as a client has prepared them on
//! one, and again where a node has forgotten them.

use std::sync::Arc;

use helenus_policy::ring::NodeIndex;
use helenus_wire::{ErrorBody, Opcode, PrepareView, PreparedView, Reader, Version, code, flags};

use crate::prepared::Prepared;
use crate::request::Origin;
use crate::stats::add;
use crate::worker::{Key, State};

/// How many different statements of one request may have to be prepared again.
const REPREPARES_MAX: u8 = 6;

impl State {
    /// Prepares on a node what it has forgotten (or never knew), then sends the request again.
    pub fn reprepare(&mut self, key: Key, node: NodeIndex, id: &[u8]) -> bool {
        let Some(prepared) = self.prepared(id) else {
            return false;
        };
        let Some(request) = self.request(key) else {
            return true;
        };
        let waits = matches!(request.origin, Origin::Client | Origin::Part(..));
        if !waits || request.attempts > REPREPARES_MAX {
            return false;
        }
        let pool = request.pool;
        let waiting = (Box::from(id), node);
        if let Some(others) = self.repreparing.get_mut(&waiting) {
            others.push(key);
            return true;
        }
        self.repreparing.insert(waiting.clone(), vec![key]);
        add(&self.shared.stats.global.reprepares, 1);
        if self.prepare_on(
            &prepared.statement,
            prepared.keyspace.as_deref(),
            node,
            pool,
            Origin::Reprepare(id.into()),
        ) {
            return true;
        }
        self.repreparing.remove(&waiting);
        false
    }

    pub fn on_reprepared(&mut self, id: &[u8], node: NodeIndex, opcode: Opcode, content: &[u8]) {
        let waiting = self
            .repreparing
            .remove(&(Box::from(id), node))
            .unwrap_or_default();
        if opcode == Opcode::Result {
            self.refresh_prepared(id, content);
            for key in waiting {
                self.send_again(key, node);
            }
            return;
        }
        // Truly gone: the table was dropped, for instance. The client hears why from the node.
        let (code, message, fields) = match ErrorBody::parse(content) {
            Ok(e) => (e.code, e.message.to_owned(), e.fields.to_vec()),
            Err(_) => (
                code::SERVER,
                "a statement could not be prepared again".to_owned(),
                Vec::new(),
            ),
        };
        for key in waiting {
            if !self.abandon_tail(key) {
                self.fail(key, code, &message, &fields);
            }
        }
    }

    /// The statement's result may have other columns by now.
    fn refresh_prepared(&mut self, id: &[u8], content: &[u8]) {
        let Some(old) = self.prepared(id) else { return };
        let version = self.snapshot.version;
        let Ok(view) = PreparedView::parse(content, version) else {
            return;
        };
        if view.id == id && view.result_metadata_id != old.result_metadata_id.as_deref() {
            let snapshot = self.snapshot.clone();
            let prepared = Prepared::new(
                old.statement.clone(),
                old.keyspace.as_deref(),
                &view,
                &snapshot,
            );
            self.publish_prepared(Arc::new(prepared));
        }
    }

    fn publish_prepared(&mut self, prepared: Arc<Prepared>) {
        self.remember_prepared(&prepared);
        let max = self.shared.config.limits.prepared_max;
        if let Ok(mut table) = self.shared.prepared.lock() {
            table.insert(prepared, max);
        }
    }

    /// A client's PREPARE has succeeded on one node: remember it, and tell the other nodes.
    pub fn on_prepared(&mut self, key: Key, node: NodeIndex, content: &[u8]) {
        let version = self.snapshot.version;
        let Ok(view) = PreparedView::parse(content, version) else {
            return;
        };
        let snapshot = self.snapshot.clone();
        let Some(request) = self.request(key) else {
            return;
        };
        let Some(statement) = request.statement.clone() else {
            return;
        };
        let pool = request.pool;
        let own_keyspace = request_keyspace(request.version, request.header_flags, &request.body);
        let session_keyspace = request.keyspace.clone();
        let keyspace = match statement.facts.keyspace {
            Some(_) => None,
            None => own_keyspace.as_deref().or(session_keyspace.as_deref()),
        };
        let known = self.prepared(view.id);
        if known.is_some_and(|p| p.result_metadata_id.as_deref() == view.result_metadata_id) {
            return;
        }
        let prepared = Arc::new(Prepared::new(statement, keyspace, &view, &snapshot));
        self.publish_prepared(prepared.clone());
        for index in 0..snapshot.nodes.len() {
            let other = NodeIndex(index as u16);
            if other != node && self.pools.get(pool).is_some_and(|p| p.has_link(other)) {
                add(&self.shared.stats.global.prepares_ahead, 1);
                self.prepare_on(
                    &prepared.statement,
                    prepared.keyspace.as_deref(),
                    other,
                    pool,
                    Origin::PrepareAhead,
                );
            }
        }
    }
}

/// The keyspace that a PREPARE names itself (v5).
fn request_keyspace(version: Version, header_flags: u8, body: &[u8]) -> Option<String> {
    let mut reader = Reader::new(body);
    if header_flags & flags::CUSTOM_PAYLOAD != 0 {
        reader.skip_bytes_map().ok()?;
    }
    let view = PrepareView::parse(reader.rest(), version).ok()?;
    view.keyspace.map(str::to_owned)
}
