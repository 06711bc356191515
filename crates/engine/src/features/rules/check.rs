//! Requests before the rules: what each of their statements is to a rule, and what becomes of those that a rule
//! refuses.

#[cfg(test)]
mod tests;

use helenus_cql::Kind;
use helenus_wire::{BatchView, Consistency, ExecuteView, Opcode, QueryView, Version, code, write};

use crate::config::rules::classes::Classes;
use crate::features::rules::gate::{Admitted, Nature, Part};
use crate::features::rules::seen::Seen;
use crate::features::rules::{Asked, OfClient, Refused, Role, Who};
use crate::features::{Arrived, Slot, Verdict};
use crate::keys::ClientRequestKey;
use crate::pipeline::arrival::Arrival;
use crate::pipeline::engine::Engine;
use crate::pipeline::engine::lent::Stations;
use crate::statement::analysis::Analysis;
use crate::statement::children::Child;
use crate::statement::prepared::Statement;
use crate::stats::add;

/// Why a request is not carried out.
enum RuleViolation {
    Refused(Refused),
    /// Its statement is not known here, and might be forbidden: its client is to prepare it again.
    NotKnown {
        id: Box<[u8]>,
        text: String,
    },
}

/// Puts the rules of the newest settings in force, even if this worker is told of these later.
pub(in crate::features) fn on_settings(engine: &mut Engine) {
    let Stations { cx, features, .. } = engine.stations();
    let rules = cx.shared.features.rules.list();
    features.rules.adopt(rules, &cx.snapshot);
}

pub(in crate::features) fn on_snapshot(engine: &mut Engine) {
    let Stations { cx, features, .. } = engine.stations();
    features.rules.adopt_snapshot(&cx.snapshot);
}

/// Asks the rules that a request matches.
#[inline]
pub(in crate::features) fn on_request(
    engine: &mut Engine,
    request: &Arrived<'_>,
    slot: &mut Slot,
) -> Verdict {
    if engine.features().rules.is_empty() || request.arrival.opcode == Opcode::Prepare {
        return Verdict::GoOn;
    }
    check_rules(engine, request, slot)
}

#[inline(never)]
fn check_rules(engine: &mut Engine, request: &Arrived<'_>, slot: &mut Slot) -> Verdict {
    let Arrived {
        arrival,
        analysis,
        statement,
    } = *request;
    let Admitted { permits, level } = match ask_rules(engine, arrival, analysis, statement) {
        Ok(admitted) => admitted,
        Err(why) => {
            refuse(engine, arrival, statement, &why);
            return Verdict::Answered;
        }
    };
    if !permits.is_empty() {
        slot.keep().rules.0 = permits;
    }
    match level {
        Some(level) => Verdict::Instead(at_level(arrival, level)),
        None => Verdict::GoOn,
    }
}

/// A read that gets the answer of another pays for its bytes.
#[inline]
pub(in crate::features) fn on_follower(
    engine: &mut Engine,
    key: ClientRequestKey,
    slot: &mut Slot,
) {
    let held = slot.rare_mut().map(|rare| std::mem::take(&mut rare.rules));
    let permits = held.map(|held| held.of_follower());
    if let Some(permits) = permits.filter(|permits| !permits.is_empty())
        && let Some(request) = engine.requests_mut().clients.get_mut(key)
    {
        request.features.keep().rules.0.extend(permits);
    }
}

/// Places that are held.
pub(in crate::features) fn leak_check(engine: &Engine, found: &mut Vec<String>) {
    for rule in engine.cx().shared.features.rules.list() {
        let (name, places) = (&rule.settings.name, rule.in_flight());
        if places != 0 {
            found.push(format!("{places} places of rule {name}"));
        }
    }
}

