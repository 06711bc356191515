//! Reads of layouts: which one, what is sent, and what becomes of the answer.

use std::sync::Arc;
use std::time::Instant;

use helenus_cql::Selected;
use helenus_layout::plan::{Copy, LogicalTable};
use helenus_wire::{
    Consistency, ExecuteView, Malformed, Opcode, Options, QueryView, ResultKind, Version, code,
    flags, query_flags, result_kind, same_columns, strip_prelude,
};

use crate::features::layouts::on_layouts::OnLayouts;
use crate::features::layouts::plan::{CopyReads, Plan, RankedRead};
use crate::features::layouts::read::{Fault, Instead, LayoutRead, identity, unwrap};
use crate::features::layouts::refusals::fenced;
use crate::features::layouts::restored_order::RestoredOrder;
use crate::features::layouts::{on_layouts, plan_of, take_from};
use crate::keys::{ClientRequestKey, NodeRequestKey};
use crate::pipeline::arrival::Arrival;
use crate::pipeline::engine::Engine;
use crate::pipeline::engine::lent::Stations;
use crate::pipeline::node_request::Target;
use crate::rewrite::leases::Need;
use crate::rewrite::refusal::Refusal;
use crate::rewrite::rewritten::{AsAsked, INVALID_STATE, Tried};
use crate::session::node_answer::NodeAnswer;
use crate::statement::analysis::Analysis;
use crate::statement::place::Place;
use crate::statement::prepared::{InRange, Prepared, Statement};
use crate::stats::add;

/// A statement, its table, and what it becomes on each layout.
#[derive(Clone, Copy)]
struct Reads<'a> {
    statement: &'a Statement,
    table: &'a Arc<LogicalTable>,
    copies: &'a CopyReads<Statement>,
}

/// A read that may be carried out on a layout.
struct Candidate<'a> {
    table: &'a Arc<LogicalTable>,
    at: usize,
    derived: &'a Arc<Statement>,
    /// How its answer becomes the table's, if the rows come in another order.
    order: Option<&'a Arc<RestoredOrder>>,
    /// The node's own paging state, if the read continues one that came from the layout.
    state: Option<&'a [u8]>,
}

/// A read of a layout, as the nodes have prepared it.
enum OnNodes {
    Known(Arc<Prepared>),
    /// They are being asked, or have refused.
    Unknown,
    /// Its result is not that of the table.
    OtherColumns,
}

/// A read as it is on a layout; `None` if the table itself is read.
pub(crate) fn read_of_layout(
    engine: &mut Engine,
    arrival: &Arrival<'_>,
    analysis: &Analysis<'_>,
    statement: &Statement,
    table: &Arc<LogicalTable>,
    need: Need,
    until: Option<Instant>,
) -> Result<Option<LayoutRead>, Refusal> {
    let Some(options) = options_of(arrival) else {
        return Ok(None);
    };
    let continued = options.paging_state.and_then(unwrap);
    if until.is_none() {
        return match continued {
            Some(_) => {
                let leases = &engine.cx().shared.leases;
                Err(fenced(leases, need, engine.now()))
            }
            None => Ok(None),
        };
    }
    let planned = plan_of(statement, table);
    let Plan::Read(copies) = &*planned.plan else {
        return Ok(None);
    };
    let reads = Reads {
        statement,
        table,
        copies,
    };
    let read = match (continued, options.paging_state) {
        (Some((id, state)), _) => {
            let candidate = continue_at(reads, id, state, options.consistency);
            candidate.and_then(|of| layout_read(engine, arrival, analysis, &options, of))
        }
        // It comes from the table.
        (None, Some(_)) => None,
        (None, None) => best_read(engine, arrival, analysis, &options, reads),
    };
    let global = &engine.cx().shared.stats.global;
    match &read {
        Some(read) => {
            let max = engine.cx().shared.config.admin.tables_max;
            copies.count(table, read.at, &engine.cx().shared.stats, max);
            add(&global.layout_reads, 1);
            add(&global.layout_reads_sorted, u64::from(read.order.is_some()));
        }
        None => add(&global.layout_reads_of_table, 1),
    }
    Ok(read)
}

