//! Login: Cassandra itself judges every client, the proxy only carries the words.
//!
//! AUTHENTICATE is answered from what the nodes said to the control connection, so a client that
//! does not go on costs no node anything. Its AUTH_RESPONSE waits for its turn and goes to a node over
//! a connection of its own. If the node accepts, that connection is closed, and the client joins the
//! links of exactly those credentials. So a client gets links only after a node has accepted it, each
//! time anew.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use helenus_policy::ring::NodeIndex;
use helenus_policy::route::{Preference, RouteInput, plan};
use helenus_wire::{ErrorBody, Opcode, Version, code, strip_prelude};

use crate::client::credentials::Credentials;
use crate::client::handshake::Phase;
use crate::engine::{Engine, SessionKey};
use crate::output::{Login, Output};
use crate::stats::add;

/// Nodes that are tried before a login fails.
const NODES_MAX: usize = 3;

/// What a login has told of nodes, whatever became of it.
#[derive(Default)]
pub struct Met {
    /// Those that could not be reached, and why.
    pub failed: Vec<(NodeIndex, String)>,
    /// The one that has judged the token.
    pub answered: Option<NodeIndex>,
}

/// How a login ended.
pub enum Outcome {
    Accepted(Credentials, Answer),
    /// A node refuses the credentials, or cannot judge them, and says so itself.
    NotAccepted(Answer),
    /// The proxy's own answer: code and text.
    Failed(i32, String),
    /// Nobody waits for it any more.
    Left,
}

/// What the node said.
pub struct Answer {
    pub opcode: Opcode,
    pub header_flags: u8,
    pub body: Vec<u8>,
    pub version: Version,
}

impl Engine {
    /// Has a node judge a client's token; the client is answered when that is done.
    pub(crate) fn start_login(
        &mut self,
        key: SessionKey,
        stream: i16,
        asked: Vec<u8>,
        token: &[u8],
    ) {
        let nodes = self.nodes_for_login();
        let version = self.cx.snapshot.version;
        let patience = Duration::from_millis(self.cx.shared.config.limits.handshake_timeout_ms);
        let Some(session) = self.session(key) else {
            return;
        };
        session.phase = Phase::LoggingIn;
        let login = Login {
            session: key,
            stream,
            token: token.to_vec(),
            asked,
            peer: session.peer,
            deadline: session.accepted + patience,
            version,
            nodes,
        };
        self.cx.ask(Output::LogIn(login));
    }

    /// Beginning with another one each time; those that fail, or may, come last.
    fn nodes_for_login(&mut self) -> Vec<(NodeIndex, SocketAddr)> {
        self.turn = self.turn.wrapping_add(1);
        let nodes = &self.cx.snapshot.nodes;
        let is_sound = |node: NodeIndex| self.links.is_reachable(node, self.cx.now);
        let sound = |node: NodeIndex| !nodes[node.as_usize()].gone && is_sound(node);
        let failing = |node: NodeIndex| !nodes[node.as_usize()].gone && !is_sound(node);
        let ordered = |usable: &dyn Fn(NodeIndex) -> bool| {
            plan(&RouteInput {
                replicas: &[],
                nodes: &self.cx.snapshot.places,
                usable,
                turn: self.turn,
                allow_remote: self.cx.shared.config.cluster.allow_remote_dc,
                preference: Preference::Spread,
            })
        };
        let chosen = ordered(&sound).chain(ordered(&failing)).take(NODES_MAX);
        chosen
            .map(|node| (node, nodes[node.as_usize()].address))
            .collect()
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
            self.links.note_reached(node);
        }
    }

    /// A login has ended.
    pub fn end_login(&mut self, now: Instant, login: &Login, outcome: Outcome, met: &Met) {
        self.set_now(now);
        self.note_met(met);
        let (key, stream) = (login.session, login.stream);
        let stats = &self.cx.shared.stats.global;
        let (credentials, answer) = match outcome {
            Outcome::Left => return,
            Outcome::Accepted(credentials, answer) => {
                add(&stats.auth_accepted, 1);
                (credentials, answer)
            }
            Outcome::NotAccepted(answer) => {
                let counter = match answer.refuses() {
                    true => &stats.auth_refused,
                    false => &stats.auth_unjudged,
                };
                add(counter, 1);
                self.pass_on(key, stream, &answer);
                return self.finish(key);
            }
            Outcome::Failed(code, text) => {
                let counter = match code {
                    code::OVERLOADED => &stats.auth_overloaded,
                    _ => &stats.auth_unjudged,
                };
                add(counter, 1);
                return self.fail_login(key, stream, code, &text);
            }
        };
        if self.session(key).is_none() {
            return;
        }
        let every = self.check_credentials_every();
        let max = self.cx.shared.config.limits.identities_max;
        let admitted = self
            .cx
            .shared
            .identities
            .admit(credentials, self.cx.now, every, max);
        let member = match admitted {
            Ok(member) => member,
            Err(full) => {
                add(&self.cx.shared.stats.global.auth_overloaded, 1);
                return self.fail_login(key, stream, code::OVERLOADED, &full.to_string());
            }
        };
        let pool = self.pool_of(member.identity());
        self.pass_on(key, stream, &answer);
        if let Some(session) = self.session(key) {
            session.member = Some(member);
        }
        self.make_ready(key, pool);
    }

    fn pass_on(&mut self, key: SessionKey, stream: i16, answer: &Answer) {
        let Answer {
            opcode,
            header_flags,
            body,
            version,
        } = answer;
        self.answer_converted(key, stream, *opcode, *header_flags, body, *version);
    }

    fn fail_login(&mut self, key: SessionKey, stream: i16, code: i32, text: &str) {
        self.answer_error(key, stream, code, text, &[]);
        self.finish(key);
    }
}

impl Answer {
    /// Whether it says that the credentials are wrong.
    pub fn refuses(&self) -> bool {
        let content = strip_prelude(self.header_flags, &self.body);
        let error = content.map(|(_, content)| ErrorBody::parse(content));
        self.opcode == Opcode::Error && matches!(error, Ok(Ok(e)) if is_refusal(e.code, e.message))
    }
}

/// How an authenticator that could not read what it judges by begins its error, although the code is
/// that of a wrong password: PasswordAuthenticator of Cassandra 4.1 and 5.0, and that of 3.x.
const CANNOT_JUDGE: [&str; 2] = [
    "Unable to perform authentication",
    "Error during authentication of user",
];

/// Whether the error that answers an AUTH_RESPONSE says that the credentials are wrong, and not only
/// that the node could not judge them.
pub fn is_refusal(code: i32, message: &str) -> bool {
    let unable = CANNOT_JUDGE.iter().any(|text| message.starts_with(text));
    code == code::BAD_CREDENTIALS && !unable
}

#[cfg(test)]
mod tests;
