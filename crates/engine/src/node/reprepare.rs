//! Statements that nodes must know: prepared on all of them as soon as a client has prepared them on
//! one, and again where a node has forgotten them.

use helenus_policy::ring::NodeIndex;
use helenus_wire::{ErrorBody, Opcode, code, write};

use crate::engine::{Engine, PoolKey, RequestKey};
use crate::request::Origin;
use crate::statement::prepared::Prepared;
use crate::stats::add;

/// How many times a node may be taught statements for the sake of one request: a batch has several.
const REPREPARES_MAX: u8 = 8;

/// A statement that would take more bytes than this for all nodes together is not prepared on them ahead.
const AHEAD_BYTES_MAX: usize = 1 << 20;

impl Engine {
    /// Prepares on a node what it has forgotten (or never knew), then sends the request again. False if
    /// the client must hear of it.
    pub(crate) fn reprepare(&mut self, key: RequestKey, node: NodeIndex, id: &[u8]) -> bool {
        let Some(prepared) = self.prepared(id) else {
            return false;
        };
        let Some(request) = self.request(key) else {
            return true;
        };
        let waits = matches!(request.origin, Origin::Client | Origin::Part(..));
        if !waits || request.reprepares >= REPREPARES_MAX {
            return false;
        }
        request.reprepares += 1;
        let pool = request.pool;
        let waiting = (Box::from(id), node);
        if let Some(others) = self.repreparing.get_mut(&waiting) {
            others.push(key);
            return true;
        }
        self.repreparing.insert(waiting.clone(), vec![key]);
        add(&self.cx.shared.stats.global.reprepares, 1);
        let origin = Origin::Reprepare {
            id: id.into(),
            node,
        };
        let keyspace = prepared.keyspace.as_deref();
        if self.prepare_on(&prepared.statement, keyspace, node, pool, origin) {
            return true;
        }
        self.repreparing.remove(&waiting);
        false
    }

    /// A node has answered to the PREPARE of what it had forgotten, or another in its place.
    pub(crate) fn on_reprepared(
        &mut self,
        (id, taught): (&[u8], NodeIndex),
        node: NodeIndex,
        opcode: Opcode,
        content: &[u8],
    ) {
        let waiting = self.take_repreparing(id, taught);
        if opcode == Opcode::Result {
            let same = self.is_known_as(id, content);
            for key in waiting {
                match same {
                    true => self.send_again(key, node),
                    // The rest of a page, by an id that its client has never seen.
                    false if self.abandon_tail(key, code::UNPREPARED) => {}
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
                "a statement could not be prepared again".to_owned(),
                Vec::new(),
            ),
        };
        for key in waiting {
            if !self.abandon_tail(key, code) {
                self.fail(key, code, &message, &fields);
            }
        }
    }

    /// Requests that wait for a node to know a statement again.
    pub(crate) fn take_repreparing(&mut self, id: &[u8], node: NodeIndex) -> Vec<RequestKey> {
        let waiting = self.repreparing.remove(&(Box::from(id), node));
        waiting.unwrap_or_default()
    }

    /// Answers as a node that does not know the statement.
    fn fail_unprepared(&mut self, key: RequestKey, id: &[u8]) {
        let hex: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
        let text = format!(
            "Prepared query with ID {hex} not found (either the query was not prepared on this host \
             (maybe the host has been restarted?) or you have prepared too many queries and it has \
             been evicted from the internal cache)"
        );
        let mut fields = Vec::new();
        write::short_bytes(&mut fields, id);
        self.fail(key, code::UNPREPARED, &text, &fields);
    }

    /// A client's PREPARE has succeeded on one node: remember it, and tell the other nodes.
    pub(crate) fn on_prepared(&mut self, key: RequestKey, node: NodeIndex, content: &[u8]) {
        let Some(pool) = self.request(key).map(|request| request.pool) else {
            return;
        };
        let Some(prepared) = self.learn_prepared(key, content) else {
            return;
        };
        let snapshot = self.cx.snapshot.clone();
        if prepared.statement.text.len() * snapshot.nodes.len() > AHEAD_BYTES_MAX {
            // Each learns it when it is first asked.
            return;
        }
        for index in 0..snapshot.nodes.len() {
            let other = NodeIndex(index as u16);
            if other != node && self.pools.get(pool).is_some_and(|p| p.has_link(other)) {
                self.prepare_ahead(&prepared, other, pool);
            }
        }
    }

    /// Prepares a statement on a node before it is needed there. Requests that come there first wait
    /// for it: a node that is asked twice at a time forgets in between what it has just learned.
    fn prepare_ahead(&mut self, prepared: &Prepared, node: NodeIndex, pool: PoolKey) {
        let waiting = (prepared.id.clone(), node);
        if self.repreparing.contains_key(&waiting) {
            return;
        }
        add(&self.cx.shared.stats.global.prepares_ahead, 1);
        self.repreparing.insert(waiting.clone(), Vec::new());
        let (statement, keyspace) = (&prepared.statement, prepared.keyspace.as_deref());
        let origin = Origin::Reprepare {
            id: prepared.id.clone(),
            node,
        };
        if !self.prepare_on(statement, keyspace, node, pool, origin) {
            self.repreparing.remove(&waiting);
        }
    }
}
