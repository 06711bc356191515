//! How conditional writes take their turns.

use std::time::Instant;

use helenus_policy::turns::{Condition, Entered, Left, Turns};

use crate::backlog::Work;
use crate::features::lwt_turns::queue::{Owner, Turn, Write, partition_name};
use crate::features::lwt_turns::slot::Granted;
use crate::features::{self, Arrived, Slot};
use crate::keys::ClientRequestKey;
use crate::pipeline::engine::Engine;
use crate::pipeline::engine::lent::Stations;
use crate::shared::WorkerMessage;
use crate::stats::add;

/// Notes the partition of a conditional write, if those take turns: among those of one role, for whoever may not even
/// write there must delay nobody else.
#[inline]
pub(in crate::features) fn on_keep(engine: &Engine, request: &Arrived<'_>, slot: &mut Slot) {
    if !engine.cx().shared.config.aggregation.lwt_turns {
        return;
    }
    let (analysis, statement) = (request.analysis, request.statement);
    if let Some(partition) = engine.statements().lwt_partition(analysis, statement) {
        let (keyspace, table) = partition.table;
        let role = engine.links().role_number(request.arrival.pool);
        let name = partition_name(role, keyspace, table, partition.key);
        slot.keep().lwt_turns.turn = Some(Turn::Wants(name));
    }
}

/// A conditional write comes to its partition; true if it must wait for its turn.
#[inline]
pub(in crate::features) fn waits(engine: &mut Engine, key: ClientRequestKey) -> bool {
    engine.cx().shared.config.aggregation.lwt_turns && !take_turn(engine, key)
}

fn take_turn(engine: &mut Engine, key: ClientRequestKey) -> bool {
    let Stations { cx, requests, .. } = engine.stations();
    let worker = cx.index;
    let Some(request) = requests.clients.get_mut(key) else {
        return true;
    };
    let owner = (worker, request.caller().session);
    let Some(slot) = request.features.rare_mut().map(|rare| &mut rare.lwt_turns) else {
        return true;
    };
    let Some(Turn::Wants(partition)) = slot.turn else {
        return true;
    };
    let write = Write {
        worker,
        request: key,
        partition,
    };
    let shared = &cx.shared;
    let turns = &shared.features.lwt_turns;
    let entered = turns.with(cx.now, |t, now| t.enter(partition, owner, write, now));
    match entered {
        Entered::Run(_) => slot.turn = Some(Turn::Has(partition)),
        Entered::NoTurn(_) => slot.turn = None,
        Entered::Waits => {
            slot.turn = Some(Turn::Waits(partition));
            add(&shared.stats.global.lwt_waited, 1);
            return false;
        }
    }
    true
}

/// A request has ended.
#[inline]
pub(in crate::features) fn on_end(engine: &mut Engine, slot: &Slot) {
    if let Some(slot) = slot.rare().map(|rare| &rare.lwt_turns)
        && let Some(Turn::Has(partition)) = slot.turn
    {
        leave_turn(engine, partition, slot.condition);
    }
}

fn leave_turn(engine: &mut Engine, partition: u64, mut condition: Condition) {
    let now = engine.now();
    loop {
        let left = |t: &mut Turns<u64, Owner, Write>, us| t.leave(partition, condition, us);
        match engine.cx().shared.features.lwt_turns.with(now, left) {
            Left::Idle => return,
            Left::Next(write) if grant(engine, write, true) => return,
            // Its worker has ended: the turn is left in its place.
            Left::Next(_) => condition = Condition::Unknown,
            Left::Grace { until_us } => return begin_grace(engine, partition, until_us),
            Left::Aside(writes) => return stand_aside(engine, writes),
        }
    }
}

/// Turns have proved of no use on a partition.
fn stand_aside(engine: &mut Engine, writes: Vec<Write>) {
    add(&engine.cx().shared.stats.global.lwt_stood_aside, 1);
    for write in writes {
        grant(engine, write, false);
    }
}

fn begin_grace(engine: &mut Engine, partition: u64, until_us: u64) {
    add(&engine.cx().shared.stats.global.lwt_graces, 1);
    let end = engine.cx().shared.features.lwt_turns.instant(until_us);
    engine.features_mut().lwt_turns.begin(end, partition);
}

/// When the next grace ends.
pub(in crate::features) fn deadline(engine: &Engine) -> Option<Instant> {
    engine.features().lwt_turns.next_end()
}

/// Ends the graces that are over.
pub(in crate::features) fn on_deadline(engine: &mut Engine) {
    let now = engine.now();
    while let Some(partition) = engine.features_mut().lwt_turns.take_over(now) {
        end_grace(engine, partition);
    }
}

fn end_grace(engine: &mut Engine, partition: u64) {
    let turns = &engine.cx().shared.features.lwt_turns;
    let next = turns.with(engine.now(), |t, now| t.end_grace(partition, now));
    if let Some(write) = next
        && !grant(engine, write, true)
    {
        leave_turn(engine, partition, Condition::Unknown);
    }
}

/// Lets go who has waited for too long.
pub(in crate::features) fn end_waits(engine: &mut Engine) {
    let turns = &engine.cx().shared.features.lwt_turns;
    for write in turns.with(engine.now(), Turns::give_up) {
        add(&engine.cx().shared.stats.global.lwt_gave_up, 1);
        grant(engine, write, false);
    }
}

/// Tells a request's worker that it may go on, with its turn or without; false if that has ended.
fn grant(engine: &mut Engine, write: Write, with_turn: bool) -> bool {
    let granted = Granted { write, with_turn };
    if write.worker == engine.cx().index {
        on_message(engine, granted);
        return true;
    }
    let message = features::Message::LwtTurns(granted);
    engine
        .cx_mut()
        .tell(write.worker, WorkerMessage::Feature(message))
}

/// A conditional write of this worker may go on.
pub(in crate::features) fn on_message(engine: &mut Engine, granted: Granted) {
    let work = features::Work::LwtTurns(granted);
    engine.later(Work::Feature(work));
}

/// It goes on.
pub(in crate::features) fn on_work(engine: &mut Engine, granted: Granted) {
    let Granted { write, with_turn } = granted;
    let waits = Some(Turn::Waits(write.partition));
    let request = engine.requests_mut().clients.get_mut(write.request);
    let slot = request.and_then(|request| request.features.rare_mut());
    match slot.map(|rare| &mut rare.lwt_turns) {
        Some(slot) if slot.turn == waits => {
            slot.turn = with_turn.then_some(Turn::Has(write.partition));
            engine.start(write.request);
        }
        // It has been given up meanwhile.
        _ if with_turn => leave_turn(engine, write.partition, Condition::Unknown),
        _ => {}
    }
}

/// State of turns left once all clients have left.
pub(in crate::features) fn leak_check(engine: &Engine, found: &mut Vec<String>) {
    let turns = &engine.cx().shared.features.lwt_turns;
    let (waiting, taken) = (turns.waiting(), turns.partitions());
    if waiting != 0 {
        found.push(format!("{waiting} turns waited for"));
    }
    if taken != 0 {
        found.push(format!("{taken} turns taken"));
    }
}
