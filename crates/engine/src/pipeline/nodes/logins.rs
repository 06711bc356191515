//! Logins on their way: from the queue to a node that judges them, and to the links of a role.

use std::collections::VecDeque;
use std::net::SocketAddr;

use helenus_policy::ring::NodeIndex;
use helenus_policy::route::{Elsewhere, Preference, RouteInput, plan};

use crate::backlog::Work;
use crate::keys::SessionKey;
use crate::pipeline::engine::Engine;
use crate::session::login::LoginStep;
use crate::session::login::attempt::{Login, Met, Outcome};
use crate::session::login::queue::{Admission, Applicant, LoginLimits, Notice};
use crate::shared::WorkerMessage;
use crate::upstream::connect::checks::check_every;
use crate::upstream::connect::greeting::Envelope;
use crate::upstream::connect::kind::OpenError;

/// Nodes that are tried before a login fails.
const LOGIN_NODES_MAX: usize = 3;

impl Engine {
    /// A client hands in its token.
    pub(crate) fn start_login(&mut self, key: SessionKey, stream: i16, token: &[u8]) {
        let nodes = self.nodes_for_login();
        let clients = &mut self.clients;
        let Some(peer) = clients.start_login(&self.cx, key, stream, token, nodes) else {
            return;
        };
        let limits = LoginLimits::of(&self.cx.shared.config.limits);
        let (logins, now) = (&self.cx.shared.logins, self.cx.now);
        let (admission, notices) = logins.ask(self.applicant(key), peer, limits, now);
        self.tell_waiting(notices);
        match admission {
            Admission::Go => self.on_login_turn(key, true),
            Admission::Wait => {}
            Admission::Refused => self.on_login_turn(key, false),
        }
    }

    /// It is a login's turn, or it has lost its place.
    pub(crate) fn on_login_turn(&mut self, key: SessionKey, is_granted: bool) {
        let step = match is_granted {
            true => self.clients.begin_login(key),
            false => self.clients.give_up_login(key),
        };
        self.follow_login(key, step);
    }

    /// The connection over which a login was to be judged has failed.
    pub(crate) fn on_login_failed(&mut self, key: SessionKey, why: &OpenError) {
        let step = self.clients.on_login_failed(key, why);
        self.follow_login(key, step);
    }

    /// A node has answered to the token of a login.
    pub(crate) fn on_login_judged(&mut self, key: SessionKey, envelope: Envelope) {
        let Envelope { header, body } = envelope;
        let clients = &mut self.clients;
        let step = clients.on_login_judged(key, header.opcode, header.flags, body);
        self.follow_login(key, step);
    }

    /// Gives up the logins that have waited for too long, and lets others go whose turn it is by time.
    pub(crate) fn expire_logins(&mut self) {
        for key in self.clients.late_logins(self.cx.now) {
            self.on_login_turn(key, false);
        }
        if self.clients.logins().any(|(_, is_waiting)| is_waiting) {
            let notices = self.cx.shared.logins.grant(self.cx.now);
            self.tell_waiting(notices);
        }
    }

    /// A client has left. A login that a node may be judging keeps its place until that is done.
    pub(crate) fn leave_login(&mut self, key: SessionKey) {
        if self.clients.leave_login(key) {
            self.return_permit(key, false);
        }
    }

    fn follow_login(&mut self, key: SessionKey, step: Option<LoginStep>) {
        match step {
            None => {}
            Some(LoginStep::Dial {
                address,
                version,
                asked,
            }) => {
                let links = &mut self.links;
                links.ask_for_login(&mut self.cx, key, address, version, asked);
            }
            Some(LoginStep::End(login, outcome)) => self.end_login(&login, outcome),
        }
    }

    fn end_login(&mut self, login: &Login, outcome: Outcome) {
        self.return_permit(login.session, outcome.refuses());
        self.note_met(&login.met);
        let every = check_every(&self.cx);
        let clients = &mut self.clients;
        let Some(admitted) = clients.end_login(&mut self.cx, login, outcome, every) else {
            return;
        };
        let pool = self.links.pool_of(&mut self.cx, admitted.identity());
        if self.clients.let_in(&mut self.cx, login, admitted, pool) {
            self.links.enter_pool(pool);
        }
    }

    /// A login has ended, or waits no longer. `refused`: a node has refused the credentials.
    fn return_permit(&mut self, key: SessionKey, refused: bool) {
        let (logins, now) = (&self.cx.shared.logins, self.cx.now);
        let notices = logins.end(self.applicant(key), refused, now);
        self.tell_waiting(notices);
    }

    fn tell_waiting(&mut self, notices: Vec<Notice>) {
        let mut notices = VecDeque::from(notices);
        while let Some(Notice { to, is_granted }) = notices.pop_front() {
            let Applicant { worker, session } = to;
            if worker == self.cx.index {
                self.later(Work::LogIn {
                    session,
                    is_granted,
                });
                continue;
            }
            let message = WorkerMessage::LogIn {
                session,
                is_granted,
            };
            // A worker that has ended leaves its place to the next.
            if !self.cx.tell(worker, message) {
                notices.extend(self.cx.shared.logins.end(to, false, self.cx.now));
            }
        }
    }

    fn applicant(&self, session: SessionKey) -> Applicant {
        Applicant {
            worker: self.cx.index,
            session,
        }
    }

    /// Beginning with another one each time; those that fail, or may, come last.
    fn nodes_for_login(&mut self) -> Vec<(NodeIndex, SocketAddr)> {
        self.cx.rotation = self.cx.rotation.wrapping_add(1);
        let nodes = self.cx.snapshot.nodes();
        let is_sound = |node: NodeIndex| self.links.is_reachable(node, self.cx.now);
        let sound = |node: NodeIndex| !nodes.is_gone(node) && is_sound(node);
        let failing = |node: NodeIndex| !nodes.is_gone(node) && !is_sound(node);
        let elsewhere = match self.cx.shared.config.cluster.allow_remote_dc {
            true => Elsewhere::Last,
            false => Elsewhere::Never,
        };
        let ordered = |usable: &dyn Fn(NodeIndex) -> bool| {
            plan(&RouteInput {
                replicas: &[],
                nodes: nodes.places(),
                usable,
                rotation: self.cx.rotation,
                elsewhere,
                preference: Preference::Spread,
            })
        };
        let chosen = ordered(&sound)
            .chain(ordered(&failing))
            .take(LOGIN_NODES_MAX);
        chosen.map(|node| (node, nodes.address_of(node))).collect()
    }

    /// Without links of its own this worker learns from logins alone which nodes to try last.
    fn note_met(&mut self, met: &Met) {
        for (node, why) in &met.failed {
            // Logins that fail together count once.
            if self.links.may_be_tried(*node, self.cx.now) {
                self.links.back_off(&mut self.cx, *node, why);
            }
        }
        if let Some(node) = met.answered {
            self.links.note_reached(node, self.cx.now);
        }
    }
}

#[cfg(test)]
mod tests;
