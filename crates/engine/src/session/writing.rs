//! Clients' bytes on their way out.

use crate::context::Context;
use crate::keys::SessionKey;
use crate::output::{Sent, Then};
use crate::session::clients::Clients;
use crate::session::connection::{Life, Session};
use crate::session::outbox::Outbox;
use crate::stats::add;

impl Session {
    /// Notes that it has something to be written; whether that is news, and may be written.
    pub(super) fn becomes_dirty(&mut self) -> bool {
        let is_news = !self.dirty && !self.write_blocked;
        self.dirty |= is_news;
        is_news
    }
}

impl Clients {
    /// Notes that a client has something to be written.
    pub(super) fn mark(&mut self, key: SessionKey) {
        let Some(session) = self.sessions.get_mut(key) else {
            return;
        };
        if session.becomes_dirty() {
            self.dirty.push(key);
        }
    }

    /// True if something waits to be written that is not under way.
    pub(crate) fn has_unsent(&self) -> bool {
        !self.dirty.is_empty()
    }

    /// The next client to be written to.
    pub(crate) fn next_to_write(&mut self) -> Option<SessionKey> {
        self.dirty.pop()
    }

    /// The bytes to be written to a client, if any may be; to be followed by [`Clients::on_sent`].
    pub(crate) fn bytes(&mut self, key: SessionKey) -> Option<&mut Outbox> {
        let session = self.sessions.get_mut(key)?;
        session.dirty = false;
        // Waiting bytes may have been handed over, and may be written by the other process by now.
        (!session.is_offered()).then_some(&mut session.outbox)
    }

    /// An attempt to write a client's bytes has ended.
    pub(crate) fn on_sent(&mut self, cx: &mut Context, key: SessionKey, sent: Sent) {
        let Some(session) = self.sessions.get_mut(key) else {
            return;
        };
        let stats = &cx.shared.stats.global;
        if sent.writes > 0 {
            session.wrote = cx.now;
            session.traffic.bytes_out += sent.bytes;
            add(&stats.client_writes, sent.writes);
            add(&stats.client_bytes_out, sent.bytes);
        }
        session.write_blocked = sent.then == Then::Blocked;
        session.backlog_held.set(session.outbox.held_len());
        if sent.then == Then::Broken {
            session.life = Life::Dead;
        }
        if session.in_flight == 0 && session.outbox.is_empty() {
            session.outbox.shrink();
        }
        if session.is_unread(&cx.memory) {
            self.kill_unread(cx, key, true);
        }
    }

    /// True if a client's connection waits to take more bytes.
    pub(crate) fn is_blocked(&self, key: SessionKey) -> bool {
        let session = self.sessions.get(key);
        session.is_some_and(|session| session.write_blocked)
    }
}