/// The read on the best layout of those that are near, or if none is, on the best of the others; `None` if it cannot be
/// read.
fn best_read(
    engine: &mut Engine,
    arrival: &Arrival<'_>,
    analysis: &Analysis<'_>,
    options: &Options<'_>,
    reads: Reads<'_>,
) -> Option<LayoutRead> {
    let has_payload = arrival.header.flags & flags::CUSTOM_PAYLOAD != 0;
    if has_payload || options.consistency.is_serial() {
        return None;
    }
    let Reads {
        statement,
        table,
        copies,
    } = reads;
    let level = options.consistency;
    // Asked once: it counts.
    let (mut sorts, mut is_any_near, mut far) = (None, false, None);
    let mut read = |engine: &mut Engine, ranked: &RankedRead<Statement>| {
        let mut sorts = || *sorts.get_or_insert_with(|| copies.room.is_tried(options.page_size));
        if ranked.is_sorted && !sorts() {
            return None;
        }
        let (text, facts) = (&statement.text, &statement.facts);
        let (derived, order) = copies.ranked_read(ranked, table, text, facts)?;
        let candidate = Candidate {
            table,
            at: ranked.at,
            derived,
            order,
            state: None,
        };
        allowed_read(engine, arrival, analysis, options, candidate)
    };
    for ranked in &copies.ranked {
        let copy = table.copies.get(ranked.at)?;
        match distance_of(engine, arrival, analysis, level, table, copy) {
            Some(Distance::Near) => {
                is_any_near = true;
                let read = read(engine, ranked);
                if read.is_some() {
                    return read;
                }
            }
            Some(Distance::Far) => far = far.or(Some(ranked)),
            None => {}
        }
    }
    far.filter(|_| !is_any_near)
        .and_then(|ranked| read(engine, ranked))
}

/// The read of a candidate, if the client may read the layout.
fn allowed_read(
    engine: &mut Engine,
    arrival: &Arrival<'_>,
    analysis: &Analysis<'_>,
    options: &Options<'_>,
    candidate: Candidate<'_>,
) -> Option<LayoutRead> {
    let table = candidate.table;
    let copy = table.copies.get(candidate.at)?;
    let layout = (table.keyspace_of(copy), &*copy.physical);
    let denied = engine.links().is_denied(arrival.pool, layout, engine.now());
    (!denied).then(|| layout_read(engine, arrival, analysis, options, candidate))?
}

fn layout_read(
    engine: &mut Engine,
    arrival: &Arrival<'_>,
    analysis: &Analysis<'_>,
    options: &Options<'_>,
    candidate: Candidate<'_>,
) -> Option<LayoutRead> {
    let prepared = match (&analysis.prepared, arrival.opcode) {
        (Some(asked), Opcode::Execute) => {
            if !knows_columns(arrival, asked, options) {
                return None;
            }
            match prepared_on_layout(engine, arrival, asked, &candidate) {
                OnNodes::Known(known) => Some(known),
                // A page that was begun elsewhere, or before the columns changed, goes on by the text.
                OnNodes::Unknown | OnNodes::OtherColumns if candidate.state.is_some() => None,
                OnNodes::Unknown | OnNodes::OtherColumns => return None,
            }
        }
        _ => None,
    };
    let mut body = Vec::with_capacity(arrival.content.len() + 64);
    Prepared::write_asked(
        prepared.as_deref(),
        &candidate.derived.text,
        arrival.version,
        &mut body,
    );
    let (content, state) = (arrival.content, candidate.state);
    // All columns may be others than those that the client has been told of when it prepared.
    let selects_all = |asked: &Arc<Prepared>| {
        let select = asked.statement.facts.select.as_deref();
        select.is_some_and(|select| select.columns == Selected::All)
    };
    match prepared.is_none() && analysis.prepared.as_ref().is_some_and(selects_all) {
        true => {
            options.write_with_state_and_columns(content, arrival.version, state, &mut body);
        }
        false => options.write_with_state(content, state, &mut body),
    }
    Some(LayoutRead {
        opcode: match prepared {
            Some(_) => Opcode::Execute,
            None => Opcode::Query,
        },
        body,
        statement: candidate.derived.clone(),
        prepared,
        table: candidate.table.clone(),
        at: candidate.at,
        continues: candidate.state.is_some(),
        order: candidate.order.cloned(),
        target: target_of(engine, analysis, &candidate),
    })
}

/// Where a layout is read that has owners of its own.
fn target_of(
    engine: &Engine,
    analysis: &Analysis<'_>,
    candidate: &Candidate<'_>,
) -> Option<Target> {
    let table = candidate.table;
    let copy = table
        .copies
        .get(candidate.at)
        .filter(|copy| copy.is_derived())?;
    let place = analysis.place.as_ref();
    Some(Target::of(place.and_then(|place| {
        let owners = engine
            .cx()
            .snapshot
            .schema()
            .owners(table.keyspace_of(copy))?;
        Some(Place {
            owners: owners.clone(),
            ..place.clone()
        })
    })))
}

