//! One login: which node is asked, and what comes of it.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Instant;

use helenus_policy::ring::NodeIndex;
use helenus_wire::{ErrorBody, Opcode, Reader, Version, code, strip_prelude};

use crate::keys::SessionKey;
use crate::session::login::authenticator;
use crate::session::login::credentials::Credentials;
use crate::session::login::refusal::is_refusal;
use crate::upstream::connect::kind::OpenError;

const TOO_MANY: &str = "Helenus: too many logins at a time (limits.logins_max, \
    limits.logins_per_address_max); try again later";
const MORE_THAN_ONE_EXCHANGE: &str = "Helenus: the nodes' authenticator wants more than one exchange, \
    which cannot be repeated for the links that clients share";

/// Nodes that a login has met, whatever became of it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Met {
    /// Those that could not be reached, and why.
    pub failed: Vec<(NodeIndex, String)>,
    /// The one that has judged the token.
    pub answered: Option<NodeIndex>,
}

/// How a login ended.
#[derive(Debug)]
pub(crate) enum Outcome {
    Accepted(Credentials, Answer),
    /// A node refuses the credentials, or cannot judge them, and says so itself.
    NotAccepted(Answer),
    /// The proxy's own answer: code and text.
    Failed(i32, String),
}

/// A node's answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub opcode: Opcode,
    pub header_flags: u8,
    pub body: Vec<u8>,
    pub version: Version,
}

/// A login's next step.
pub(crate) enum Next {
    /// A connection to this node.
    Dial(SocketAddr),
    End(Outcome),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// For its turn.
    Waiting,
    /// For this node to ask for the token.
    Greeting(NodeIndex),
    /// For the node's judgement.
    Judging,
}

/// A client's login that has not ended.
pub(crate) struct Login {
    pub session: SessionKey,
    /// That of its AUTH_RESPONSE.
    pub stream: i16,
    /// When it has waited for too long for its turn.
    pub deadline: Instant,
    /// Version to speak to nodes.
    pub version: Version,
    /// Body of the AUTHENTICATE that the client has had.
    pub asked: Vec<u8>,
    pub met: Met,
    token: Vec<u8>,
    stage: Stage,
    /// Nodes to try, one after the other.
    nodes: VecDeque<(NodeIndex, SocketAddr)>,
}

impl Login {
    pub(crate) fn new(
        session: SessionKey,
        stream: i16,
        asked: Vec<u8>,
        token: Vec<u8>,
        deadline: Instant,
        version: Version,
        nodes: impl IntoIterator<Item = (NodeIndex, SocketAddr)>,
    ) -> Login {
        Login {
            session,
            stream,
            deadline,
            version,
            asked,
            met: Met::default(),
            token,
            stage: Stage::Waiting,
            nodes: nodes.into_iter().collect(),
        }
    }

    /// True if it waits for its turn.
    pub(crate) fn is_waiting(&self) -> bool {
        self.stage == Stage::Waiting
    }

    /// It is its turn.
    pub(crate) fn begin(&mut self) -> Next {
        self.try_next("the node closed the connection")
    }

    /// The node asks for the token, which is returned.
    pub(crate) fn on_asked(&mut self) -> Option<Vec<u8>> {
        let Stage::Greeting(node) = self.stage else {
            return None;
        };
        self.met.answered = Some(node);
        self.stage = Stage::Judging;
        Some(self.token.clone())
    }

    /// The connection to the node has failed.
    pub(crate) fn on_failed(&mut self, why: &OpenError) -> Next {
        let text = why.to_string();
        match self.stage {
            Stage::Greeting(node) => {
                if !why.is_of_credentials() && !matches!(why, OpenError::NoMeans(_)) {
                    self.met.failed.push((node, text.clone()));
                }
                self.try_next(&text)
            }
            Stage::Waiting | Stage::Judging => {
                self.met.answered = None;
                let text =
                    format!("Helenus: lost the node that was checking the credentials: {text}");
                Next::End(Outcome::Failed(code::SERVER, text))
            }
        }
    }

    /// The node has answered to the token.
    pub(crate) fn on_judged(&self, opcode: u8, header_flags: u8, body: Vec<u8>) -> Outcome {
        let answer = Answer {
            opcode: Opcode::from_number(opcode).unwrap_or(Opcode::Error),
            header_flags,
            body,
            version: self.version,
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
                Outcome::Failed(code::PROTOCOL, MORE_THAN_ONE_EXCHANGE.to_owned())
            }
            _ => Outcome::NotAccepted(answer),
        }
    }

    /// `last`: why the node before has failed.
    fn try_next(&mut self, last: &str) -> Next {
        match self.nodes.pop_front() {
            Some((node, address)) => {
                self.stage = Stage::Greeting(node);
                Next::Dial(address)
            }
            None => {
                let text = format!("Helenus: no node can check the credentials now: {last}");
                Next::End(Outcome::Failed(code::SERVER, text))
            }
        }
    }
}

impl Outcome {
    /// Too many logins wait, or this one has waited for too long.
    pub(crate) fn too_many() -> Outcome {
        Outcome::Failed(code::OVERLOADED, TOO_MANY.to_owned())
    }

    /// True if a node says that the credentials are wrong.
    pub(crate) fn refuses(&self) -> bool {
        matches!(self, Outcome::NotAccepted(answer) if answer.refuses())
    }
}

impl Answer {
    /// True if it says that the credentials are wrong.
    pub(crate) fn refuses(&self) -> bool {
        let content = strip_prelude(self.header_flags, &self.body);
        let error = content.map(|(_, content)| ErrorBody::parse(content));
        self.opcode == Opcode::Error && matches!(error, Ok(Ok(e)) if is_refusal(e.code, e.message))
    }
}

#[cfg(test)]
mod tests;