/// Asks the rules that a request matches.
///
/// # Errors
/// Why one of them refuses it.
fn ask_rules(
    engine: &mut Engine,
    arrival: &Arrival<'_>,
    analysis: &Analysis<'_>,
    statement: Option<&Statement>,
) -> Result<Admitted, Box<RuleViolation>> {
    let of_client = rules_of_client(engine, arrival);
    if of_client.may == 0 {
        return Ok(Admitted::default());
    }
    let has_several = match statement {
        None => arrival.opcode == Opcode::Batch,
        Some(statement) => statement.facts.kind == Kind::Batch,
    };
    if has_several {
        return ask_rules_of_several(engine, arrival, analysis, statement, of_client);
    }
    let Some(statement) = statement else {
        if let Some(rule) = engine.features().rules.needs_to_know(of_client) {
            let view = ExecuteView::parse(arrival.content, arrival.version);
            return Err(Box::new(RuleViolation::NotKnown {
                id: view.map_or(&[][..], |view| view.id).into(),
                text: rule.cannot_tell(),
            }));
        }
        return ask_rules_of(engine, arrival, analysis, of_client, &[Part::unknown()]);
    };
    let seen = Seen {
        snapshot: &engine.cx().snapshot,
        opcode: arrival.opcode,
        with_classes: engine.features().rules.names_classes(of_client.may),
    };
    let prepared = analysis.prepared.as_deref();
    let place = analysis.place.as_ref();
    let part = seen.single(statement, prepared, analysis.in_force(), place.is_some());
    let token = place.and_then(|place| place.token);
    let part = Part { token, ..part };
    ask_rules_of(engine, arrival, analysis, of_client, &[part])
}

/// [`ask_rules`] for a batch, sent as one or written as one.
fn ask_rules_of_several(
    engine: &mut Engine,
    arrival: &Arrival<'_>,
    analysis: &Analysis<'_>,
    statement: Option<&Statement>,
    of_client: OfClient,
) -> Result<Admitted, Box<RuleViolation>> {
    let with_tokens = engine.features().rules.names_partitions(of_client.may);
    let Stations { cx, statements, .. } = engine.stations();
    let (opcode, content, version) = (arrival.opcode, arrival.content, arrival.version);
    let (children, tokens) = match statement {
        Some(of) if with_tokens => {
            let tokens = statements.inner_tokens(cx, opcode, content, version, analysis, of);
            (Vec::new(), tokens)
        }
        Some(_) => (Vec::new(), Vec::new()),
        None => {
            let children = statements.children(cx, content, version, analysis, with_tokens);
            (children, Vec::new())
        }
    };
    let seen = Seen {
        snapshot: &engine.cx().snapshot,
        opcode: arrival.opcode,
        with_classes: engine.features().rules.names_classes(of_client.may),
    };
    let mut parts = Vec::new();
    if let Some(statement) = statement {
        seen.inner(statement, analysis.in_force(), &tokens, &mut parts);
    }
    for child in &children {
        match child {
            Child::Unknown(id) => {
                if let Some(rule) = engine.features().rules.needs_to_know(of_client) {
                    return Err(Box::new(RuleViolation::NotKnown {
                        id: id.clone(),
                        text: rule.cannot_tell(),
                    }));
                }
                parts.push(Part::unknown());
            }
            Child::Text(of, token) => {
                seen.child(of, None, analysis.keyspace, *token, &mut parts);
            }
            Child::Prepared(of, token) => {
                let (statement, in_force) = (&*of.statement, of.keyspace.as_deref());
                seen.child(statement, Some(&**of), in_force, *token, &mut parts);
            }
        }
    }
    // All of it is a batch, and conditional if one of them is.
    let all = match analysis.lwt {
        true => Classes::BATCH.and(Classes::CONDITIONAL).and(Classes::WRITE),
        false => Classes::BATCH.and(Classes::WRITE),
    };
    for part in &mut parts {
        part.classes = part.classes.and(all);
    }
    if parts.is_empty() {
        let classes = all;
        let kind = Kind::Batch;
        parts.push(Part {
            classes,
            kind,
            nature: Nature::Known,
            ..Part::unknown()
        });
    }
    ask_rules_of(engine, arrival, analysis, of_client, &parts)
}

