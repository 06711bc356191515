//! Writes that leave together as one batch: how they meet, are written, and part again.

pub(crate) mod gate;
pub(crate) mod split;

use helenus_policy::schedule::Class;
use helenus_wire::{ErrorBody, ExecuteView, Opcode, Version, code, flags};

use crate::engine::Engine;
use crate::exec::Execution;
use crate::exec::outcome::Response;
use crate::features;
use crate::features::merge::gate::{Batch, Common, Merge, One};
use crate::keys::{ClientRequestKey, LinkKey, NodeRequestKey};
use crate::pipeline::finish::timed_out;
use crate::pipeline::node_request::{Form, Owner, Target};
use crate::pipeline::query::Query;
use crate::pipeline::request::ClientRequest;
use crate::stats::add;

const MALFORMED: &str = "a node sent a malformed answer";
/// How a node refuses a write because it keeps too many for replicas that are away.
const TOO_MANY_HINTS: &str = "Too many in flight hints";
/// What a node calls such a batch at the end of its errors, and what a single write.
const BATCHED: &[u8] = b"\0\x0eUNLOGGED_BATCH";
const SINGLE: &[u8] = b"\0\x06SIMPLE";

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
        let (prepared, send_before) = (request.query.prepared.clone(), request.query.send_before);
        let is_same = |query: &Query| {
            let ids = (query.prepared.as_deref(), prepared.as_deref());
            matches!(ids, (Some(of), Some(own)) if of.id == own.id)
        };
        // Of those that may be sent for a time only, none may be sent with one that may be for ever.
        let may_lead = |query: &Query| query.send_before.is_some() || send_before.is_none();
        if let Some(leader) = self.merging.leader(&one, self.cx.now)
            && let Some(leader) = self.requests.clients.get_mut(leader)
            && is_same(&leader.query)
            && may_lead(&leader.query)
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
            self.merging.begin(&one, key, self.cx.now);
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
            && !features::goes_alone(&request.features)
            && query.opcode == Opcode::Execute
            // It may part from the others after a node has had them.
            && query.resendable.is_idempotent()
            && query.header_flags & own == 0
            // In v3 a value's length says less.
            && query.version >= Version::V4
            // Which nodes refuse of a write, but not of a batch.
            && !query.consistency.is_serial()
            && !request.is_rewritten()
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
            && options.now_in_seconds.is_none()
            // Which means none in a statement, and is refused elsewhere.
            && options.timestamp != Some(i64::MIN);
        if !is_whole {
            return None;
        }
        let owners = place.owners.of_slot(place.slot);
        let common = Common {
            id_hash: Common::hash_of(&prepared.id),
            pool: query.pool,
            consistency: query.consistency,
            serial_consistency: query.serial_consistency,
            version: query.version,
            timed: options.timestamp.is_some(),
            owners: Common::owners(owners.iter().map(|node| node.0))?,
        };
        let slot = u32::try_from(place.slot).ok()?;
        Some(One {
            common,
            partition: (slot, place.hash()?),
            bytes: One::bytes_of(&prepared.statement.text, &options.values),
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
        let Some(timed) = form.known() else {
            self.prepare_made(pool, std::iter::once(&form.timed));
            return None;
        };
        Some(Batch {
            members: Vec::new(),
            timed: Some((timed, form.timestamp_at)),
        })
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
        let leaves = self.requests.clients.get_mut(*client);
        let is_first = leaves.is_some_and(|client| client.merge.close());
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
        if is_first {
            let global = &self.cx.shared.stats.global;
            add(&global.write_batches, 1);
            add(&global.writes_merged, 1 + batch.members.len() as u64);
        }
        let members = batch.members.iter();
        let members = members.filter_map(|member| self.requests.clients.get(*member));
        let queries = std::iter::once(leader).chain(members.map(|member| &member.query));
        let timed = batch.timed.as_ref();
        let links = &mut self.links;
        links.push_batch((link, stream), leader, queries, timed);
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
        // A node that has sent some of the writes may then refuse the next; it would have refused a single
        // one before.
        if error.code == code::OVERLOADED && error.message.starts_with(TOO_MANY_HINTS) {
            let request = self.requests.clients.get(client);
            let newest = self.is_newest(Some(client));
            if let Some((code, fields)) = request.map(|of| timed_out(&of.query, newest)) {
                return self.fail_client(client, code, error.message, &fields);
            }
        }
        let single = as_single(&error);
        let fields = single.as_deref().unwrap_or(error.fields);
        let error = ErrorBody { fields, ..error };
        self.answer_with_error(client, error, response.version);
    }
}

impl ClientRequest {
    /// A node has carried out the batch of its write and others.
    pub(crate) fn note_batch_done(&self) {
        let prepared = self.query.prepared.as_deref();
        if let Some(form) = prepared.and_then(|prepared| prepared.merged_form()) {
            form.note_done();
        }
    }
}

/// The fields of a time-out or failure of a batch as those of a single write; `None` if they are something
/// else.
fn as_single(error: &ErrorBody<'_>) -> Option<Vec<u8>> {
    let before = error.fields.strip_suffix(BATCHED)?;
    Some([before, SINGLE].concat())
}

#[cfg(test)]
mod tests;
