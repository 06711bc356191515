//! A *client request*: what a client waits for, once.

use std::time::Instant;

use crate::exec::Execution;
use crate::features;
use crate::keys::{ClientRequestKey, NodeRequestKey, SessionKey};
use crate::memory::{Held, Ledger};
use crate::pipeline::node_request::{NodeRequest, NodeRequests, Target};
use crate::pipeline::query::{Query, SPARE_BYTES_MAX};
use crate::pipeline::timing::Timing;
use crate::rewrite::schema_read::SchemaRead;
use crate::scheduler::scan_limit::Counted;
use crate::support::registry::Registry;

/// A client that gets an answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Caller {
    pub session: SessionKey,
    pub stream: i16,
    pub started: Instant,
}

/// A request that a client waits for, once.
pub(crate) struct ClientRequest {
    caller: Caller,
    /// Further clients that get the same answer.
    followers: Vec<Caller>,
    pub query: Query,
    /// Where the whole of it goes.
    target: Target,
    pub execution: Execution,
    /// Hides from its answer what clients do not see, if it is a read of the schema.
    schema_read: Option<Box<SchemaRead>>,
    /// Where its time has gone so far.
    timing: Timing,
    pub features: features::Slot,
    _held: Holding,
}

/// Resources that a client request gives back when it ends: its place among the scans under way, if their number has a
/// limit, and the memory of what is kept of the statement in its text, if that is much.
pub(crate) type Holding = (Option<Counted>, Option<Held>);

impl ClientRequest {
    #[inline]
    pub(crate) fn new(
        caller: Caller,
        query: Query,
        target: Target,
        execution: Execution,
        features: features::Slot,
        held: Holding,
    ) -> ClientRequest {
        ClientRequest {
            caller,
            followers: Vec::new(),
            query,
            target,
            execution,
            schema_read: None,
            timing: Timing::default(),
            features,
            _held: held,
        }
    }

    /// Whose request it is.
    #[inline]
    pub(crate) fn caller(&self) -> Caller {
        self.caller
    }

    /// All clients that get its answer.
    #[inline]
    pub(crate) fn callers(&self) -> impl Iterator<Item = Caller> {
        std::iter::once(self.caller).chain(self.followers.iter().copied())
    }

    /// Another client gets the same answer.
    pub(crate) fn join(&mut self, follower: Caller) {
        self.followers.push(follower);
    }

    /// Those that have joined it: it does not answer for them any more.
    #[inline]
    pub(crate) fn take_followers(&mut self) -> Vec<Caller> {
        std::mem::take(&mut self.followers)
    }

    /// Where the whole of it goes.
    #[inline]
    pub(crate) fn target(&self) -> &Target {
        &self.target
    }

    /// The whole of it goes elsewhere; where it would have gone.
    pub(crate) fn retarget(&mut self, target: Target) -> Target {
        std::mem::replace(&mut self.target, target)
    }

    /// How it is carried out, what nodes are asked, and where the whole of it goes.
    pub(crate) fn carried_out(&mut self) -> (&mut Execution, &Query, &Target) {
        (&mut self.execution, &self.query, &self.target)
    }

    /// Where its time has gone so far.
    pub(crate) fn timing(&self) -> &Timing {
        &self.timing
    }

    #[inline]
    pub(crate) fn timing_mut(&mut self) -> &mut Timing {
        &mut self.timing
    }

    /// Hides from its answer the parts of the schema that clients do not see.
    pub(crate) fn set_schema_read(&mut self, read: SchemaRead) {
        self.schema_read = Some(Box::new(read));
    }

    pub(crate) fn schema_read(&self) -> Option<&SchemaRead> {
        self.schema_read.as_deref()
    }

    /// The query as its client asked it.
    pub(crate) fn asked(&self) -> &Query {
        features::asked(&self.features).unwrap_or(&self.query)
    }

