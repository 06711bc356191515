//! A batch that is one text.

use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

use helenus_cql::{Facts, Kind};
use helenus_layout::plan::{self, Copy, LogicalTable};
use helenus_wire::{Opcode, Options, ValueRef, write};

use crate::features::layouts::derived::{Partitions, Parts, batch_timestamp};
use crate::features::layouts::fan_out_write::bytes_of;
use crate::features::layouts::on_layouts::{Instead, LayoutWrite};
use crate::features::layouts::refusals::{LAYOUTS, too_large, write_refused};
use crate::features::layouts::writes::timed::Timed;
use crate::features::layouts::writes::{
    Asked, Follow, NO_TOKEN, NOT_READABLE, TOO_MANY, follow, has_derived, is_room_for, made,
    unordered,
};
use crate::pipeline::arrival::Arrival;
use crate::pipeline::engine::Engine;
use crate::pipeline::engine::lent::Stations;
use crate::rewrite::fencing::named_table;
use crate::rewrite::in_order::{Unordered, in_order};
use crate::rewrite::refusal::Refusal;
use crate::statement::analysis::Analysis;
use crate::statement::prepared::Statement;

const NOT_A_TIME: &str =
    "what stands behind BATCH is not understood: write USING TIMESTAMP with each statement";

/// A batch that is one text, with further statements for layouts; `None` if it writes to none.
pub(crate) fn text_batch_of_layouts(
    engine: &mut Engine,
    arrival: &Arrival<'_>,
    analysis: &Analysis<'_>,
    statement: &Statement,
) -> Result<Option<LayoutWrite>, Refusal> {
    let layouts = engine.cx().snapshot.features().layouts.clone();
    let in_force = analysis.in_force();
    let facts = &statement.facts;
    let mut tables = Vec::with_capacity(facts.inner.len());
    for inner in &facts.inner {
        let named = named_table(inner, in_force);
        if let Some(why) = write_refused(named, &layouts) {
            return Err(Refusal::invalid(why));
        }
        tables.push(named.and_then(|(keyspace, table)| layouts.table(keyspace, table)));
    }
    if tables.iter().all(Option::is_none) {
        return Ok(None);
    }
    let is_derived = tables.iter().flatten().any(|table| has_derived(table));
    let timed = Timed::of(engine, arrival, is_derived);
    let arrival = &timed.arrival(arrival);
    let asked = Asked::of(arrival, analysis).ok_or(Refusal::invalid(NOT_READABLE))?;
    let max = engine.cx().shared.config.limits.request_bytes_max;
    let extended = extend_text(&statement.text, facts, &tables, max)?;
    is_room_for(engine, extended.byte_len())?;
    let values = in_order(&asked.options.values, facts, asked.names);
    // Values with names keep their meaning in the text that is sent to the table.
    let are_named = asked.options.values.named && asked.names.is_none();
    let mut extended = extended;
    if analysis.lwt {
        // Nothing of a batch is done unless all its conditions hold.
        extended.followers.clear();
    }
    let is_followed = !extended.followers.is_empty() || !extended.compared.is_empty();
    if !is_followed && !extended.is_longer {
        return Ok(None);
    }
    let mut follow = None;
    if is_followed {
        let values = values.clone().map_err(|why| unordered_in(&tables, why))?;
        let options = &asked.options;
        follow = Some(followed_by(
            engine, arrival, analysis, statement, options, &extended, &values,
        )?);
    }
    let mut body = arrival.payload().to_vec();
    let (options, content) = (&asked.options, arrival.content);
    if !extended.is_longer {
        body.extend_from_slice(content);
    } else if are_named {
        write::long_string(&mut body, &extended.text);
        options.write_with_state(content, None, &mut body);
    } else {
        let own = values.map_err(|why| unordered_in(&tables, why))?;
        let values = extended.values_of(&own)?;
        if u16::try_from(values.len()).is_err() {
            return Err(Refusal::invalid(TOO_MANY));
        }
        is_room_for(engine, extended.text.len() + bytes_of(&values))?;
        write::long_string(&mut body, &extended.text);
        // The keyspace of a QUERY counts, that of an EXECUTE does not.
        let own = options.keyspace.filter(|_| asked.names.is_none());
        options.write_with_values(content, arrival.version, &values, own, &mut body);
    }
    let keyspace = match arrival.opcode {
        Opcode::Execute => in_force.map(Rc::from),
        _ => arrival.keyspace.cloned(),
    };
    let instead = extended.is_longer.then_some(Instead {
        opcode: Opcode::Query,
        keyspace,
    });
    let tables = tables.iter().copied().flatten().cloned().collect();
    Ok(Some(made(instead, body, tables, Vec::new(), follow)))
}

fn unordered_in(tables: &[Option<&Arc<LogicalTable>>], why: Unordered) -> Refusal {
    match tables.iter().flatten().next() {
        Some(table) => unordered(table, why),
        None => Refusal::invalid(why.text(LAYOUTS)),
    }
}

