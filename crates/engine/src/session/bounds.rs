//! How long a client may take for its handshake and its end, and what of the memory it may keep busy.

use std::time::{Duration, Instant};

use helenus_wire::code;

use crate::context::Context;
use crate::keys::SessionKey;
use crate::memory::{Ledger, NO_MEMORY};
use crate::session::clients::Clients;
use crate::session::connection::{Life, Phase, Session};
use crate::session::life::warn_of_unread;

/// How long a client that has been told the end may go on sending.
const LINGER_MAX: Duration = Duration::from_secs(1);
/// How long a client that is being disconnected may take to read what it has been answered.
const FINISH_MAX: Duration = Duration::from_secs(30);

/// When the memory is full, only who has sent more than this of an incomplete message is disconnected,
/// or has more than that to read.
const PARTIAL_MIN: usize = 64 * 1024;
const BACKLOG_MIN: usize = 1 << 20;
/// A client that has neither read nor sent anything for longer stands still.
const STALL_MAX: Duration = Duration::from_secs(5);

impl Session {
    /// True if it has answers that its client has not begun to read for a while, or more than may wait.
    fn keeps_memory_busy(&self, backlog_max: usize, stalled: impl Fn(Instant) -> bool) -> bool {
        let waits = self.outbox.len();
        let is_too_much = waits > BACKLOG_MIN && stalled(self.wrote);
        self.write_blocked && (waits > backlog_max || is_too_much)
    }

    /// True if more waits for it than may, and it stands still. More may wait for a client that reads while there is
    /// memory.
    pub(super) fn reads_too_little(&self, backlog_max: usize, now: Instant) -> bool {
        self.write_blocked
            && self.outbox.len() > backlog_max
            && now.saturating_duration_since(self.wrote) > STALL_MAX
    }

    /// Counts what is there of a message that has come in part; whether it is too much.
    pub(super) fn hold_part(&mut self, memory: &Ledger) -> bool {
        let partial = self.decoder.buffered_len();
        self.partial_held.set(partial);
        partial > PARTIAL_MIN && memory.is_full(0)
    }

    /// True if it has more to read than it may while the memory is full.
    pub(super) fn is_unread(&self, memory: &Ledger) -> bool {
        self.write_blocked && self.outbox.copied_len() > BACKLOG_MIN && memory.is_full(0)
    }

    /// Since when it has been at a step that has a limit, and the limit.
    fn time_limit(&self, handshake_max: Duration) -> Option<(Instant, Duration)> {
        match (self.life, &self.phase) {
            (Life::Leaving(since) | Life::Finishing(since), _) => Some((since, FINISH_MAX)),
            (Life::Lingering(since), _) => Some((since, LINGER_MAX)),
            // A login has its own time, as it waits for others and for nodes.
            (Life::Dead, _) | (Life::Open, Phase::Ready | Phase::LoggingIn) => None,
            (Life::Open, Phase::Fresh | Phase::Asked(_)) => Some((self.accepted, handshake_max)),
        }
    }
}

impl Clients {
    /// Closes clients that do not finish their handshake, do not go when they should, or keep memory
    /// busy when it is full; once a tick.
    pub(crate) fn check(&mut self, cx: &mut Context) {
        self.told_elsewhere.forget(cx.now);
        let handshake_max = Duration::from_millis(cx.shared.config.limits.handshake_timeout_ms);
        let backlog_max = cx.shared.client_backlog_max();
        let full = cx.memory.was_full();
        let (mut unfinished, mut ended) = (Vec::new(), Vec::new());
        for (key, session) in self.sessions.iter() {
            let stalled = |since: Instant| cx.now.saturating_duration_since(since) > STALL_MAX;
            let too_much = session.reads_too_little(backlog_max, cx.now);
            let keeps_busy = full && session.keeps_memory_busy(backlog_max, stalled);
            if too_much || keeps_busy {
                warn_of_unread(session, keeps_busy);
                ended.push(key);
                continue;
            }
            let partial = session.decoder.buffered_len();
            if full && session.is_open() && partial > PARTIAL_MIN && stalled(session.active) {
                unfinished.push(key);
            }
            let limit = session.time_limit(handshake_max);
            if limit.is_some_and(|(since, limit)| cx.now.saturating_duration_since(since) > limit) {
                ended.push(key);
            }
        }
        for key in ended {
            self.kill(cx, key);
        }
        for key in unfinished {
            self.refuse_unfinished(cx, key);
        }
    }

    pub(super) fn refuse_unfinished(&mut self, cx: &mut Context, key: SessionKey) {
        self.answer_error(cx, key, 0, code::OVERLOADED, NO_MEMORY, &[]);
        self.finish(cx, key);
    }
}
