//! Records of requests while a capture is wanted ([`crate::features::capture`]).

use std::sync::Arc;

use helenus_capture::{
    MIRROR_NAME, PARTS_MAX, RECORD_BYTES_MAX, Request, Statement as Recorded, TEXT_BYTES_MAX,
    VALUES_MAX, kinds, marks, push_value,
};
use helenus_cql::{Kind, first_words, with_markers};
use helenus_wire::{
    BatchChild, BatchView, ErrorBody, ExecuteView, Opcode, Options, QueryView, ValueRef, Values,
    query_flags, strip_prelude,
};

use crate::context::Context;
use crate::features;
use crate::features::capture::{Capture, Captured, Part, Wanted};
use crate::keys::SessionKey;
use crate::output::Output;
use crate::pipeline::arrival::Arrival;
use crate::pipeline::engine::Engine;
use crate::pipeline::engine::lent::Stations;
use crate::statement::analysis::Analysis;
use crate::statement::classify::class_of;
use crate::statement::prepared::Statement;

#[cfg(test)]
mod tests;

/// A client is sent an answer, with this body.
#[inline]
pub(in crate::features) fn on_sent(
    cx: &mut Context,
    client: (SessionKey, i16),
    opcode: Opcode,
    header_flags: u8,
    body: &[u8],
) {
    if let Some(capture) = &mut cx.features.capture {
        let content = strip_prelude(header_flags, body).map_or(body, |(_, content)| content);
        let error = || (opcode == Opcode::Error).then(|| code_of(content))?;
        let full = capture.on_answer(client, content.len(), error, cx.now);
        hand_over(cx, full);
    }
}

fn hand_over(cx: &mut Context, captured: Option<Captured>) {
    if let Some(captured) = captured {
        cx.ask(Output::Feature(features::Output::Captured(captured)));
    }
}

fn code_of(content: &[u8]) -> Option<u32> {
    Some(ErrorBody::parse(content).ok()?.code as u32)
}

/// Begins a capture in place of any other, or ends the one under way.
pub(in crate::features) fn on_message(engine: &mut Engine, wanted: Option<Arc<Wanted>>) {
    let (index, now) = (engine.cx().index, engine.now());
    let begun = wanted.map(|wanted| Box::new(Capture::new(wanted, index, now)));
    if let Some(ended) = std::mem::replace(&mut engine.cx_mut().features.capture, begun) {
        for block in ended.end(now) {
            hand_over(engine.cx_mut(), Some(block));
        }
    }
}

pub(in crate::features) fn on_tick(engine: &mut Engine) {
    let Stations { cx, clients, .. } = engine.stations();
    let now = cx.now;
    let Some(capture) = &mut cx.features.capture else {
        return;
    };
    if capture.is_over(now) {
        return on_message(engine, None);
    }
    let captured = capture.on_tick(now, |session| clients.is_there(session));
    hand_over(cx, captured);
}

/// A request has been read.
#[inline]
pub(in crate::features) fn on_read(
    engine: &mut Engine,
    arrival: &Arrival<'_>,
    analysis: &Analysis<'_>,
) {
    if engine.cx().features.capture.is_some() {
        record_arrival(engine, arrival, analysis);
    }
}

/// Records a request that has arrived, if its connection is one of those that are.
#[cold]
fn record_arrival(engine: &mut Engine, arrival: &Arrival<'_>, analysis: &Analysis<'_>) {
    let Some(capture) = &engine.cx().features.capture else {
        return;
    };
    if !capture.takes(arrival.session, engine.now()) || is_mirror(engine, arrival.session) {
        return;
    }
    let has_values = capture.wanted().has_values;
    // Before other statements are looked up.
    let key = engine.statements().routing_key(analysis);
    let key = key.map(|key| capture.hash(key));
    let statement = analysis.of_one(arrival.opcode);
    let class = class_of(
        &engine.cx().snapshot,
        arrival.opcode,
        statement.as_deref(),
        analysis.prepared.as_deref(),
        analysis.keyspace,
        analysis.place.is_some(),
        analysis.lwt,
    );
    let mut request = Request {
        opcode: arrival.opcode as u8,
        class: class as u8,
        key,
        marks: if analysis.lwt { marks::CONDITIONAL } else { 0 },
        ..Request::default()
    };
    let (content, version) = (arrival.content, arrival.version);
    let mut of_one = |options: &Options<'_>, request: &mut Request| {
        note_options(request, options);
        let recorded = match &statement {
            Some(statement) => recorded(engine, statement, analysis.in_force(), has_values),
            None => return Some(Vec::new()),
        };
        Some(vec![part(recorded, &options.values)?])
    };
    let parts = match arrival.opcode {
        Opcode::Query => QueryView::parse(content, version)
            .ok()
            .and_then(|view| of_one(&view.options, &mut request)),
        Opcode::Execute => ExecuteView::parse(content, version)
            .ok()
            .and_then(|view| of_one(&view.options, &mut request)),
        Opcode::Batch => BatchView::parse(content, version).ok().and_then(|view| {
            note_options(&mut request, &view.options);
            request.batch_type = view.batch_type;
            parts_of(engine, &view, analysis, has_values)
        }),
        _ => {
            let of = statement.as_ref();
            let of = of.map(|of| recorded(engine, of, analysis.keyspace, has_values));
            let of = of.and_then(|of| part(of, &Values::default()));
            of.map(|of| vec![of])
        }
    };
    let (session, stream, now) = (arrival.session, arrival.header.stream, engine.now());
    if let Some(capture) = &mut engine.cx_mut().features.capture {
        capture.on_request(session, stream, request, parts, now);
    }
}

