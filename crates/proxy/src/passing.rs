//! Passing clients on to the proxy that has taken over: first what they have prepared, so that they are served
//! there as they were here, then their sockets with what is known of each.
//!
//! A client is with one proxy at a time. The other one reads nothing from it before it has said that it has
//! it, so as long as that has not been said, and the connection is closed, it is this one's.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, anyhow, bail};
use helenus_engine::SessionKey;
use rustc_hash::FxHashMap;
use tokio::net::UnixStream;
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::handover::asked_for_clients;
use crate::handover::packets::{self, Passed, Taken};
use crate::process::{Fate, Leaving, Process, ToWorker};

/// Clients on their way at a time, over all workers: as many as fit in one packet.
const AT_ONCE: usize = 64;
/// Bytes in one packet, roughly.
const PACKET_BYTES: usize = 4 << 20;
/// For the answer to one packet.
const PATIENCE: Duration = Duration::from_secs(10);
/// For all that clients have prepared. What has not been passed on by then is looked up when it is used.
const STATEMENTS_PATIENCE: Duration = Duration::from_secs(10);

/// The proxy that has taken over, and understands what it is told of clients.
pub(crate) struct Passing {
    stream: UnixStream,
    sender: mpsc::Sender<Leaving>,
    leaving: mpsc::Receiver<Leaving>,
}

/// How a packet of clients has ended without an answer.
enum Unanswered {
    /// It has not come, or the other proxy has ended: the clients are here.
    Kept(anyhow::Error),
    Lost(anyhow::Error),
}

impl Passing {
    /// Passes on what clients have prepared, if the other proxy wants clients.
    pub(crate) async fn begin(common: &Process, mut stream: UnixStream) -> Option<Passing> {
        match asked_for_clients(&mut stream).await {
            Ok(true) => {}
            Ok(false) => {
                tracing::warn!(
                    "the proxy that has taken over does not understand what this one says of clients, or does \
                     not want them: they are closed when they are idle"
                );
                return None;
            }
            Err(e) => {
                tracing::warn!("clients are not passed on: {e:#}");
                return None;
            }
        }
        let passed = timeout(STATEMENTS_PATIENCE, pass_statements(common, &mut stream)).await;
        if let Err(e) = passed.unwrap_or_else(|_| bail!("it took too long")) {
            tracing::warn!("clients are not passed on, as what they have prepared is not: {e:#}");
            return None;
        }
        let (sender, leaving) = mpsc::channel(AT_ONCE);
        Some(Passing {
            stream,
            sender,
            leaving,
        })
    }

    /// Where workers put their clients.
    pub(crate) fn sender(&self) -> &mpsc::Sender<Leaving> {
        &self.sender
    }

    /// Passes clients on until no worker has any.
    pub(crate) async fn run(self, common: Arc<Process>) {
        let Passing {
            mut stream,
            sender,
            mut leaving,
        } = self;
        drop(sender);
        let (mut passed, mut reasons) = (0, FxHashMap::default());
        let mut next = Vec::new();
        while leaving.recv_many(&mut next, AT_ONCE).await > 0 {
            let clients = std::mem::take(&mut next);
            let keys: Vec<_> = clients.iter().map(|of| (of.worker, of.key)).collect();
            let (fates, failure) = match pass(&mut stream, clients).await {
                Ok(outcomes) => {
                    let fates = outcomes.into_iter().map(|outcome| match outcome {
                        None => Fate::Passed,
                        Some(why) => {
                            *reasons.entry(why).or_insert(0) += 1;
                            Fate::Kept
                        }
                    });
                    (fates.collect(), None)
                }
                Err(Unanswered::Kept(e)) => (vec![Fate::Kept; keys.len()], Some(e)),
                Err(Unanswered::Lost(e)) => (vec![Fate::Lost; keys.len()], Some(e)),
            };
            passed += fates.iter().filter(|fate| **fate == Fate::Passed).count();
            settle(&common, &keys, &fates);
            if let Some(e) = failure {
                tracing::warn!("no further clients are passed on: {e:#}");
                // Whatever is in it is not on its way any more.
                drop(leaving);
                common.end_passing();
                break;
            }
        }
        for (why, clients) in reasons {
            tracing::warn!(
                clients,
                "not passed on, and closed when they are idle: {why}"
            );
        }
        tracing::info!(passed, "clients are with the proxy that has taken over");
    }
}

async fn pass_statements(common: &Process, stream: &mut UnixStream) -> Result<()> {
    let mut statements = common.statements_to_pass().peekable();
    while statements.peek().is_some() {
        let mut bytes = 0;
        let next = std::iter::from_fn(|| {
            let of = statements.next_if(|_| bytes < PACKET_BYTES)?;
            bytes += of.byte_len();
            Some(of)
        });
        let packet = Passed::Statements(next.collect());
        packets::send(stream, &packet, &[]).await?;
        match packets::receive(stream).await? {
            Some((Taken::Statements, _)) => {}
            Some(_) => bail!("it has answered something else"),
            None => bail!("it has closed the connection"),
        }
    }
    Ok(())
}

/// Passes these clients on. Returns for each of them why it has not been taken over, if it has not.
async fn pass(
    stream: &mut UnixStream,
    clients: Vec<Leaving>,
) -> Result<Vec<Option<String>>, Unanswered> {
    let count = clients.len();
    let mut sockets = Vec::with_capacity(count);
    let mut states = Vec::with_capacity(count);
    for Leaving { client, socket, .. } in clients {
        states.push(client);
        sockets.push(socket);
    }
    let sockets: Vec<_> = sockets.iter().map(AsFd::as_fd).collect();
    let packet = Passed::Clients(states);
    // Of a part of a packet nothing is taken over.
    let sent = timeout(PATIENCE, packets::send(stream, &packet, &sockets)).await;
    let sent = sent.map_err(Into::into).and_then(|sent| sent);
    sent.map_err(Unanswered::Kept)?;
    match timeout(PATIENCE, packets::receive(stream)).await {
        Ok(Ok(Some((Taken::Clients(outcomes), _)))) if outcomes.len() == count => Ok(outcomes),
        Ok(Ok(Some(_))) => Err(Unanswered::Lost(anyhow!("it has answered something else"))),
        Ok(Ok(None)) => Err(Unanswered::Kept(anyhow!("it has closed the connection"))),
        Ok(Err(e)) if e.is::<std::io::Error>() => Err(Unanswered::Kept(e)),
        Ok(Err(e)) => Err(Unanswered::Lost(e)),
        Err(e) => Err(Unanswered::Lost(e.into())),
    }
}

/// Tells workers what has become of their clients.
fn settle(common: &Process, keys: &[(usize, SessionKey)], fates: &[Fate]) {
    let mut of_workers: FxHashMap<usize, Vec<_>> = FxHashMap::default();
    for ((worker, key), fate) in keys.iter().zip(fates) {
        of_workers.entry(*worker).or_default().push((*key, *fate));
    }
    for (worker, settled) in of_workers {
        common.send_to_worker(worker, ToWorker::Settle(settled));
    }
}
