//! Writes that leave together as one batch: how they meet, are written, and part again.

use helenus_policy::schedule::Class;
use helenus_wire::{ErrorBody, ExecuteView, Opcode, Reader, Version, code, flags, write};

use crate::engine::Engine;
use crate::execution::Execution;
use crate::execution::outcome::Response;
use crate::gates::merge::{Batch, Common, Merge, One};
use crate::keys::{ClientRequestKey, LinkKey, NodeRequestKey};
use crate::node_request::{Form, Owner, Target};
use crate::query::Query;
use crate::request::ClientRequest;
use crate::stats::add;

const MALFORMED: &str = "a node sent a malformed answer";
/// What a node calls such a batch in its errors, and what a single write.
const BATCHED: &str = "UNLOGGED_BATCH";
const SINGLE: &str = "SIMPLE";

impl Engine {
    /// Lets a write join one that has not left yet; true if it has. Otherwise others may join it, unless it
    /// must go by itself.
    pub(crate) fn merge(&mut self, key: ClientRequestKey) -> bool {
        let Some(request) = self.requests.clients.get(key) else {
            return false;
        };
        let Some(one) = self.one_of_many(request) else {
            return false;
        };
        let prepared = request.query.prepared.clone();
        let is_same = |query: &Query| {
            let ids = (query.prepared.as_deref(), prepared.as_deref());
            matches!(ids, (Some(of), Some(own)) if of.id == own.id)
        };
        if let Some(leader) = self.merging.leader(&one)
            && let Some(leader) = self.requests.clients.get_mut(leader)
            && is_same(&leader.query)
            && let Merge::Open(batch) = &mut leader.merge
        {
            batch.members.push(key);
            self.merging.note_joined(&one);
            if let Some(request) = self.requests.clients.get_mut(key) {
                request.merge = Merge::Joined;
            }
            return true;
        }
        if let Some(batch) = self.batch_of(key, &one)
            && let Some(request) = self.requests.clients.get_mut(key)
        {
            request.merge = Merge::Open(batch);
            self.merging.begin(&one, key);
        }
        false
    }

    /// What a request is to a batch; `None` if it must go by itself.
    fn one_of_many(&self, request: &ClientRequest) -> Option<One> {
        let query = &request.query;
        let prepared = query.prepared.as_deref()?;
        let (keyspace, table) = prepared.table.as_ref()?;
        let own = flags::TRACING | flags::CUSTOM_PAYLOAD;
        let is_plain = query.class == Class::Write
            && query.opcode == Opcode::Execute
            && query.idempotent
            && query.header_flags & own == 0
            // In v3 a value's length says less.
            && query.version >= Version::V4
            && query.serial_consistency.is_none()
            && request.layouts.is_none()
            && matches!(request.execution, Execution::Single(None));
        if !is_plain || !self.merging.covers(keyspace, table) {
            return None;
        }
        let Target::Place {
            place: Some(place),
            primary: false,
        } = &request.target
        else {
            return None;
        };
        let form = prepared.merged_form()?;
        let view = ExecuteView::parse(&query.body, query.version).ok()?;
        let options = &view.options;
        // What is bound wrongly is told to its client alone.
        let is_whole = usize::from(options.values.count) == prepared.names.len()
            && u16::try_from(prepared.names.len()).is_ok_and(|n| n < u16::MAX)
            && form.timestamp_at <= options.values.count
            && !options.values.named
            && options.keyspace.is_none()
            && options.now_in_seconds.is_none();
        if !is_whole {
            return None;
        }
        let owners = place.owners.of_slot(place.slot);
        let common = Common {
            id_hash: Common::hash_of(&prepared.id),
            pool: query.pool,
            consistency: query.consistency,
            version: query.version,
            timed: options.timestamp.is_some(),
            owners: Common::owners(owners.iter().map(|node| node.0))?,
        };
        let slot = u32::try_from(place.slot).ok()?;
        Some(One {
            common,
            partition: (slot, place.hash?),
            bytes: One::bytes_of(options.values.count, options.values.byte_len()),
        })
    }