fn prepared_on_layout(
    engine: &mut Engine,
    arrival: &Arrival<'_>,
    asked: &Prepared,
    candidate: &Candidate<'_>,
) -> OnNodes {
    let known = match &*candidate.derived.in_range() {
        InRange::Known(known) => Some(known.clone()),
        _ => None,
    };
    let Some(known) = known else {
        engine.prepare_made(arrival.pool, std::iter::once(candidate.derived));
        return OnNodes::Unknown;
    };
    let known = engine.cx().shared.newest(known);
    let table = candidate.table;
    let copy = table.copies.get(candidate.at);
    let physical = copy.map_or(("", ""), |copy| {
        (table.keyspace_of(copy), copy.physical.as_str())
    });
    let own = (table.keyspace.as_str(), table.name.as_str());
    let (of_layout, of_table) = (&*known.result_metadata, &*asked.result_metadata);
    let appended = candidate.order.map_or(0, |order| order.appended());
    match same_columns(of_layout, physical, of_table, own, appended) {
        true => OnNodes::Known(known),
        false => OnNodes::OtherColumns,
    }
}

/// Reads the table for a read of a layout that has failed. False if the client is to
/// hear the error.
pub(in crate::features) fn read_table_instead(
    engine: &mut Engine,
    client: ClientRequestKey,
    node_request: NodeRequestKey,
    tried: &Tried<'_>,
) -> bool {
    let Some(request) = engine.requests_mut().clients.get_mut(client) else {
        return false;
    };
    let instead = match on_layouts(&request.features) {
        Some(OnLayouts::Read(read)) => read.instead(tried),
        _ => return false,
    };
    match instead {
        Instead::Nothing => false,
        Instead::InvalidState => {
            engine.drop_node_request(node_request);
            engine.fail_client(client, code::PROTOCOL, INVALID_STATE, &[]);
            true
        }
        Instead::Table(fault) => {
            engine.drop_node_request(node_request);
            leave_layout(engine, client, fault);
            true
        }
    }
}

/// Carries out a read of a layout as its client has asked for it.
fn leave_layout(engine: &mut Engine, client: ClientRequestKey, fault: Fault) {
    let Stations {
        cx,
        requests,
        links,
        ..
    } = engine.stations();
    let Some(request) = requests.clients.get_mut(client) else {
        return;
    };
    let Some(OnLayouts::Read(read)) = take_from(&mut request.features) else {
        return;
    };
    let statement = request.query.statement.take();
    match (fault, statement) {
        (Fault::Layout, Some(statement)) => statement.forget_range(),
        (Fault::Unknown, Some(statement)) => {
            request.features.keep().layouts = Some(Box::new(OnLayouts::ReadAfter(statement)));
        }
        (Fault::Role, _) => links.note_denied(request.query.pool, read.layout(), cx.now),
        (Fault::Lease | Fault::Order | Fault::Away, _) | (_, None) => {}
    }
    let derived = std::mem::replace(&mut request.query, read.asked);
    if let Some(of_table) = read.of_table {
        request.retarget(of_table);
    }
    request.execution.restart();
    cx.memory.sub(derived.held_len());
    add(&cx.shared.stats.global.layout_reads_fallen_back, 1);
    engine.start(client);
}

/// The table has taken a read that one of its layouts had refused: the layout has changed.
fn blame_layout(engine: &Engine, client: ClientRequestKey) {
    let request = engine.requests().clients.get(client);
    let layouts = request.and_then(|request| on_layouts(&request.features));
    if let Some(OnLayouts::ReadAfter(statement)) = layouts {
        statement.forget_range();
    }
}

/// Makes an answer to a request about layouts the client's. If it cannot be used, the table is asked; the node
/// request has ended.
///
/// # Errors
/// It cannot be understood.
pub(in crate::features) fn as_asked(
    engine: &mut Engine,
    client: ClientRequestKey,
    answer: &NodeAnswer<'_>,
) -> Result<AsAsked, Malformed> {
    let NodeAnswer {
        opcode,
        header_flags,
        body,
        ..
    } = *answer;
    if opcode == Opcode::Result {
        blame_layout(engine, client);
    }
    let request = engine.requests().clients.get(client);
    let Some(layouts) = request.and_then(|request| on_layouts(&request.features)) else {
        return Ok(AsAsked::PassThrough);
    };
    let (prelude, content) = strip_prelude(header_flags, body)?;
    let renamed = match (layouts, opcode) {
        (OnLayouts::Read(read), Opcode::Result) if result_kind(content)? == ResultKind::Rows => {
            match read.answer(content)? {
                Some(answer) => Some(answer),
                None => {
                    leave_layout(engine, client, Fault::Order);
                    return Ok(AsAsked::Unusable);
                }
            }
        }
        (_, Opcode::Error) => layouts.error(content),
        _ => None,
    };
    let warned = match header_flags & flags::WARNING != 0 {
        true => layouts.warnings(header_flags, prelude)?,
        false => None,
    };
    if renamed.is_none() && warned.is_none() {
        return Ok(AsAsked::PassThrough);
    }
    let mut whole = warned.unwrap_or_else(|| prelude.to_vec());
    whole.extend_from_slice(renamed.as_deref().unwrap_or(content));
    Ok(AsAsked::Body(whole))
}

