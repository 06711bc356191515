//! Has logins judged by nodes: each waits for a permit and is then sent to a node over its own
//! connection.

use std::sync::Arc;
use std::time::{Duration, Instant};

use helenus_wire::{Opcode, Reader, code};
use tokio::sync::oneshot;

use crate::conn::{Conn, ConnError, Dialer};
use crate::logins::{Admission, LoginLimits, Logins, Permit};
use crate::open::link_options;
use helenus_engine::client::authenticator;
use helenus_engine::client::credentials::Credentials;
use helenus_engine::client::login::{Answer, Met, Outcome};
use helenus_engine::output::Login;

/// A node that takes longer to judge counts as failed.
const JUDGEMENT_MAX: Duration = Duration::from_secs(20);

/// Has logins judged by nodes.
pub(crate) struct Judge {
    pub limits: LoginLimits,
    pub logins: Arc<Logins>,
    pub dialer: Dialer,
}

impl Judge {
    /// Has a login judged, as long as its client stays connected.
    pub(crate) async fn run(
        &self,
        login: &Login,
        left: oneshot::Receiver<()>,
        met: &mut Met,
    ) -> Outcome {
        let asked = self
            .logins
            .ask(login.peer.ip(), self.limits, Instant::now());
        let permit = match asked {
            Admission::Go(permit) => Some(permit),
            Admission::Refused => None,
            Admission::Wait(waiting) => {
                let deadline = tokio::time::Instant::from_std(login.deadline);
                tokio::select! {
                    waited = tokio::time::timeout_at(deadline, waiting.permit()) => {
                        waited.ok().flatten()
                    }
                    _ = left => return Outcome::Left,
                }
            }
        };
        match permit {
            Some(permit) => self.judge(login, permit, met).await,
            None => {
                let text = "Helenus: too many logins at a time (limits.logins_max, \
                            limits.logins_per_address_max); try again later";
                Outcome::Failed(code::OVERLOADED, text.to_owned())
            }
        }
    }

    /// The permit is held as long as a node may be judging, whether or not the client stays
    /// connected.
    async fn judge(&self, login: &Login, permit: Permit, met: &mut Met) -> Outcome {
        let mut conn = match self.greet(login, met).await {
            Ok(conn) => conn,
            Err(e) => {
                let text = format!("Helenus: no node can check the credentials now: {e}");
                return Outcome::Failed(code::SERVER, text);
            }
        };
        let judged = tokio::time::timeout(JUDGEMENT_MAX, conn.respond(&login.token)).await;
        let message = match judged.unwrap_or(Err(ConnError::Timeout(JUDGEMENT_MAX))) {
            Ok(message) => message,
            Err(e) => {
                met.answered = None;
                let text = format!("Helenus: lost the node that was checking the credentials: {e}");
                return Outcome::Failed(code::SERVER, text);
            }
        };
        let answer = Answer {
            opcode: message.opcode().unwrap_or(Opcode::Error),
            header_flags: message.header.flags,
            body: message.body,
            version: conn.version,
        };
        match answer.opcode {
            Opcode::AuthSuccess => {
                let class = Reader::new(&login.asked).string().unwrap_or_default();
                let credentials = match authenticator::reads_password(class) {
                    true => Credentials::of_password(&login.token),
                    false => Credentials::of_token(&login.token),
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

    /// A connection to a node that requires the same authentication as the client was asked for.
    async fn greet(&self, login: &Login, met: &mut Met) -> Result<Conn, ConnError> {
        let mut last = ConnError::Closed;
        // A frozen node accepts the connection but does not respond: try the next.
        let patience = self.dialer.connect_timeout * 2;
        for (node, address) in &login.nodes {
            let greet = async {
                let mut conn = self.dialer.dial(*address, login.version).await?;
                let greeting = conn.startup(&link_options()).await?;
                match conn.asked {
                    true if greeting.body == login.asked => Ok(conn),
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

#[cfg(test)]
mod tests;
