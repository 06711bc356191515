//! Clients that another process takes over, with their sockets.
//!
//! 1. A client is held: nothing more is read from it, and what it has asked for is answered. If that takes
//!    too long, it is served for a while, and held again. Clients that have nothing in flight need not wait
//!    for those that have.
//! 2. With nothing in flight it is offered: what is known of it becomes a value ([`PassedClient`]), what has
//!    come of its next message included. Nothing is written to it from then on.
//! 3. Once the other process has it, it is forgotten here. If that process does not take it, it is kept, as
//!    if nothing had been, and closed when it is quiet. So are all that are left in the last quarter of the
//!    time.

pub(in crate::session) mod leaving;
pub mod passed;

use std::time::{Duration, Instant};

use helenus_wire::Version;

use crate::context::Context;
use crate::keys::{PoolKey, SessionKey};
use crate::output::Output;
use crate::session::clients::Clients;
use crate::session::connection::{Life, Passing, Session};
use crate::session::drain::Timetable;
use crate::session::handover::leaving::Leavers;
use crate::session::handover::passed::{NotAdopted, PassedClient, name_of};
use crate::session::login::identity::Member;
use crate::session::recent_events::Told;
use crate::shared::ClientPermit;

/// Clients of a worker that are offered, or have just been held, at a time: so few stand still for the
/// others' sake.
const AT_ONCE: usize = 64;
/// How many of these may have requests in flight.
const BUSY_MAX: usize = AT_ONCE / 2;
/// The part of the longest hold after which a client counts among them no more: what it waits for takes
/// longer than it takes to pass others on.
const JUST_HELD: u32 = 8;
/// Clients that are looked at in one turn.
const LOOKED_AT_MAX: usize = 256;
/// Bytes of an incomplete message that are passed on. A client that has sent more of one is held when that
/// is complete.
const UNREAD_MAX: usize = 256 * 1024;
/// Bytes of answers that are passed on, if the client does not read them while it is held.
const UNSENT_MAX: usize = 128 * 1024;
/// How long it has for that at most.
const UNSENT_AFTER: Duration = Duration::from_millis(200);

impl Session {
    fn has_little_unread(&self) -> bool {
        let (pending, partial) = self.decoder.unfinished();
        pending.len() + partial.len() <= UNREAD_MAX && !self.decoder.is_skipping()
    }

    /// True if it could be offered now, having been held since then.
    fn may_be_offered(&self, now: Instant, since: Instant, unsent_after: Duration) -> bool {
        let unsent = match self.has_unsent() {
            false => true,
            true => {
                now.saturating_duration_since(since) >= unsent_after
                    && self.outbox.len() <= UNSENT_MAX
            }
        };
        // One that has been cut off is about to be closed.
        let is_cut_off = |member: &Member| member.identity().has_ended();
        self.life == Life::Open
            && self.in_flight == 0
            && unsent
            && self.has_little_unread()
            && !self.member.as_ref().is_some_and(is_cut_off)
    }

    /// Its state for another process.
    fn passed_on(&mut self, cx: &Context, told: Vec<Told>) -> PassedClient {
        let since = |then| cx.now.saturating_duration_since(then);
        // They stay here as well, in case that they are not taken.
        let unsent = self.outbox.take_bytes();
        self.outbox.resume(unsent.clone());
        self.backlog_held.set(self.outbox.held_len());
        let (pending, partial) = self.decoder.unfinished();
        let identity = self.member.as_ref().map(Member::identity);
        PassedClient {
            peer: self.peer,
            version: self.version as u8,
            compression: name_of(self.compression),
            keyspace: self.keyspace.as_deref().map(Into::into),
            events: self.events,
            told,
            login: identity.and_then(|identity| {
                let credentials = identity.credentials()?.clone();
                Some((credentials, since(identity.accepted())))
            }),
            names: (*self.names).clone(),
            traffic: self.traffic,
            age: since(self.accepted),
            idle: since(self.active),
            pending: pending.to_vec(),
            partial: partial.to_vec(),
            unsent,
        }
    }
}

