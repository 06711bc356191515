//! Login: Cassandra itself judges every client, the proxy only carries the words.
//!
//! AUTHENTICATE is answered from what the nodes said to the control connection, so a client that
//! does not go on costs no node anything. Its AUTH_RESPONSE waits for its turn ([`crate::logins`])
//! and goes to a node over a connection of its own. If the node accepts, that connection is closed,
//! and the client joins the links of exactly those credentials. So a client gets links only after a
//! node has accepted it, each time anew.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use helenus_policy::ring::NodeIndex;
use helenus_policy::route::{Preference, RouteInput, plan};
use helenus_wire::{ErrorBody, Opcode, Reader, Version, code};
use tokio::sync::oneshot;

use crate::authenticator;
use crate::conn::{Conn, ConnError, Dialer, Message, is_refusal};
use crate::credentials::Credentials;
use crate::handshake::Phase;
use crate::logins::{Admission, LoginLimits, Logins, Permit};
use crate::pool::link_options;
use crate::stats::add;
use crate::worker::{SessionKey, State};

/// A node that takes longer to judge has failed.
const JUDGEMENT_MAX: Duration = Duration::from_secs(20);
/// Nodes that are tried before a login fails.
const NODES_MAX: usize = 3;

/// One client's login.
struct Login {
    token: Vec<u8>,
    /// Body of the AUTHENTICATE that the client has had.
    asked: Vec<u8>,
    peer: IpAddr,
    limits: LoginLimits,
    logins: Arc<Logins>,
    /// When it has waited for too long.
    deadline: Instant,
    dialer: Dialer,
    /// Version to speak to nodes.
    version: Version,
    nodes: Vec<(NodeIndex, SocketAddr)>,
}

/// What a login has told of nodes, whatever became of it.
#[derive(Default)]
struct Met {
    /// Those that could not be reached, and why.
    failed: Vec<(NodeIndex, String)>,
    /// The one that has judged the token.
    answered: Option<NodeIndex>,
}

/// How it ended.
enum Outcome {
    Accepted(Credentials, Answer),
    /// A node refuses the credentials, or cannot judge them, and says so itself.
    NotAccepted(Answer),
    /// The proxy's own answer: code and text.
    Failed(i32, String),
    /// Nobody waits for it any more.
    Left,
}

/// What the node said.
struct Answer {
    opcode: Opcode,
    message: Message,
    version: Version,
}

impl State {
    /// Has a node judge a client's token; the client is answered when that is done.
    pub(crate) fn start_login(
        &mut self,
        key: SessionKey,
        stream: i16,
        asked: Vec<u8>,
        token: &[u8],
    ) {
        let Some(me) = self.me.upgrade() else { return };
        let nodes = self.nodes_for_login();
        let dialer = (**self.shared.dialer.load()).clone();
        let (version, logins) = (self.snapshot.version, self.shared.logins.clone());
        let limits = &self.shared.config.limits;
        let patience = Duration::from_millis(limits.handshake_timeout_ms);
        let limits = LoginLimits {
            total: limits.logins_max,
            per_address: limits.logins_per_address_max,
        };
        let Some(session) = self.session(key) else {
            return;
        };
        let (_present, left) = oneshot::channel();
        session.phase = Phase::LoggingIn { _present };
        let login = Login {
            token: token.to_vec(),
            asked,
            peer: session.peer.ip(),
            limits,
            logins,
            deadline: session.accepted + patience,
            dialer,
            version,
            nodes,
        };
        tokio::task::spawn_local(async move {
            let mut met = Met::default();
            let outcome = login.run(left, &mut met).await;
            let mut state = me.borrow_mut();
            state.now = Instant::now();
            state.note_met(&met);
            state.end_login(key, stream, outcome);
        });
    }