/// The read that continues a page of a layout there, with the layout's identity and the node's own state.
fn continue_at<'a>(
    reads: Reads<'a>,
    id: u64,
    state: &'a [u8],
    consistency: Consistency,
) -> Option<Candidate<'a>> {
    let table = reads.table;
    let copies = table.copies.iter().enumerate();
    let readable = copies.filter(|(_, copy)| copy.readable && may_read(copy, consistency));
    let mut readable = readable.map(|(at, _)| at);
    let at = readable.find(|at| identity(table, *at) == id)?;
    let candidate = as_it_comes(reads, at)?;
    Some(Candidate {
        state: Some(state),
        ..candidate
    })
}

/// True if a layout keeps what a level promises: one of its own keyspace has what its coordinators have taken, sooner or
/// later.
fn may_read(copy: &Copy, consistency: Consistency) -> bool {
    let weak = [Consistency::ONE, Consistency::LOCAL_ONE];
    !copy.is_derived() || weak.contains(&consistency)
}

/// Where the nearest replica of a layout is that can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Distance {
    /// Where the table's are, or in the data centre.
    Near,
    /// In another data centre.
    Far,
}

/// How far away a layout is; `None` if it cannot be read. One that has owners of its own, fewer than the table as a rule,
/// cannot while none of them is there, or while it may not have the partition as its table has it.
fn distance_of(
    engine: &Engine,
    arrival: &Arrival<'_>,
    analysis: &Analysis<'_>,
    level: Consistency,
    table: &LogicalTable,
    copy: &Copy,
) -> Option<Distance> {
    if !copy.is_derived() {
        return Some(Distance::Near);
    }
    if !may_read(copy, level) {
        return None;
    }
    let place = analysis.place.as_ref()?;
    let doubts = &engine.cx().shared.features.layouts.doubts;
    if doubts.holds((&table.keyspace, &table.name), place.token, engine.now()) {
        return None;
    }
    let owners = engine
        .cx()
        .snapshot
        .schema()
        .owners(table.keyspace_of(copy))?;
    let owners = owners.of_slot(place.slot).iter();
    let fit = owners.filter(|node| engine.links().is_fit(engine.cx(), arrival.pool, **node));
    let nodes = engine.cx().snapshot.nodes();
    match fit.map(|node| nodes.is_remote(*node)).min()? {
        false => Some(Distance::Near),
        true => (!level.is_dc_local()).then_some(Distance::Far),
    }
}

/// The read on one layout, if it has the table's order there.
fn as_it_comes(reads: Reads<'_>, at: usize) -> Option<Candidate<'_>> {
    let Reads {
        statement,
        table,
        copies,
    } = reads;
    let derived = copies.derived(table, &statement.text, &statement.facts, at)?;
    Some(Candidate {
        table,
        at,
        derived,
        order: None,
        state: None,
    })
}

fn options_of<'a>(arrival: &Arrival<'a>) -> Option<Options<'a>> {
    match arrival.opcode {
        Opcode::Query => {
            let view = QueryView::parse(arrival.content, arrival.version).ok()?;
            Some(view.options)
        }
        Opcode::Execute => {
            let view = ExecuteView::parse(arrival.content, arrival.version).ok()?;
            Some(view.options)
        }
        _ => None,
    }
}

/// True if a client knows a prepared statement with the columns that its result has by now: others are told
/// by the table.
fn knows_columns(arrival: &Arrival<'_>, prepared: &Prepared, options: &Options<'_>) -> bool {
    if arrival.version < Version::V5 {
        let skips = options.flags & query_flags::SKIP_METADATA != 0;
        return !(skips && prepared.may_have_changed());
    }
    let view = ExecuteView::parse(arrival.content, arrival.version);
    view.is_ok_and(|view| view.result_metadata_id == prepared.result_metadata_id.as_deref())
}