/// The requests for derived layouts.
fn followed_by(
    engine: &mut Engine,
    arrival: &Arrival<'_>,
    analysis: &Analysis<'_>,
    statement: &Statement,
    options: &Options<'_>,
    extended: &Extended,
    values: &[ValueRef<'_>],
) -> Result<Follow, Refusal> {
    let mut parts = Parts::default();
    for follower in &extended.followers {
        let own = values.get(follower.values.clone());
        let own = own.ok_or(Refusal::invalid(Unordered::Number.text(LAYOUTS)))?;
        parts.push_text(&follower.table, follower.at, &follower.text, own);
    }
    let first = statement.facts.inner.first();
    let first = first.map_or(0, |first| first.spans.statement.start);
    let before = statement.text.get(..first).unwrap_or_default();
    let said = batch_timestamp(before, values).map_err(|_| Refusal::invalid(NOT_A_TIME))?;
    let mut options = *options;
    options.timestamp = said.or(options.timestamp);
    let (opcode, content) = (arrival.opcode, arrival.content);
    let Stations { cx, statements, .. } = engine.stations();
    let tokens = statements.inner_tokens(cx, opcode, content, arrival.version, analysis, statement);
    let of_layouts = tokens.into_iter().zip(&extended.has_layouts);
    let of_layouts = of_layouts.filter(|(_, has_layouts)| **has_layouts);
    let tokens: Vec<Option<i64>> = of_layouts.map(|(token, _)| token).collect();
    if !extended.compared.is_empty() && tokens.iter().any(Option::is_none) {
        return Err(Refusal::invalid(NO_TOKEN));
    }
    let written = Partitions {
        is_one_mutation: extended.is_in_one_keyspace() && is_one(&tokens),
        tokens,
    };
    let compared = extended.compared.clone();
    follow(
        engine, arrival, analysis, &options, parts, compared, written,
    )
}

/// True if all are the same partition, which is known.
fn is_one(tokens: &[Option<i64>]) -> bool {
    let first = tokens.first().copied().flatten();
    first.is_some() && tokens.iter().all(|token| *token == first)
}

/// The text of a batch with further statements.
struct Extended {
    text: String,
    /// The value of each marker, as a position among those of the client's own text.
    values: Vec<usize>,
    /// It has further statements.
    is_longer: bool,
    /// What is written to derived layouts.
    followers: Vec<Follower>,
    /// Whether the table of each statement has layouts.
    has_layouts: Vec<bool>,
    /// Tables with which derived layouts are compared afterwards.
    compared: Vec<Arc<LogicalTable>>,
}

/// A statement on a derived layout.
struct Follower {
    table: Arc<LogicalTable>,
    /// Which of its layouts.
    at: usize,
    text: String,
    /// Its values, as positions among those of the client's own text.
    values: Range<usize>,
}

impl Extended {
    /// True if all of its statements are about tables of one keyspace, as far as is known.
    fn is_in_one_keyspace(&self) -> bool {
        let tables = self.followers.iter().map(|follower| &follower.table);
        let mut keyspaces = tables.map(|table| &table.keyspace);
        let first = keyspaces.next();
        self.has_layouts.iter().all(|has| *has) && keyspaces.all(|keyspace| Some(keyspace) == first)
    }

    fn byte_len(&self) -> usize {
        let followers = self.followers.iter().map(|follower| follower.text.len());
        self.text.len() + followers.sum::<usize>()
    }

    /// The values of its markers, of the client's own.
    fn values_of<'a>(&self, own: &[ValueRef<'a>]) -> Result<Vec<ValueRef<'a>>, Refusal> {
        let values: Option<Vec<_>> = self.values.iter().map(|at| own.get(*at).copied()).collect();
        values.ok_or(Refusal::invalid(Unordered::Number.text(LAYOUTS)))
    }
}

/// Puts behind each statement of a batch the same on each layout of its table. `max`: bytes that it may have.
fn extend_text(
    text: &str,
    facts: &Facts,
    tables: &[Option<&Arc<LogicalTable>>],
    max: usize,
) -> Result<Extended, Refusal> {
    let of_inner: usize = facts
        .inner
        .iter()
        .map(|inner| usize::from(inner.markers))
        .sum();
    // Those of USING come first.
    let before = usize::from(facts.markers).checked_sub(of_inner);
    let mut marker = before.ok_or(Refusal::invalid(NOT_READABLE))?;
    let mut extended = Extended {
        text: String::with_capacity(2 * text.len()),
        values: (0..marker).collect(),
        is_longer: false,
        followers: Vec::new(),
        compared: Vec::new(),
        has_layouts: tables.iter().map(Option::is_some).collect(),
    };
    let mut at = 0;
    for (inner, table) in facts.inner.iter().zip(tables) {
        let own = marker..marker + usize::from(inner.markers);
        marker = own.end;
        extended.values.extend(own.clone());
        let end = inner.spans.statement.end;
        let piece = text.get(at..end).ok_or(Refusal::invalid(NOT_READABLE))?;
        extended.text.push_str(piece);
        at = end;
        let Some(table) = table else { continue };
        let is_write = matches!(inner.kind, Kind::Insert | Kind::Update | Kind::Delete);
        let copies = match plan::write(table, text, inner) {
            plan::Write::Copies(copies) if is_write => copies,
            plan::Write::Compared if is_write => {
                extended.compared.push((*table).clone());
                continue;
            }
            plan::Write::Copies(_) | plan::Write::Compared => {
                return Err(Refusal::invalid(NOT_READABLE));
            }
            plan::Write::Refused(why) => return Err(Refusal::invalid(why)),
        };
        for (at, copy) in copies.into_iter().enumerate() {
            if table.copies.get(at).is_some_and(Copy::is_derived) {
                extended.followers.push(Follower {
                    table: (*table).clone(),
                    at,
                    text: copy,
                    values: own.clone(),
                });
                continue;
            }
            extended.is_longer = true;
            extended.text.push_str("; ");
            extended.text.push_str(&copy);
            extended.values.extend(own.clone());
        }
        if extended.byte_len() > max {
            return Err(too_large(extended.byte_len(), max));
        }
    }
    extended.text.push_str(text.get(at..).unwrap_or_default());
    Ok(extended)
}
