//! The last hour as JSON, and what has happened in it (docs/api.md, "History").

use std::time::SystemTime;

use helenus_admin_api::history as api;
use helenus_engine::stats::{BUCKETS, bucket_bound_us};
use helenus_policy::schedule::Class;
use helenus_wire::{PACKED_BUCKETS, Packed};

use super::shown::since_1970_ms;
use crate::admin::http::parameters;
use crate::process::Process;
use crate::records::events::Event;
use crate::records::history::{
    Bounds, COARSE, CountedClass, CountedFrames, FINE, Resolution, Step,
};
use crate::system::boot_time;

/// Events that `/api/events` shows if nothing is said, and at most.
const EVENTS_SHOWN: u64 = 100;
const EVENTS_SHOWN_MAX: u64 = 1_000;

/// The answer of `/api/history`.
///
/// # Errors
/// A sentence about the parameter that is wrong.
pub(in crate::admin) fn view(
    shared: &Process,
    started: SystemTime,
    query: Option<&str>,
    details: bool,
) -> Result<api::History, String> {
    parameters::only(query, &["fine", "coarse", "events"])?;
    let (fine, coarse) = (wanted(query, "fine")?, wanted(query, "coarse")?);
    let events = wanted(query, "events")?;
    let (now, wall) = (boot_time::now(), since_1970_ms(SystemTime::now()));
    let totals = shared.stats.global.list();
    let series = |of, bounds, from: u64| series(shared, of, bounds, from);
    Ok(api::History {
        started_unix_ms: since_1970_ms(started),
        now_unix_ms: wall,
        zero_unix_ms: wall.saturating_sub(shared.history.ms_at(now)),
        counters: totals.into_iter().map(|(name, _)| name.into()).collect(),
        bounds_us: (0..BUCKETS).map(bucket_bound_us).collect(),
        packed_bounds: (0..PACKED_BUCKETS).filter_map(Packed::bound).collect(),
        fine: fine.map(|from| series(Resolution::Fine, FINE, from)),
        coarse: coarse.map(|from| series(Resolution::Coarse, COARSE, from)),
        events: events.map(|from| new_events(shared, from, details)),
    })
}

/// From which number on; None if it is not wanted.
fn wanted(query: Option<&str>, name: &str) -> Result<Option<u64>, String> {
    match parameters::text(query, name)?.as_deref() {
        None => Ok(Some(0)),
        Some("none") => Ok(None),
        Some(number) => number.parse().map(Some).map_err(|_| {
            format!("{name} must be `next` of an earlier answer, 0 for all that is kept, or none")
        }),
    }
}

fn series(shared: &Process, of: Resolution, bounds: Bounds, from: u64) -> api::Series {
    api::Series {
        step_ms: bounds.step_ms,
        steps_max: bounds.steps_max,
        next: shared.history.next(of),
        steps: shared.history.steps(of, from, |step| step_view(&step)),
    }
}

fn step_view(step: &Step<'_>) -> api::Step {
    let counted = step.counted;
    let classes = Class::ALL.iter().filter_map(|class| {
        let of = counted.class(*class);
        (!of.is_empty()).then(|| (class.name().into(), class_view(of)))
    });
    let gauges = &step.gauges;
    api::Step {
        seq: step.number,
        end_ms: step.end_ms,
        ms: step.lasted_ms,
        counters: pairs(counted.totals()),
        classes: classes.collect(),
        cpu_us: counted.cpu_us(),
        link_calls: counted.link_calls(),
        sent: frames_view(counted.sent()),
        received: frames_view(counted.received()),
        gauges: api::Gauges {
            clients: gauges.clients,
            links: gauges.links,
            nodes: gauges.nodes,
            nodes_up: gauges.nodes_up,
            nodes_down: gauges.nodes_down,
            nodes_ejected: gauges.nodes_ejected,
            nodes_out: gauges.nodes_out,
            in_flight: gauges.in_flight,
            queued: gauges.queued.iter().sum(),
            queued_by_class: gauges.queued.to_vec(),
            resident_bytes: gauges.resident_bytes,
            window_us: gauges.window_us,
        },
    }
}

fn class_view(of: CountedClass<'_>) -> api::Class {
    let (latency, waits) = (of.latency(), of.waits());
    api::Class {
        latency: pairs(latency.buckets()),
        latency_sum_us: latency.sum_us(),
        waits: pairs(waits.buckets()),
        waits_sum_us: waits.sum_us(),
        dispatched: of.dispatched(),
        aged: of.aged(),
        refused: of.refused(),
    }
}

fn frames_view(of: CountedFrames<'_>) -> api::Frames {
    api::Frames {
        queries: of.queries,
        frames: pairs(of.frames),
    }
}

fn pairs(numbers: &[u64]) -> Vec<u64> {
    let numbers = (0..).zip(numbers).filter(|(_, number)| **number > 0);
    numbers.flat_map(|(at, number)| [at, *number]).collect()
}

fn new_events(shared: &Process, from: u64, details: bool) -> api::NewEvents {
    let (events, next) = shared.events.from(from);
    let events = events.into_iter().map(|event| api::NewEvent {
        at_ms: event.at.as_millis() as u64,
        event: shown(event, details),
    });
    api::NewEvents {
        next,
        events: events.collect(),
    }
}

/// The answer of `/api/events`.
///
/// # Errors
/// A sentence about the parameter that is wrong.
pub(in crate::admin) fn events(
    shared: &Process,
    query: Option<&str>,
    details: bool,
) -> Result<api::Events, String> {
    parameters::only(query, &["limit"])?;
    let limit = parameters::number(query, "limit", EVENTS_SHOWN, 1..=EVENTS_SHOWN_MAX)?;
    let wall = since_1970_ms(SystemTime::now());
    let zero_ms = wall.saturating_sub(shared.history.ms_at(boot_time::now()));
    let (events, _) = shared.events.from(0);
    let latest = events.into_iter().rev().take(limit as usize);
    let events = latest.map(|event| api::PastEvent {
        at_unix_ms: zero_ms + event.at.as_millis() as u64,
        event: shown(event, details),
    });
    Ok(api::Events {
        events: events.collect(),
    })
}

/// `details`: whether values may be seen.
fn shown(event: Event, details: bool) -> api::Event {
    let text = match event.detail {
        None => event.text,
        Some(detail) if details => format!("{}: {detail}", event.text).into(),
        Some(_) => format!("{}: the log says why", event.text).into(),
    };
    api::Event {
        seq: event.number,
        kind: event.kind.name().into(),
        severity: event.kind.severity().name().into(),
        text,
    }
}
