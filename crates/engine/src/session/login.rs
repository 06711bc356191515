//! Login: Cassandra itself judges every client, the proxy only carries the words.
//!
//! AUTHENTICATE is answered from what the nodes said to the control connection, so a client that
//! does not go on costs no node anything. Its AUTH_RESPONSE waits for its turn and goes to a node over
//! a connection of its own. If the node accepts, that connection is closed, and the client joins the
//! links of exactly those credentials. So a client gets links only after a node has accepted it, each
//! time anew.

pub(crate) mod attempt;
pub mod authenticator;
pub mod credentials;
pub(in crate::session) mod handshake;
pub mod identity;
pub mod queue;
pub mod refusal;

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use helenus_policy::ring::NodeIndex;
use helenus_wire::{Version, code};

use crate::context::Context;
use crate::keys::{PoolKey, SessionKey};
use crate::session::clients::Clients;
use crate::session::connection::Phase;
use crate::session::login::attempt::{Answer, Login, Next, Outcome};
use crate::session::login::credentials::Credentials;
use crate::session::login::identity::{Identity, Member};
use crate::session::node_answer::NodeAnswer;
use crate::stats::add;
use crate::upstream::connect::kind::OpenError;

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

/// A login's next step with others.
pub(crate) enum LoginStep {
    /// A connection to this node, which is to ask for the token in these words.
    Dial {
        address: SocketAddr,
        version: Version,
        asked: Vec<u8>,
    },
    /// Nothing: it has ended.
    End(Box<Login>, Outcome),
}

impl Clients {
    /// Notes that a client's token is to be judged by one of these nodes when it is its turn; the client
    /// is answered when that is done. Returns where the client is.
    pub(crate) fn start_login(
        &mut self,
        cx: &Context,
        key: SessionKey,
        stream: i16,
        token: &[u8],
        nodes: Vec<(NodeIndex, SocketAddr)>,
    ) -> Option<IpAddr> {
        let patience = Duration::from_millis(cx.shared.config.limits.handshake_timeout_ms);
        let session = self.sessions.get_mut(key)?;
        let Phase::Asked(asked) = &mut session.phase else {
            return None;
        };
        let asked = std::mem::take(asked);
        session.phase = Phase::LoggingIn;
        let login = Login::new(
            key,
            stream,
            asked,
            token.to_vec(),
            session.accepted + patience,
            cx.snapshot.version(),
            nodes,
        );
        self.logins.insert(key, login);
        Some(session.peer.ip())
    }

    /// It is a login's turn; `None` if nobody waits for it any more.
    pub(crate) fn begin_login(&mut self, key: SessionKey) -> Option<LoginStep> {
        let login = self.logins.get_mut(&key).filter(|l| l.is_waiting())?;
        let next = login.begin();
        self.follow(key, next)
    }

    /// A login that waits is given up.
    pub(crate) fn give_up_login(&mut self, key: SessionKey) -> Option<LoginStep> {
        self.logins.get(&key).filter(|l| l.is_waiting())?;
        self.follow(key, Next::End(Outcome::too_many()))
    }

    /// The node that is connected to asks for the token of a login.
    pub(crate) fn token_of(&mut self, key: SessionKey) -> Option<Vec<u8>> {
        self.logins.get_mut(&key)?.on_asked()
    }

    /// The connection over which a login was to be judged has failed.
    pub(crate) fn on_login_failed(
        &mut self,
        key: SessionKey,
        why: &OpenError,
    ) -> Option<LoginStep> {
        let next = self.logins.get_mut(&key)?.on_failed(why);
        self.follow(key, next)
    }

    /// A node has answered to the token of a login.
    pub(crate) fn on_login_judged(
        &mut self,
        key: SessionKey,
        opcode: u8,
        header_flags: u8,
        body: Vec<u8>,
    ) -> Option<LoginStep> {
        let outcome = self.logins.get(&key)?.on_judged(opcode, header_flags, body);
        self.follow(key, Next::End(outcome))
    }

    fn follow(&mut self, key: SessionKey, next: Next) -> Option<LoginStep> {
        Some(match next {
            Next::Dial(address) => {
                let login = self.logins.get(&key)?;
                LoginStep::Dial {
                    address,
                    version: login.version,
                    asked: login.asked.clone(),
                }
            }
            Next::End(outcome) => LoginStep::End(Box::new(self.logins.remove(&key)?), outcome),
        })
    }

    /// A client has left. Returns true if its login has been waiting, and is forgotten now; a login
    /// that a node may be judging goes on.
    pub(crate) fn leave_login(&mut self, key: SessionKey) -> bool {
        let is_waiting = self.logins.get(&key).is_some_and(Login::is_waiting);
        if is_waiting {
            self.logins.remove(&key);
        }
        is_waiting
    }

    /// Logins that have waited for too long.
    pub(crate) fn late_logins(&self, now: Instant) -> Vec<SessionKey> {
        let waiting = self.logins.values().filter(|login| login.is_waiting());
        let late = waiting.filter(|login| login.deadline <= now);
        late.map(|login| login.session).collect()
    }

    /// All logins that have not ended, and whether they wait for their turn.
    pub(crate) fn logins(&self) -> impl Iterator<Item = (SessionKey, bool)> + '_ {
        let logins = self.logins.values();
        logins.map(|login| (login.session, login.is_waiting()))
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
                if answer.refuses() {
                    self.note_refusal(login);
                }
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

    /// For whoever looks for the address that guesses passwords. Not with the name, which may be a password.
    fn note_refusal(&self, login: &Login) {
        if let Some(session) = self.sessions.get(login.session) {
            tracing::debug!(peer = %session.peer, "a login is refused");
        }
    }

    fn fail_login(&mut self, cx: &mut Context, login: &Login, code: i32, text: &str) {
        self.answer_error(cx, login.session, login.stream, code, text, &[]);
        self.finish(cx, login.session);
    }
}
