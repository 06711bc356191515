//! Login: Cassandra itself judges every client, the proxy only carries the words.
//!
//! AUTHENTICATE is answered from what the nodes said to the control connection, so a client that
//! does not go on costs no node anything. Its AUTH_RESPONSE waits for its turn and goes to a node over
//! a connection of its own. If the node accepts, that connection is closed, and the client joins the
//! links of exactly those credentials. So a client gets links only after a node has accepted it, each
//! time anew.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use helenus_policy::ring::NodeIndex;
use helenus_wire::{ErrorBody, Opcode, Version, code, strip_prelude};

use crate::client::answers::NodeAnswer;
use crate::client::clients::Clients;
use crate::client::credentials::Credentials;
use crate::client::identity::{Identity, Member};
use crate::client::session::Phase;
use crate::context::Context;
use crate::keys::{PoolKey, SessionKey};
use crate::output::{Login, Output};
use crate::stats::add;

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

/// A client whose credentials a node has accepted, and who has a place for them.
pub(crate) struct Admitted {
    member: Member,
    answer: Answer,
}

impl Admitted {
    pub(crate) fn identity(&self) -> &Arc<Identity> {
        self.member.identity()
    }
}

impl Clients {
    /// Has one of these nodes judge a client's token; the client is answered when that is done.
    pub(crate) fn start_login(
        &mut self,
        cx: &mut Context,
        key: SessionKey,
        stream: i16,
        token: &[u8],
        nodes: Vec<(NodeIndex, SocketAddr)>,
    ) {
        let patience = Duration::from_millis(cx.shared.config.limits.handshake_timeout_ms);
        let Some(session) = self.sessions.get_mut(key) else {
            return;
        };
        let Phase::Asked(asked) = &mut session.phase else {
            return;
        };
        let asked = std::mem::take(asked);
        session.phase = Phase::LoggingIn;
        cx.ask(Output::LogIn(Login {
            session: key,
            stream,
            token: token.to_vec(),
            asked,
            peer: session.peer,
            deadline: session.accepted + patience,
            version: cx.snapshot.version,
            nodes,
        }));
    }

    /// A login has ended. If it returns the client, that gets its answer by [`Clients::let_in`]; its
    /// credentials are next to be checked after `every`.
    pub(crate) fn end_login(
        &mut self,
        cx: &mut Context,
        login: &Login,
        outcome: Outcome,
        every: Duration,
    ) -> Option<Admitted> {
        let stats = &cx.shared.stats.global;
        match outcome {
            Outcome::Left => None,
            Outcome::Accepted(credentials, answer) => {
                add(&stats.auth_accepted, 1);
                self.admit(cx, login, credentials, answer, every)
            }
            Outcome::NotAccepted(answer) => {
                let counter = match answer.refuses() {
                    true => &stats.auth_refused,
                    false => &stats.auth_unjudged,
                };
                add(counter, 1);
                self.pass_on(cx, login, &answer);
                self.finish(cx, login.session);
                None
            }
            Outcome::Failed(code, text) => {
                let counter = match code {
                    code::OVERLOADED => &stats.auth_overloaded,
                    _ => &stats.auth_unjudged,
                };
                add(counter, 1);
                self.fail_login(cx, login, code, &text);
                None
            }
        }
    }

    fn admit(
        &mut self,
        cx: &mut Context,
        login: &Login,
        credentials: Credentials,
        answer: Answer,
        every: Duration,
    ) -> Option<Admitted> {
        if !self.is_there(login.session) {
            return None;
        }
        let max = cx.shared.config.limits.identities_max;
        let identities = &cx.shared.identities;
        match identities.admit(credentials, cx.now, every, max) {
            Ok(member) => Some(Admitted { member, answer }),
            Err(full) => {
                add(&cx.shared.stats.global.auth_overloaded, 1);
                self.fail_login(cx, login, code::OVERLOADED, &full.to_string());
                None
            }
        }
    }

    /// Lets a client query over the links of its role; false if it has left.
    pub(crate) fn let_in(
        &mut self,
        cx: &mut Context,
        login: &Login,
        admitted: Admitted,
        pool: PoolKey,
    ) -> bool {
        let Admitted { member, answer } = admitted;
        self.pass_on(cx, login, &answer);
        if let Some(session) = self.sessions.get_mut(login.session) {
            session.member = Some(member);
        }
        self.make_ready(cx, login.session, pool)
    }

    fn pass_on(&mut self, cx: &mut Context, login: &Login, answer: &Answer) {
        let answer = NodeAnswer {
            opcode: answer.opcode,
            header_flags: answer.header_flags,
            body: &answer.body,
            version: answer.version,
        };
        self.answer_converted(cx, login.session, login.stream, answer);
    }

    fn fail_login(&mut self, cx: &mut Context, login: &Login, code: i32, text: &str) {
        self.answer_error(cx, login.session, login.stream, code, text, &[]);
        self.finish(cx, login.session);
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