    /// A batch of this write alone, once the nodes know what it is sent as.
    fn batch_of(&mut self, key: ClientRequestKey, one: &One) -> Option<Batch> {
        let query = &self.requests.clients.get(key)?.query;
        let (pool, prepared) = (query.pool, query.prepared.clone()?);
        let form = prepared.merged_form()?;
        if form.goes_alone() {
            return None;
        }
        if !one.common.timed {
            return Some(Batch::default());
        }
        let timed = form.known();
        if timed.is_none() {
            self.prepare_copies(pool, std::iter::once(&form.timed));
        }
        let (members, timed) = (Vec::new(), Some(timed?));
        Some(Batch { members, timed })
    }

    /// Puts on a link what others could still join until now.
    pub(crate) fn push_open(&mut self, key: LinkKey) {
        let Some(open) = self.links.take_open(key) else {
            return;
        };
        for &(node_request, stream) in &open {
            let flight = self
                .requests
                .nodes
                .get(node_request)
                .and_then(|r| r.flight());
            let is_there =
                flight.is_some_and(|flight| (flight.link, flight.stream) == (key, stream));
            if !is_there {
                // It has been given up, and its answer will not come.
                self.links.release_unsent(key, stream);
                continue;
            }
            self.push_together(key, node_request, stream);
        }
        self.links.give_back_open(key, open);
    }

    /// Puts a write and those that have joined it on a link.
    fn push_together(&mut self, link: LinkKey, key: NodeRequestKey, stream: i16) {
        let Some(request) = self.requests.nodes.get(key) else {
            return;
        };
        let (Owner::Whole(client), Form::Own) = (&request.owner, &request.form) else {
            return;
        };
        if let Some(client) = self.requests.clients.get_mut(*client) {
            client.merge.close();
        }
        let Some(client) = self.requests.clients.get(*client) else {
            return;
        };
        let leader = &client.query;
        let batch = client.merge.batch();
        let Some(batch) = batch.filter(|batch| !batch.members.is_empty()) else {
            return self
                .links
                .push_one(&self.cx, (link, stream), request, leader);
        };
        let global = &self.cx.shared.stats.global;
        add(&global.write_batches, 1);
        add(&global.writes_merged, 1 + batch.members.len() as u64);
        let members = batch.members.iter();
        let members = members.filter_map(|member| self.requests.clients.get(*member));
        let queries = std::iter::once(leader).chain(members.map(|member| &member.query));
        let timed = batch.timed.as_deref();
        self.links
            .push_batch((link, stream), leader, queries, timed);
    }

    /// A node has answered a batch with an error.
    pub(crate) fn on_batch_failed(
        &mut self,
        client: ClientRequestKey,
        key: NodeRequestKey,
        response: &Response<'_>,
    ) {
        let request = self.requests.nodes.get(key);
        let in_doubt = request.is_some_and(|request| request.maybe_applied);
        self.drop_node_request(key);
        let Ok(error) = ErrorBody::parse(response.content) else {
            return self.fail_client(client, code::SERVER, MALFORMED, &[]);
        };
        if self.part(client, error.code, in_doubt) {
            return;
        }
        let single = as_single(&error);
        let fields = single.as_deref().unwrap_or(error.fields);
        let error = ErrorBody { fields, ..error };
        self.answer_with_error(client, error, response.version);
    }
}

/// The fields of a time-out of a batch as those of a single write; `None` if they are something else.
pub(crate) fn as_single(error: &ErrorBody<'_>) -> Option<Vec<u8>> {
    if error.code != code::WRITE_TIMEOUT {
        return None;
    }
    let mut reader = Reader::new(error.fields);
    reader.take(10).ok()?;
    let before = reader.position();
    if reader.string().ok()? != BATCHED {
        return None;
    }
    let mut fields = error.fields[..before].to_vec();
    write::string(&mut fields, SINGLE);
    fields.extend_from_slice(reader.rest());
    Some(fields)
}

#[cfg(test)]
mod tests;