    /// Beginning with another one each time; those that fail, or may, come last.
    fn nodes_for_login(&mut self) -> Vec<(NodeIndex, SocketAddr)> {
        self.turn = self.turn.wrapping_add(1);
        let nodes = &self.snapshot.nodes;
        let is_sound = |node: NodeIndex| {
            let state = &self.nodes[node.as_usize()];
            state.failures == 0 && state.suspect_until.is_none_or(|t| t <= self.now)
        };
        let sound = |node: NodeIndex| !nodes[node.as_usize()].gone && is_sound(node);
        let failing = |node: NodeIndex| !nodes[node.as_usize()].gone && !is_sound(node);
        let ordered = |usable: &dyn Fn(NodeIndex) -> bool| {
            plan(&RouteInput {
                replicas: &[],
                nodes: &self.snapshot.places,
                usable,
                turn: self.turn,
                allow_remote: self.shared.config.cluster.allow_remote_dc,
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
            if self.nodes[node.as_usize()].retry_at <= self.now {
                self.back_off(*node, why);
            }
        }
        if let Some(node) = met.answered {
            let state = &mut self.nodes[node.as_usize()];
            state.failures = 0;
            state.suspect_until = None;
        }
    }

    fn end_login(&mut self, key: SessionKey, stream: i16, outcome: Outcome) {
        let stats = &self.shared.stats.global;
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
        let max = self.shared.config.limits.identities_max;
        let admitted = self
            .shared
            .identities
            .admit(credentials, self.now, every, max);
        let member = match admitted {
            Ok(member) => member,
            Err(full) => {
                add(&self.shared.stats.global.auth_overloaded, 1);
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
        let Message { header, body } = &answer.message;
        self.answer_converted(
            key,
            stream,
            answer.opcode,
            header.flags,
            body,
            answer.version,
        );
    }

    fn fail_login(&mut self, key: SessionKey, stream: i16, code: i32, text: &str) {
        self.answer_error(key, stream, code, text, &[]);
        self.finish(key);
    }
}

impl Login {
    async fn run(self, left: oneshot::Receiver<()>, met: &mut Met) -> Outcome {
        let permit = match self.logins.ask(self.peer, self.limits, Instant::now()) {
            Admission::Go(permit) => Some(permit),
            Admission::Refused => None,
            Admission::Wait(waiting) => {
                let deadline = tokio::time::Instant::from_std(self.deadline);
                tokio::select! {
                    waited = tokio::time::timeout_at(deadline, waiting.permit()) => {
                        waited.ok().flatten()
                    }
                    _ = left => return Outcome::Left,
                }
            }
        };
        match permit {
            Some(permit) => self.be_judged(permit, met).await,
            None => {
                let text = "Helenus: too many logins at a time (limits.logins_max, \
                            limits.logins_per_address_max); try again later";
                Outcome::Failed(code::OVERLOADED, text.to_owned())
            }
        }
    }

    /// The permit is held for as long as a node may be judging, whether or not the client stays.
    async fn be_judged(self, permit: Permit, met: &mut Met) -> Outcome {
        let mut conn = match self.greet(met).await {
            Ok(conn) => conn,
            Err(e) => {
                let text = format!("Helenus: no node can check the credentials now: {e}");
                return Outcome::Failed(code::SERVER, text);
            }
        };
        let judged = tokio::time::timeout(JUDGEMENT_MAX, conn.respond(&self.token)).await;
        let message = match judged.unwrap_or(Err(ConnError::Timeout(JUDGEMENT_MAX))) {
            Ok(message) => message,
            Err(e) => {
                met.answered = None;
                let text = format!("Helenus: the node that checks the credentials is gone: {e}");
                return Outcome::Failed(code::SERVER, text);
            }
        };
        let answer = Answer {
            opcode: message.opcode().unwrap_or(Opcode::Error),
            message,
            version: conn.version,
        };
        match answer.opcode {
            Opcode::AuthSuccess => {
                let class = Reader::new(&self.asked).string().unwrap_or_default();
                let credentials = match authenticator::reads_password(class) {
                    true => Credentials::of_password(&self.token),
                    false => Credentials::of_token(&self.token),
                };
                Outcome::Accepted(credentials, answer)
            }
            Opcode::AuthChallenge => {
                let text = "Helenus: the nodes' authenticator wants more than one exchange, which \
                            cannot be repeated for the links that clients share";
                Outcome::Failed(code::PROTOCOL, text.to_owned())
            }
            _ => {
                if answer.refuses() {
                    permit.refused();
                }
                Outcome::NotAccepted(answer)
            }
        }
    }

    /// A connection to a node that asks what the client was asked.
    async fn greet(&self, met: &mut Met) -> Result<Conn, ConnError> {
        let mut last = ConnError::Closed;
        // A frozen node takes the connection and then says nothing: on to the next.
        let patience = self.dialer.connect_timeout * 2;
        for (node, address) in self.nodes.iter().take(NODES_MAX) {
            let greet = async {
                let mut conn = self.dialer.dial(*address, self.version).await?;
                let greeting = conn.startup(&link_options()).await?;
                match conn.asked {
                    true if greeting.body == self.asked => Ok(conn),
                    true => Err(ConnError::AskedOtherwise),
                    false => Err(ConnError::NotAsked),
                }
            };
            let greeted = tokio::time::timeout(patience, greet).await;
            match greeted.unwrap_or(Err(ConnError::Timeout(patience))) {
                Ok(conn) => {
                    met.answered = Some(*node);
                    return Ok(conn);
                }
                Err(e) => {
                    if !e.is_of_credentials() {
                        met.failed.push((*node, e.to_string()));
                    }
                    last = e;
                }
            }
        }
        Err(last)
    }
}

impl Answer {
    /// Whether it says that the credentials are wrong.
    fn refuses(&self) -> bool {
        let error = self.message.content().map(ErrorBody::parse);
        self.opcode == Opcode::Error && matches!(error, Ok(Ok(e)) if is_refusal(e.code, e.message))
    }
}

#[cfg(test)]
mod tests;
