//! How clients come to their end: by themselves, with the proxy, or because they have to.

use std::time::{Duration, Instant};

use crate::context::Context;
use crate::keys::{PoolKey, SessionKey};
use crate::output::Output;
use crate::session::clients::Clients;
use crate::session::connection::{Life, Next, Phase, Session};
use crate::session::drain::Timetable;

/// Bytes that wait for a client from which nothing is read.
const UNREAD_MAX: usize = 1 << 20;

impl Session {
    /// True if nothing of it is left to be answered.
    fn is_quiet(&self, now: Instant, quiet: Duration) -> bool {
        let answered = self.in_flight == 0 && !self.has_unsent();
        let logging_in = matches!(self.phase, Phase::LoggingIn);
        answered && !logging_in && now.saturating_duration_since(self.active) >= quiet
    }
}

impl Clients {
    /// The next step for a client's connection; `None` if there is none any more.
    pub(crate) fn next_for(&mut self, cx: &Context, key: SessionKey) -> Option<Next> {
        let in_flight_max = cx.shared.config.limits.client_in_flight_max;
        let session = self.sessions.get_mut(key)?;
        if session.is_offered() && session.life != Life::Dead {
            // Its socket may be another process's by now.
            return Some(Next::Wait);
        }
        let leaving = match session.life {
            Life::Open => false,
            Life::Leaving(_) => true,
            Life::Finishing(_) if session.has_unsent() => return Some(Next::Wait),
            Life::Finishing(_) => return Some(Next::ShutDown),
            Life::Lingering(_) => return Some(Next::Linger),
            Life::Dead => return Some(Next::Close),
        };
        if session.is_held_back() {
            return Some(Next::Wait);
        }
        session.paused = session.in_flight >= in_flight_max || session.outbox.len() > UNREAD_MAX;
        Some(match session.paused {
            true => Next::Wait,
            false => Next::Read { leaving },
        })
    }

    /// True if nothing is read from a client's connection for now.
    pub(crate) fn is_held(&self, key: SessionKey) -> bool {
        let session = self.sessions.get(key);
        session.is_some_and(|session| session.paused || !session.is_open())
    }

    /// A client has closed its side, or the connection has broken.
    pub(crate) fn on_end(&mut self, cx: &Context, key: SessionKey, broken: bool) {
        let Some(session) = self.sessions.get_mut(key) else {
            return;
        };
        session.life = match broken {
            false if session.has_unsent() => Life::Finishing(cx.now),
            _ => Life::Dead,
        };
    }

    /// A client has been told that nothing more comes.
    pub(crate) fn on_shut_down(&mut self, cx: &Context, key: SessionKey) {
        if let Some(session) = self.sessions.get_mut(key) {
            session.life = Life::Lingering(cx.now);
        }
    }

    /// Closes a client once its last answer has left.
    pub(crate) fn finish(&mut self, cx: &mut Context, key: SessionKey) {
        if let Some(session) = self.sessions.get_mut(key)
            && session.is_open()
        {
            session.life = Life::Finishing(cx.now);
            cx.ask(Output::Client(key));
        }
    }

    /// Closes the clients of a role once their last answers have left.
    pub(crate) fn finish_all_of(&mut self, cx: &mut Context, pool: PoolKey) {
        let sessions = self.sessions.iter();
        let ended = sessions.filter(|(_, session)| session.pool == Some(pool));
        let ended: Vec<SessionKey> = ended.map(|(key, _)| key).collect();
        for key in ended {
            self.finish(cx, key);
        }
    }

    /// Closes clients that are quiet, as far as it is their time.
    pub(crate) fn close_quiet(&mut self, cx: &mut Context, timetable: &Timetable) {
        let open = self.sessions.values().filter(|session| session.is_open());
        let quota = timetable.quota(open.count(), cx.now);
        let quiet = timetable.quiet(cx.now);
        let sessions = self.sessions.iter();
        let staying = sessions.filter(|(_, s)| s.life == Life::Open && s.stays());
        let leaving = staying.filter(|(_, s)| s.is_quiet(cx.now, quiet));
        let leaving: Vec<SessionKey> = leaving.map(|(key, _)| key).take(quota).collect();
        for key in leaving {
            self.leave(cx, key);
        }
    }

    /// Closes clients that have been quiet for so long; how many.
    pub(crate) fn close_idle(&mut self, cx: &mut Context, idle: Duration) -> usize {
        let sessions = self.sessions.iter();
        let idle = sessions.filter(|(_, s)| s.life == Life::Open && s.is_quiet(cx.now, idle));
        let idle: Vec<SessionKey> = idle.map(|(key, _)| key).collect();
        for key in &idle {
            self.leave(cx, *key);
        }
        idle.len()
    }

    /// Closes a client, unless there is still something to read.
    fn leave(&mut self, cx: &mut Context, key: SessionKey) {
        if let Some(session) = self.sessions.get_mut(key)
            && session.life == Life::Open
        {
            session.life = Life::Leaving(cx.now);
            cx.ask(Output::Client(key));
        }
    }

    /// Closes a client at once.
    pub(crate) fn kill(&mut self, cx: &mut Context, key: SessionKey) {
        if let Some(session) = self.sessions.get_mut(key) {
            session.life = Life::Dead;
            cx.ask(Output::Client(key));
        }
    }

    /// Closes a client that does not read what it is answered.
    pub(super) fn kill_unread(&mut self, cx: &mut Context, key: SessionKey, is_full: bool) {
        if let Some(session) = self.sessions.get(key) {
            warn_of_unread(session, is_full);
        }
        self.kill(cx, key);
    }
}

pub(super) fn warn_of_unread(session: &Session, is_full: bool) {
    let why = match is_full {
        true => "limits.memory_max is reached and ",
        false => "",
    };
    tracing::warn!(peer = %session.peer, "{why}a client does not read its answers: disconnecting it");
}
