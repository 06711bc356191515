//! Clients that go on with another process over the same sockets: away from here, and here from another one.

use std::time::Instant;

use crate::keys::SessionKey;
use crate::pipeline::engine::Engine;
use crate::pipeline::engine::lent::Stations;
use crate::session::clients::Clients;
use crate::session::drain::Timetable;
use crate::session::handover::passed::{NotAdopted, PassedClient};
use crate::shared::ClientPermit;
use crate::upstream::connect::checks::check_every;

/// Another process takes over the clients of this worker, as far as their connections allow it.
pub fn begin_passing(
    engine: &mut Engine,
    now: Instant,
    may_be_passed: impl Fn(SessionKey) -> bool,
) {
    engine.set_now(now);
    let Stations { cx, clients, .. } = engine.stations();
    clients.begin_passing(cx, may_be_passed);
}

/// True if there are clients that may still be passed on.
pub fn is_passing(engine: &Engine) -> bool {
    engine.clients().is_passing()
}

/// Holds some of the clients that are to be passed on: nothing is read from them until they are, or until
/// it has taken too long to answer them.
pub fn hold_clients(engine: &mut Engine, now: Instant, timetable: &Timetable) {
    engine.set_now(now);
    let Stations { cx, clients, .. } = engine.stations();
    clients.hold(cx, timetable);
}

/// The next client that can be passed on. Its connection is not touched any more until
/// [`keep_client`]; if the other process has it, [`Engine::close_session`] forgets it.
pub fn next_to_pass(engine: &mut Engine, now: Instant) -> Option<(SessionKey, PassedClient)> {
    engine.set_now(now);
    let Stations { cx, clients, .. } = engine.stations();
    clients.next_to_pass(cx)
}

/// A client could not be passed on: it is served here.
pub fn keep_client(engine: &mut Engine, now: Instant, key: SessionKey) {
    engine.set_now(now);
    let Stations { cx, clients, .. } = engine.stations();
    clients.keep(cx, key);
}

/// No further clients are passed on: those that are there are served here.
pub fn end_passing(engine: &mut Engine, now: Instant) {
    engine.set_now(now);
    let Stations { cx, clients, .. } = engine.stations();
    clients.end_passing(cx);
}

/// Takes over a client that another process has had. Whoever says so is believed that a node has accepted
/// the client's credentials; its links log in with them.
///
/// # Errors
/// Why it cannot be served here.
pub fn adopt_session(
    engine: &mut Engine,
    now: Instant,
    passed: PassedClient,
    permit: ClientPermit,
) -> Result<SessionKey, NotAdopted> {
    engine.set_now(now);
    let Stations {
        cx, clients, links, ..
    } = engine.stations();
    let member = Clients::member_of(cx, &passed, check_every(cx))?;
    let pool = match &member {
        Some(member) => links.pool_of(cx, member.identity()),
        None => links.anonymous_pool(cx),
    };
    let adopted = clients.adopt(cx, passed, member, pool, permit)?;
    links.enter_pool(pool);
    engine.settle();
    Ok(adopted)
}

#[cfg(test)]
mod tests;
