//! Events that clients have registered for.

use std::rc::Rc;

use helenus_wire::Opcode;

use crate::context::Context;
use crate::keys::SessionKey;
use crate::session::clients::Clients;
use crate::session::node_answer::NodeAnswer;
use crate::shared::EventKind;

impl Clients {
    /// Sends an event to the clients that asked for its kind.
    pub(crate) fn emit(&mut self, cx: &mut Context, kind: EventKind, body: &[u8]) {
        self.events.note(cx.now, kind, body);
        let sessions = self.sessions.iter();
        let wanted = sessions.filter(|(_, s)| s.events & kind as u8 != 0 && !s.is_offered());
        let keys: Vec<SessionKey> = wanted.map(|(key, _)| key).collect();
        for key in keys {
            if !self.told_elsewhere.takes(cx.now, key, body) {
                self.tell(cx, key, body);
            }
        }
    }

    /// Sends a client events that it has missed.
    pub(super) fn tell_all(&mut self, cx: &mut Context, key: SessionKey, missed: &[Rc<[u8]>]) {
        for body in missed {
            self.tell(cx, key, body);
        }
    }

    fn tell(&mut self, cx: &mut Context, key: SessionKey, body: &[u8]) {
        let event = NodeAnswer {
            opcode: Opcode::Event,
            header_flags: 0,
            body,
            version: cx.snapshot.version(),
        };
        self.answer_converted(cx, key, -1, event);
    }
}
