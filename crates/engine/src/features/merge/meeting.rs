//! How writes meet, are written as one batch, and what nodes say of that.

use std::sync::Arc;

use helenus_policy::schedule::Class;
use helenus_wire::{
    ErrorBody, ExecuteView, Opcode, Version, begin_unlogged_batch, code, end_batch, flags,
    push_batch_child,
};

use crate::exec::outcome::Response;
use crate::features::Slot;
use crate::features::merge::gate::{Batch, Common, Merge, One, leads, take_members};
use crate::features::merge::split::{part, resend_individually};
use crate::keys::{ClientRequestKey, LinkKey, NodeRequestKey};
use crate::pipeline::engine::Engine;
use crate::pipeline::engine::lent::Stations;
use crate::pipeline::fail::timed_out::timed_out;
use crate::pipeline::node_request::{NodeRequest, Target};
use crate::pipeline::query::Query;
use crate::pipeline::request::ClientRequest;
use crate::statement::prepared::Prepared;
use crate::stats::add;

const MALFORMED: &str = "Helenus: a node sent an answer that cannot be read";
/// How a node refuses a write because it keeps too many for replicas that are away.
const TOO_MANY_HINTS: &str = "Too many in flight hints";
/// Bytes that a write has more in a batch than in an EXECUTE of its own, with its part of the batch's end: the kind of
/// statement, a timestamp as a value.
const ADDED_MAX: usize = 32;
/// Names of such a batch at the end of a node's errors, and of a single write.
const BATCHED: &[u8] = b"\0\x0eUNLOGGED_BATCH";
const SINGLE: &[u8] = b"\0\x06SIMPLE";

pub(in crate::features) fn on_settings(engine: &mut Engine) {
    let Stations { cx, features, .. } = engine.stations();
    features.merge.adopt(&cx.shared.config.aggregation);
}

pub(in crate::features) fn on_snapshot(engine: &mut Engine) {
    let Stations { cx, features, .. } = engine.stations();
    let nodes = cx.snapshot.nodes().present();
    let limits = nodes.map(|node| node.facts().batches.unwrap_or_default());
    features.merge.adopt_limits(limits);
}

/// True if a write goes with one that has not left yet.
#[inline]
pub(in crate::features) fn waits(engine: &mut Engine, key: ClientRequestKey) -> bool {
    engine.features().merge.is_on() && merge(engine, key)
}

/// Lets a write join one that has not left yet; true if it has. Otherwise others may join it, unless it
/// must go by itself.
fn merge(engine: &mut Engine, key: ClientRequestKey) -> bool {
    let Some(request) = engine.requests().clients.get(key) else {
        return false;
    };
    let Some(one) = one_of_many(engine, request) else {
        return false;
    };
    let (prepared, send_before) = (request.query.prepared.clone(), request.query.send_before);
    let is_same = |query: &Query| {
        let ids = (query.prepared.as_deref(), prepared.as_deref());
        matches!(ids, (Some(of), Some(own)) if of.id == own.id)
    };
    // Of those that may be sent for a time only, none may be sent with one that may be for ever.
    let may_lead = |query: &Query| query.send_before.is_some() || send_before.is_none();
    if let Some(leader) = engine.features().merge.leader(&one, engine.now())
        && let Some(leader) = engine.requests_mut().clients.get_mut(leader)
        && is_same(&leader.query)
        && may_lead(&leader.query)
        && let Some(rare) = leader.features.rare_mut()
        && let Merge::Open(batch) = &mut rare.merge
    {
        batch.members.push(key);
        engine.features_mut().merge.note_joined(&one);
        if let Some(request) = engine.requests_mut().clients.get_mut(key) {
            request.features.keep().merge = Merge::Joined;
        }
        return true;
    }
    let now = engine.now();
    if let Some(batch) = batch_of(engine, key, &one)
        && let Some(request) = engine.requests_mut().clients.get_mut(key)
    {
        request.features.keep().merge = Merge::Open(batch);
        engine.features_mut().merge.begin(&one, key, now);
    }
    false
}