fn ask_rules_of(
    engine: &Engine,
    arrival: &Arrival<'_>,
    analysis: &Analysis<'_>,
    of_client: OfClient,
    parts: &[Part<'_>],
) -> Result<Admitted, Box<RuleViolation>> {
    let fitting = engine.features().rules.fitting(of_client, parts);
    if fitting == 0 {
        return Ok(Admitted::default());
    }
    let asked = Asked {
        is_read: parts.iter().all(Part::is_read),
        level: analysis
            .consistency
            .filter(|_| parts.iter().any(Part::has_level)),
        is_about_rows: parts.iter().all(Part::is_about_rows),
        bytes: arrival.body.len(),
    };
    let admitted = engine.features().rules.admit(engine.now(), fitting, asked);
    admitted.map_err(|why| Box::new(RuleViolation::Refused(why)))
}

/// The rules that may be about what a client asks: found once for each client.
fn rules_of_client(engine: &mut Engine, arrival: &Arrival<'_>) -> OfClient {
    let generation = engine.features().rules.generation();
    if let Some(of) = engine.stations().clients.features_of(arrival.session)
        && of.rules.0 == generation
    {
        return of.rules.1;
    }
    let peer = engine.clients().peer_of(arrival.session);
    let kind = engine.clients().kind_of(arrival.session);
    let identity = engine.links().identity_of(arrival.pool);
    let role = match identity.map(|identity| (identity.role(), identity.is_anonymous())) {
        Some((Some(role), _)) => Role::Named(role),
        Some((None, true)) => Role::Nobody,
        Some((None, false)) | None => Role::Unknown,
    };
    let who = peer.zip(kind).map(|(peer, kind)| Who {
        role,
        address: peer.ip(),
        application: &kind.application,
        driver: &kind.driver,
    });
    let rules = engine.features().rules.of_client(who.as_ref());
    if let Some(of) = engine.stations().clients.features_of(arrival.session) {
        of.rules = (generation, rules);
    }
    rules
}

/// Tells a client why a rule refuses its request.
#[cold]
fn refuse(
    engine: &mut Engine,
    arrival: &Arrival<'_>,
    statement: Option<&Statement>,
    why: &RuleViolation,
) {
    let global = &engine.cx().shared.stats.global;
    let mut fields = Vec::new();
    let (code, text) = match why {
        RuleViolation::Refused(why) => {
            add(&global.requests_refused_by_rules, 1);
            let is_overload = why.code == code::OVERLOADED;
            add(&global.requests_overloaded, u64::from(is_overload));
            (why.code, &why.text)
        }
        RuleViolation::NotKnown { id, text } => {
            write::short_bytes(&mut fields, id);
            (code::UNPREPARED, text)
        }
    };
    engine.refuse_with_fields(arrival, statement, code, text, &fields);
}

/// The body of a request at another consistency level than its client's.
fn at_level(arrival: &Arrival<'_>, level: Consistency) -> Vec<u8> {
    let mut body = arrival.body.to_vec();
    let at = options_at(arrival.opcode, arrival.content, arrival.version);
    let at = at.map(|at| at + arrival.payload().len());
    let written = at.and_then(|at| body.get_mut(at..at + 2));
    if let Some(written) = written {
        written.copy_from_slice(&level.0.to_be_bytes());
    }
    body
}

/// Where the options of a request begin, with its consistency level.
fn options_at(opcode: Opcode, content: &[u8], version: Version) -> Option<usize> {
    let options = match opcode {
        Opcode::Query => QueryView::parse(content, version).ok()?.options,
        Opcode::Execute => ExecuteView::parse(content, version).ok()?.options,
        Opcode::Batch => BatchView::parse(content, version).ok()?.options,
        _ => return None,
    };
    Some(options.begins_at())
}