impl Clients {
    /// Begins to pass clients on, as far as their connections allow it.
    pub(crate) fn begin_passing(
        &mut self,
        cx: &Context,
        may_be_passed: impl Fn(SessionKey) -> bool,
    ) {
        for (key, session) in self.sessions.iter_mut() {
            if session.life == Life::Open && may_be_passed(key) {
                session.passing = Passing::Due(cx.now);
                self.leavers.due.push_back(key);
            }
        }
    }

    /// True if there are clients that may still be passed on.
    pub(crate) fn is_passing(&self) -> bool {
        !self.leavers.is_empty()
    }

    /// Holds the next ones, and lets those go on that have been held for long.
    pub(crate) fn hold(&mut self, cx: &mut Context, timetable: &Timetable) {
        if timetable.is_hurrying(cx.now) {
            return self.keep_the_rest(cx);
        }
        let hold = timetable.hold();
        self.leavers.unsent_after = UNSENT_AFTER.min(hold / 2);
        let (mut just_held, mut busy) = (0, 0);
        for key in std::mem::take(&mut self.leavers.held) {
            let Some(session) = self.sessions.get_mut(key) else {
                continue;
            };
            let Passing::Held(since) = session.passing else {
                continue;
            };
            let held_for = cx.now.saturating_duration_since(since);
            if held_for < hold {
                if held_for < hold / JUST_HELD {
                    just_held += 1;
                    busy += usize::from(session.in_flight > 0);
                }
                self.leavers.held.push(key);
                continue;
            }
            session.passing = Passing::Due(cx.now + hold);
            self.leavers.due.push_back(key);
            cx.ask(Output::Client(key));
        }
        for _ in 0..self.leavers.due.len().min(LOOKED_AT_MAX) {
            if just_held + self.leavers.offered >= AT_ONCE {
                return;
            }
            if let Some(session) = self.hold_next(cx, busy < BUSY_MAX) {
                just_held += 1;
                busy += usize::from(session.in_flight > 0);
            }
        }
    }

    /// Holds the next one, if it is its time; one with something in flight only if `may_be_busy`.
    fn hold_next(&mut self, cx: &Context, may_be_busy: bool) -> Option<&Session> {
        let key = self.leavers.due.pop_front()?;
        let session = self.sessions.get_mut(key)?;
        let Passing::Due(from) = session.passing else {
            return None;
        };
        if !session.is_open() {
            session.passing = Passing::Stays;
            return None;
        }
        let is_due = from <= cx.now && (may_be_busy || session.in_flight == 0);
        if !is_due || !session.is_ready() || !session.has_little_unread() {
            self.leavers.due.push_back(key);
            return None;
        }
        session.passing = Passing::Held(cx.now);
        self.leavers.held.push(key);
        Some(session)
    }

    /// Those that are not offered stay: they are closed as soon as they are quiet.
    fn keep_the_rest(&mut self, cx: &mut Context) {
        let held = std::mem::take(&mut self.leavers.held);
        let due = std::mem::take(&mut self.leavers.due);
        for key in held.into_iter().chain(due) {
            let Some(session) = self.sessions.get_mut(key) else {
                continue;
            };
            if session.is_offered() {
                continue;
            }
            if session.is_held_back() {
                cx.ask(Output::Client(key));
            }
            session.passing = Passing::Stays;
        }
    }

    /// The next client that can be passed on; [`Clients::keep`] or its end follows.
    pub(crate) fn next_to_pass(&mut self, cx: &Context) -> Option<(SessionKey, PassedClient)> {
        let unsent_after = self.leavers.unsent_after;
        let at = self.leavers.held.iter().position(|key| {
            let session = self.sessions.get(*key);
            session.is_some_and(|session| match session.passing {
                Passing::Held(since) => session.may_be_offered(cx.now, since, unsent_after),
                _ => false,
            })
        })?;
        let key = self.leavers.held.swap_remove(at);
        let session = self.sessions.get_mut(key)?;
        session.passing = Passing::Offered(cx.now);
        self.leavers.offered += 1;
        let told = self.events.told(cx.now, session.events);
        Some((key, session.passed_on(cx, told)))
    }

