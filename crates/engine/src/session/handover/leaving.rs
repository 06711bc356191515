//! Clients on their way to another process, by how far they are.

use std::collections::VecDeque;
use std::time::Duration;

use crate::keys::SessionKey;
use crate::session::connection::Session;

#[derive(Default)]
pub(in crate::session) struct Leavers {
    /// Those that are to be held, some not before a certain time.
    pub due: VecDeque<SessionKey>,
    pub held: Vec<SessionKey>,
    /// Those that the other process may have.
    pub offered: usize,
    /// How long a client that is held has to read its answers before they are passed on.
    pub unsent_after: Duration,
}

impl Leavers {
    pub(in crate::session) fn is_empty(&self) -> bool {
        self.offered == 0 && self.held.is_empty() && self.due.is_empty()
    }

    /// A client is gone. Where it is named here it is noticed later.
    pub(in crate::session) fn note_end(&mut self, session: &Session) {
        if session.is_offered() {
            self.offered -= 1;
        }
    }
}