    /// True if nodes are asked for something else than what its client has asked.
    pub(crate) fn is_rewritten(&self) -> bool {
        self.schema_read.is_some() || features::is_rewritten(&self.features)
    }

    /// How many clients wait for its answer, its own or that of another that goes with it.
    pub(crate) fn clients(&self) -> u64 {
        let others = self.features.answered_with();
        1 + (self.followers.len() + others) as u64
    }

    /// Bytes of memory that what was asked and what is sent take.
    fn held_len(&self) -> usize {
        let asked = features::asked(&self.features).map_or(0, Query::held_len);
        self.query.held_len() + asked
    }

    /// True if it waits to begin.
    pub(crate) fn is_waiting_to_begin(&self) -> bool {
        self.features.is_waiting()
    }
}

/// All that clients wait for, and all node requests to nodes.
#[derive(Default)]
pub(crate) struct Requests {
    pub clients: Registry<ClientRequestKey, ClientRequest>,
    pub nodes: NodeRequests,
    /// Buffers of bodies, to be used again.
    spare_bodies: Vec<Vec<u8>>,
    /// Bytes that they take.
    spare_bytes: usize,
}

/// Buffers that are kept at most, and bytes of all of them.
const SPARE_MAX: usize = 1_024;
const SPARES_BYTES_MAX: usize = 512 * 1024;

impl Requests {
    /// A copy of a body.
    pub(crate) fn keep(&mut self, body: &[u8]) -> Vec<u8> {
        let mut kept = self.spare_bodies.pop().unwrap_or_default();
        self.spare_bytes -= kept.capacity();
        kept.clear();
        kept.extend_from_slice(body);
        kept
    }

    pub(crate) fn insert(&mut self, memory: &Ledger, request: ClientRequest) -> ClientRequestKey {
        memory.add(request.held_len());
        self.clients.insert(request)
    }

    /// Forgets a client request and what it holds, but for what features have kept of it; keeps its buffer for the next.
    #[inline]
    pub(crate) fn remove(
        &mut self,
        memory: &Ledger,
        key: ClientRequestKey,
    ) -> Option<features::Slot> {
        let request = self.clients.remove(key)?;
        memory.sub(request.held_len() + request.execution.byte_len());
        let body = request.query.body;
        let room = body.capacity();
        if room <= SPARE_BYTES_MAX
            && self.spare_bodies.len() < SPARE_MAX
            && self.spare_bytes < SPARES_BYTES_MAX
        {
            self.spare_bytes += room;
            self.spare_bodies.push(body);
        }
        Some(request.features)
    }

    /// The query of a node request.
    pub(crate) fn query(&self, key: NodeRequestKey) -> Option<&Query> {
        self.query_of(self.nodes.get(key)?)
    }

    pub(crate) fn query_of<'a>(&'a self, request: &'a NodeRequest) -> Option<&'a Query> {
        match request.other() {
            Some(query) => Some(query),
            None => Some(&self.clients.get(request.client()?)?.query),
        }
    }

    /// The same, to be changed.
    pub(crate) fn query_mut(&mut self, key: NodeRequestKey) -> Option<&mut Query> {
        let request = self.nodes.get_mut(key)?;
        let client = request.client();
        match request.other_mut() {
            Some(query) => Some(query),
            None => Some(&mut self.clients.get_mut(client?)?.query),
        }
    }

    /// Node requests of a client request that have not ended.
    pub(crate) fn open_of(&self, request: &ClientRequest) -> impl Iterator<Item = &NodeRequest> {
        let wholes = request.execution.wholes();
        let open = wholes.chain(request.execution.children());
        open.filter_map(|key| self.nodes.get(key))
    }

    pub(crate) fn len(&self) -> usize {
        let is_other = |(_, request): &(NodeRequestKey, &NodeRequest)| request.whole().is_none();
        self.clients.len() + self.nodes.iter().filter(is_other).count()
    }
}