/// A request as one of a batch; `None` if it must go by itself.
fn one_of_many(engine: &Engine, request: &ClientRequest) -> Option<One> {
    let query = &request.query;
    let prepared = query.prepared.as_deref()?;
    let (keyspace, table) = prepared.table.as_ref()?;
    let own = flags::TRACING | flags::CUSTOM_PAYLOAD;
    let is_plain = query.class == Class::Write
        && !request.features.goes_alone()
        && query.opcode == Opcode::Execute
        // It may part from the others after a node has had them.
        && query.resendable.is_idempotent()
        && query.header_flags & own == 0
        // In v3 a value's length says less.
        && query.version >= Version::V4
        // Which nodes refuse of a write, but not of a batch.
        && !query.consistency.is_serial()
        && !request.is_rewritten()
        && request.execution.has_not_begun();
    if !is_plain || !engine.features().merge.covers(keyspace, table) {
        return None;
    }
    let Target::Place {
        place: Some(place),
        primary: false,
    } = request.target()
    else {
        return None;
    };
    let form = prepared.timed_form()?;
    let view = ExecuteView::parse(&query.body, query.version).ok()?;
    let options = &view.options;
    // An error about wrong values is told to its client alone.
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
fn batch_of(engine: &mut Engine, key: ClientRequestKey, one: &One) -> Option<Batch> {
    let query = &engine.requests().clients.get(key)?.query;
    let (pool, prepared) = (query.pool, query.prepared.clone()?);
    let form = prepared.timed_form()?;
    if form.features.merge.goes_alone() {
        return None;
    }
    if !one.common.timed {
        return Some(Batch::default());
    }
    let Some(timed) = form.known() else {
        engine.prepare_made(pool, std::iter::once(&form.timed));
        return None;
    };
    Some(Batch {
        members: Vec::new(),
        timed: Some((timed, form.timestamp_at)),
    })
}

/// A write and those that have joined it leave on a link; false if it is alone.
pub(in crate::features) fn on_leaves(
    engine: &mut Engine,
    link: LinkKey,
    stream: i16,
    key: NodeRequestKey,
) -> bool {
    let Stations {
        cx,
        requests,
        links,
        ..
    } = engine.stations();
    let request = requests.nodes.get(key);
    let Some(client) = request.and_then(|request| request.whole()) else {
        return false;
    };
    let leaves = requests.clients.get_mut(client);
    let leaves = leaves.and_then(|client| client.features.rare_mut());
    let is_first = leaves.is_some_and(|rare| rare.merge.close());
    let Some(client) = requests.clients.get(client) else {
        return false;
    };
    let leader = &client.query;
    let batch = client.features.rare().and_then(|rare| rare.merge.batch());
    let Some(batch) = batch.filter(|batch| !batch.members.is_empty()) else {
        return false;
    };
    if is_first {
        let global = &cx.shared.stats.global;
        add(&global.write_batches, 1);
        add(&global.writes_merged, 1 + batch.members.len() as u64);
    }
    let members = batch.members.iter();
    let members = members.filter_map(|member| requests.clients.get(*member));
    let queries = std::iter::once(leader).chain(members.map(|member| &member.query));
    // They were read when they joined, so this cannot fail; if it does, the node refuses the empty body
    // and each goes by itself. None may be left out.
    let body_len_max = queries.clone().map(|query| query.body.len() + ADDED_MAX);
    let body_len_max = body_len_max.sum();
    let views = queries.map(|query| ExecuteView::parse(&query.body, query.version).ok());
    let views: Option<Vec<ExecuteView<'_>>> = views.collect();
    debug_assert!(views.is_some(), "a write of a batch cannot be read");
    let timed = batch.timed.as_ref();
    let body = |version: Version, out: &mut Vec<u8>| {
        if let Some(views) = views {
            write_batch(leader, &views, timed, version, out);
        }
    };
    links.push_instead(link, stream, Opcode::Batch, body_len_max, body);
    true
}

/// Writes a batch of these writes, the first of which is `leader`. `timed`: what each is sent as with its
/// client's timestamp, and the number of the marker for it.
fn write_batch(
    leader: &Query,
    views: &[ExecuteView<'_>],
    timed: Option<&(Arc<Prepared>, u16)>,
    version: Version,
    out: &mut Vec<u8>,
) {
    begin_unlogged_batch(views.len() as u16, out);
    for view in views {
        let values = &view.options.values;
        match (view.options.timestamp, timed) {
            (Some(timestamp), Some((timed, at))) => {
                push_batch_child(&timed.id, values, Some((*at, timestamp)), out);
            }
            _ => push_batch_child(view.id, values, None, out),
        }
    }
    end_batch(leader.consistency, leader.serial_consistency, version, out);
}

/// A node has answered a batch with an error.
fn on_batch_failed(
    engine: &mut Engine,
    client: ClientRequestKey,
    key: NodeRequestKey,
    response: &Response<'_>,
) {
    let request = engine.requests().nodes.get(key);
    let in_doubt = request.is_some_and(NodeRequest::is_in_doubt);
    engine.drop_node_request(key);
    let Ok(error) = ErrorBody::parse(response.content) else {
        return engine.fail_client(client, code::SERVER, MALFORMED, &[]);
    };
    if part(engine, client, error.code, in_doubt) {
        return;
    }
    // A node that has sent some of the writes may then refuse the next; it would have refused a single
    // one before.
    if error.code == code::OVERLOADED && error.message.starts_with(TOO_MANY_HINTS) {
        let request = engine.requests().clients.get(client);
        let newest = engine.is_newest(Some(client));
        if let Some((code, fields)) = request.map(|of| timed_out(&of.query, newest)) {
            return engine.fail_client(client, code, error.message, &fields);
        }
    }
    let single = as_single(&error);
    let fields = single.as_deref().unwrap_or(error.fields);
    let error = ErrorBody { fields, ..error };
    engine.answer_with_error(client, error, response.version);
}

/// A node has answered with an error; true if that was to a batch.
pub(in crate::features) fn on_error(
    engine: &mut Engine,
    client: ClientRequestKey,
    key: NodeRequestKey,
    response: &Response<'_>,
) -> bool {
    let request = engine.requests().clients.get(client);
    let leads = request.is_some_and(|request| leads(&request.features));
    if leads {
        on_batch_failed(engine, client, key, response);
    }
    leads
}

/// A node has carried out the batch of its write and others.
pub(in crate::features) fn on_several_done(request: &ClientRequest) {
    let prepared = request.query.prepared.as_deref();
    if let Some(form) = prepared.and_then(Prepared::timed_form) {
        form.features.merge.note_done();
    }
}

/// A request has ended: what had joined it and was not answered goes by itself.
#[inline]
pub(in crate::features) fn on_end(engine: &mut Engine, slot: &mut Slot) {
    resend_individually(engine, take_members(slot), true);
}

/// The fields of a time-out or failure of a batch as those of a single write; `None` if they are something
/// else.
fn as_single(error: &ErrorBody<'_>) -> Option<Vec<u8>> {
    let before = error.fields.strip_suffix(BATCHED)?;
    Some([before, SINGLE].concat())
}