/// A statement as it is recorded, with its text as it was sent if values are wanted and may be shown. `keyspace`:
/// in force where its text does not name one.
fn recorded(
    engine: &mut Engine,
    statement: &Arc<Statement>,
    keyspace: Option<&str>,
    has_values: bool,
) -> Recorded {
    let facts = &statement.facts;
    let named = facts.keyspace.as_ref().map(|name| name.as_str());
    // Nothing more of it could be kept.
    let end = statement.text.floor_char_boundary(TEXT_BYTES_MAX);
    let head = statement.text.get(..end).unwrap_or_default();
    let (text, of) = match &mut engine.cx_mut().features.capture {
        Some(capture) => capture.shown(statement, || shown(statement, head)),
        None => shown(statement, head),
    };
    let is_local = facts.is_about_system(keyspace) || statement.is_node_local(keyspace);
    // A statement that was not understood may be about roles and their passwords, and so may tables of the system.
    let is_shown = has_values && of & (kinds::READ | kinds::WRITE) != 0 && !is_local;
    let recorded = Recorded {
        text,
        keyspace: keyspace.filter(|_| named.is_none()).map(str::to_owned),
        kinds: of | if is_local { kinds::LOCAL } else { 0 },
        sent: is_shown.then(|| head.to_owned()),
    };
    recorded.bounded()
}

/// True if a client sends captured requests again.
fn is_mirror(engine: &Engine, client: SessionKey) -> bool {
    let kind = engine.clients().kind_of(client);
    kind.is_some_and(|kind| &*kind.application == MIRROR_NAME)
}

/// The statements of a batch; None if they are too much, none of them if not all are known.
fn parts_of(
    engine: &mut Engine,
    view: &BatchView<'_>,
    analysis: &Analysis<'_>,
    has_values: bool,
) -> Option<Vec<Part>> {
    if view.children.len() > PARTS_MAX {
        return None;
    }
    let mut parts = Vec::with_capacity(view.children.len());
    let mut bytes = 0;
    for child in &view.children {
        let (recorded, values) = match child {
            BatchChild::Text(text, values) => {
                let statement = engine.statements_mut().of_text(analysis.keyspace, text);
                let recorded = recorded(engine, &statement, analysis.keyspace, has_values);
                (recorded, values)
            }
            BatchChild::Prepared(id, values) => {
                let Some(prepared) = engine.prepared(id) else {
                    return Some(Vec::new());
                };
                let keyspace = prepared.keyspace.as_deref();
                let recorded = recorded(engine, &prepared.statement, keyspace, has_values);
                (recorded, values)
            }
        };
        let part = part(recorded, values)?;
        bytes += part.values.len() + part.statement.text.len();
        if bytes > RECORD_BYTES_MAX {
            return None;
        }
        parts.push(part);
    }
    Some(parts)
}

fn note_options(request: &mut Request, options: &Options<'_>) {
    request.consistency = options.consistency.0;
    request.serial_consistency = options.serial_consistency.map(|level| level.0);
    let page_size = options.page_size.and_then(|rows| u32::try_from(rows).ok());
    request.page_size = page_size.filter(|rows| *rows > 0);
    for (is_so, mark) in [
        (options.paging_state.is_some(), marks::CONTINUES),
        (options.values.named, marks::NAMED),
        (options.timestamp.is_some(), marks::TIMESTAMP),
        (
            options.flags & query_flags::SKIP_METADATA != 0,
            marks::SKIPS_METADATA,
        ),
    ] {
        request.marks |= if is_so { mark } else { 0 };
    }
}

/// A statement with its values, which have their bytes if its text has its own; None if they are too many.
fn part(statement: Recorded, values: &Values<'_>) -> Option<Part> {
    let count = usize::from(values.count);
    let with_bytes = statement.sent.is_some();
    if count > VALUES_MAX || with_bytes && values.byte_len() > RECORD_BYTES_MAX {
        return None;
    }
    let mut out = Vec::new();
    for (_, value) in values.iter() {
        let (bytes, is_unset) = match value {
            ValueRef::Set(bytes) => (Some(bytes), false),
            ValueRef::Null => (None, false),
            ValueRef::Unset => (None, true),
        };
        push_value(&mut out, bytes, is_unset, with_bytes);
    }
    Some(Part {
        statement,
        count,
        values: out,
        with_bytes,
    })
}

/// A statement's text as it is recorded, and what it is wherever it is sent ([`kinds`]). `head`: the beginning
/// of its text.
fn shown(statement: &Statement, head: &str) -> (String, u8) {
    let facts = &statement.facts;
    let of_kind = match facts.kind {
        Kind::Select => kinds::READ,
        Kind::Insert | Kind::Update | Kind::Delete | Kind::Batch => kinds::WRITE,
        _ => 0,
    };
    let (text, is_faithful) = match facts.kind {
        // It names roles.
        Kind::Auth => (first_words(head), false),
        _ => with_markers(head, facts),
    };
    let is_whole = is_faithful && of_kind != 0 && head.len() == statement.text.len();
    let mut of = of_kind;
    for (is_so, kind) in [
        (is_whole, kinds::WHOLE),
        (calls(statement, head), kinds::CALLS),
    ] {
        of |= if is_so { kind } else { 0 };
    }
    (text, of)
}

/// True if the answer may differ from time to time. `head`: the beginning of its text.
fn calls(statement: &Statement, head: &str) -> bool {
    const CHANGING: [&str; 3] = ["now(", "uuid(", "current"];
    let select = statement.facts.select.as_ref();
    let is_counting = |select: &helenus_cql::SelectFacts| !select.folds.is_empty();
    if select.is_some_and(|select| select.calls && !is_counting(select)) {
        return true;
    }
    let text = head.to_ascii_lowercase();
    CHANGING.iter().any(|of| text.contains(of))
}
