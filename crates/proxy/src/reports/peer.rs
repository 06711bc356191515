//! One connection to the reporter of a node's agent.

use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use helenus_engine::snapshot::HostId;
use helenus_engine::upstream::node_reports::{NodeReport, Rejected};
use ring::hmac;
use ring::rand::{SecureRandom, SystemRandom};
use thiserror::Error;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::allowance::{Allowance, PER_SECOND_MAX};
use super::timeline::{AGE_MAX, Timeline};
use super::wire::{self, GREETING, Keys, NONCE, PROOF, REPORT};
use crate::config::Secret;

/// For each message until the first report.
const ANSWER_WITHIN: Duration = Duration::from_secs(3);
/// After so many late reports in a row the comparison of the clocks begins anew, with a new connection: the
/// node's clock may have lost time since, and then none would ever be taken again.
const LATE_MAX: u32 = 10;

/// Whose reports are wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    pub address: SocketAddr,
    pub host_id: HostId,
    pub secret: Option<Secret>,
    pub connect_timeout: Duration,
}

/// Why there are no reports.
#[derive(Debug, Error)]
pub(crate) enum ReportError {
    #[error(
        "without a secret only nodes on loopback addresses are asked: set \
         assignment.reports_secret_file"
    )]
    NotLoopback,
    #[error("no connection to the agent's reporter: {0}")]
    Connect(io::Error),
    #[error("the agent's reporter says nothing for {0:?}")]
    Silent(Duration),
    #[error("what listens there is not the reporter of an agent of this version")]
    NoReporter,
    #[error(
        "the node's agent wants a secret: set assignment.reports_secret_file to a file with the same \
         secret as in helenus.agent.report_secret_file"
    )]
    SecretMissing,
    #[error("the node's agent has no secret: set helenus.agent.report_secret_file there")]
    NodeWithoutSecret,
    #[error(
        "the node's agent refuses the secret: assignment.reports_secret must be the same as there"
    )]
    Refused,
    #[error("what listens there does not know the secret")]
    WrongProof,
    #[error("a report was rejected: {}", .0.name())]
    Rejected(Rejected),
    #[error("the agent's reporter sends more than {PER_SECOND_MAX} reports a second")]
    TooMany,
    #[error("the connection has ended: {0}")]
    Ended(io::Error),
    #[error("this machine has no random numbers")]
    NoRandomNumbers,
}

impl ReportError {
    /// If it was a report.
    pub(crate) fn rejected(&self) -> Option<Rejected> {
        match self {
            ReportError::Rejected(why) => Some(*why),
            ReportError::TooMany => Some(Rejected::Rate),
            _ => None,
        }
    }
}

pub(crate) struct Peer {
    stream: TcpStream,
    key: hmac::Key,
    allowance: Allowance,
    timeline: Timeline,
    /// Reports in a row.
    late: u32,
}

impl Peer {
    /// Connects, and proves to each other to know the secret.
    pub(crate) async fn connect(target: &Target) -> Result<Peer, ReportError> {
        let secret = target.secret.as_ref().map(|s| s.expose().as_bytes());
        if secret.is_none() && !target.address.ip().is_loopback() {
            return Err(ReportError::NotLoopback);
        }
        let connecting = timeout(target.connect_timeout, TcpStream::connect(target.address));
        let mut stream = connecting
            .await
            .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
            .map_err(ReportError::Connect)?;
        let greeting: [u8; GREETING] = message(&mut stream, ANSWER_WITHIN).await?;
        let greeting = wire::greeting(&greeting).map_err(|_| ReportError::NoReporter)?;
        match (greeting.has_secret, secret.is_some()) {
            (true, false) => return Err(ReportError::SecretMissing),
            (false, true) => return Err(ReportError::NodeWithoutSecret),
            _ => {}
        }
        let mut nonce = [0; NONCE];
        SystemRandom::new()
            .fill(&mut nonce)
            .map_err(|_| ReportError::NoRandomNumbers)?;
        let keys = Keys::new(secret, greeting.nonce, nonce);
        let written = stream.write_all(&keys.answer()).await;
        written.map_err(ReportError::Ended)?;
        let proof: [u8; PROOF] = match message(&mut stream, ANSWER_WITHIN).await {
            // It hangs up on those that do not know the secret.
            Err(ReportError::Ended(_)) => return Err(ReportError::Refused),
            proof => proof?,
        };
        if !keys.is_proof(&proof) {
            return Err(ReportError::WrongProof);
        }
        let now = Instant::now();
        Ok(Peer {
            stream,
            key: keys.session(),
            allowance: Allowance::new(now),
            timeline: Timeline::new(target.host_id, now),
            late: 0,
        })
    }

    /// The next report. One that is only of no use is an error within, after which others may come; any
    /// other error ends the connection.
    pub(crate) async fn next(&mut self) -> Result<Result<NodeReport, Rejected>, ReportError> {
        let bytes: [u8; REPORT] = message(&mut self.stream, AGE_MAX).await?;
        let now = Instant::now();
        if !self.allowance.take(now) {
            return Err(ReportError::TooMany);
        }
        let taken = wire::report(&self.key, &bytes);
        let taken = taken.and_then(|report| self.timeline.accept(now, &report));
        self.late = match taken {
            Err(Rejected::Late) => self.late + 1,
            _ => 0,
        };
        match taken {
            Err(why @ Rejected::Late) if self.late >= LATE_MAX => Err(ReportError::Rejected(why)),
            Err(why @ (Rejected::Range | Rejected::Late | Rejected::Identity)) => Ok(Err(why)),
            Err(why) => Err(ReportError::Rejected(why)),
            Ok(report) => Ok(Ok(report)),
        }
    }
}

async fn message<const N: usize>(
    stream: &mut TcpStream,
    within: Duration,
) -> Result<[u8; N], ReportError> {
    let mut bytes = [0; N];
    match timeout(within, stream.read_exact(&mut bytes)).await {
        Ok(Ok(_)) => Ok(bytes),
        Ok(Err(e)) => Err(ReportError::Ended(e)),
        Err(_) => Err(ReportError::Silent(within)),
    }
}