    /// A client that was offered has not been taken over: it stays.
    pub(crate) fn keep(&mut self, cx: &mut Context, key: SessionKey) {
        let Some(session) = self.sessions.get_mut(key) else {
            return;
        };
        let Passing::Offered(since) = session.passing else {
            return;
        };
        self.leavers.offered -= 1;
        session.passing = Passing::Stays;
        let missed = self.events.since(since, session.events);
        self.tell_all(cx, key, &missed);
        if let Some(session) = self.sessions.get(key)
            && session.has_unsent()
        {
            self.mark(key);
        }
        cx.ask(Output::Client(key));
    }

    /// All clients that have not been passed on stay.
    pub(crate) fn end_passing(&mut self, cx: &mut Context) {
        let all = self.sessions.iter();
        let offered = all.filter(|(_, session)| session.is_offered());
        let offered: Vec<SessionKey> = offered.map(|(key, _)| key).collect();
        for key in offered {
            self.keep(cx, key);
        }
        for (key, session) in self.sessions.iter_mut() {
            if session.is_held_back() {
                cx.ask(Output::Client(key));
            }
            session.passing = Passing::Stays;
        }
        self.leavers = Leavers::default();
    }

    /// As whom a client that another process has had is served, with credentials that are to be checked
    /// again after `every`; `None` if it has not logged in.
    pub(crate) fn member_of(
        cx: &Context,
        passed: &PassedClient,
        every: Duration,
    ) -> Result<Option<Member>, NotAdopted> {
        if passed.version()? > cx.snapshot.version() {
            return Err(NotAdopted::Version(passed.version));
        }
        passed.compression()?;
        if passed.has_bytes() && cx.memory.is_full(passed.byte_len()) {
            return Err(NotAdopted::Memory);
        }
        match (&passed.login, cx.snapshot.protocol().authenticate()) {
            (None, None) => Ok(None),
            (None, Some(_)) => Err(NotAdopted::NotLoggedIn),
            (Some(_), None) => Err(NotAdopted::LoggedIn),
            (Some((credentials, ago)), Some(_)) => {
                let max = cx.shared.config.limits.identities_max;
                let identities = &cx.shared.identities;
                let accepted = back(cx.now, *ago);
                let member = identities.adopt(credentials.clone(), accepted, cx.now, every, max)?;
                Ok(Some(member))
            }
        }
    }

    /// Takes over a client that another process has had.
    pub(crate) fn adopt(
        &mut self,
        cx: &mut Context,
        passed: PassedClient,
        member: Option<Member>,
        pool: PoolKey,
        permit: ClientPermit,
    ) -> Result<SessionKey, NotAdopted> {
        let (version, compression) = (passed.version()?, passed.compression()?);
        let accepted = back(cx.now, passed.age);
        let mut session = Session::new(cx, passed.peer, accepted, permit);
        let framed = version == Version::V5;
        session.version = version;
        session.compression = compression;
        session.decoder.set_mode(framed, compression);
        session.decoder.resume(passed.pending, passed.partial);
        session.hold_part(&cx.memory);
        session.outbox.set_mode(framed, compression);
        session.outbox.resume(passed.unsent);
        session.backlog_held.set(session.outbox.held_len());
        session.keyspace = passed.keyspace.map(Into::into);
        session.events = passed.events;
        session.names = Box::new(passed.names);
        session.traffic = passed.traffic;
        session.active = back(cx.now, passed.idle);
        session.wrote = cx.now;
        session.member = member;
        let key = self.sessions.insert(session);
        self.make_ready(cx, key, pool);
        let mut told = passed.told;
        let missed = self.events.untold(cx.now, passed.events, &mut told);
        self.told_elsewhere.note(cx.now, key, &told);
        self.tell_all(cx, key, &missed);
        self.mark(key);
        Ok(key)
    }
}

/// An instant so long ago, as far as there is one.
fn back(now: Instant, ago: Duration) -> Instant {
    now.checked_sub(ago).unwrap_or(now)
}
