//! Passing clients on to the proxy that has taken over: first what they have prepared, so that they are served
//! there as they were here, then their sockets with what is known of each.
//!
//! A client is with one proxy at a time. The other one reads nothing from it before it has said that it has
//! it, so as long as that has not been said, and the connection is closed, it is this one's.

use std::collections::VecDeque;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use helenus_engine::SessionKey;
use helenus_engine::session::drain::Timetable;
use helenus_engine::statement::prepared::PassedStatement;
use rustc_hash::FxHashMap;
use rustix::net::{Shutdown, shutdown};
use tokio::net::UnixStream;
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::handover::Successor;
use crate::handover::packets::{self, Passed, Taken};
use crate::process::{Fate, Leaving, Process, ToWorker};

/// Clients on their way at a time, over all workers: as many as fit in one packet.
const AT_ONCE: usize = 64;
/// Bytes in one packet, roughly.
const PACKET_BYTES: usize = 4 << 20;
const TOO_LATE: &str = "it does not answer in time";

/// The proxy that has taken over, and understands what it is told of clients.
pub(crate) struct Passing {
    stream: UnixStream,
    sender: mpsc::Sender<Leaving>,
    leaving: mpsc::Receiver<Leaving>,
    /// For the answer to one packet. Its clients stand still meanwhile, and those behind them as well.
    patience: Duration,
}

/// How a packet of clients has ended without an answer.
enum Unanswered {
    /// The other proxy has not given one, and cannot give it any more: the clients are here.
    Kept(anyhow::Error),
    Lost(anyhow::Error),
}

impl Passing {
    /// Tells the other proxy that this one has left its ports, and passes on what clients have prepared, if
    /// it wants clients.
    pub(crate) async fn begin(
        common: &Process,
        mut successor: Successor,
        timetable: &Timetable,
    ) -> Option<Passing> {
        match successor.tell_left().await {
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
        let mut stream = successor.into_stream();
        let hold = timetable.hold();
        let until = Instant::now() + hold;
        match pass_statements(common, &mut stream, until, hold).await {
            Ok(0) => {}
            // They are looked up when they are used.
            Ok(statements) => {
                tracing::info!(statements, "not passed on, as that has taken too long");
            }
            Err(e) => {
                tracing::warn!(
                    "clients are not passed on, as what they have prepared is not: {e:#}"
                );
                return None;
            }
        }
        let (sender, leaving) = mpsc::channel(AT_ONCE);
        Some(Passing {
            stream,
            sender,
            leaving,
            patience: hold / 2,
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
            patience,
        } = self;
        drop(sender);
        let (mut passed, mut lost, mut reasons) = (0, 0, FxHashMap::default());
        let mut next = VecDeque::new();
        let mut came = Vec::new();
        loop {
            if next.is_empty() && leaving.recv_many(&mut came, AT_ONCE).await == 0 {
                break;
            }
            next.extend(came.drain(..));
            let clients = packet_of(&mut next);
            let keys: Vec<_> = clients.iter().map(|of| (of.worker, of.key)).collect();
            let (fates, failure) = match pass(&mut stream, clients, patience).await {
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
            lost += fates.iter().filter(|fate| **fate == Fate::Lost).count();
            settle(&common, &keys, &fates);
            if let Some(e) = failure {
                tracing::warn!("no further clients are passed on: {e:#}");
                // Whatever is in there is not on its way any more.
                drop((leaving, next));
                common.end_passing();
                break;
            }
        }
        for (why, clients) in reasons {
            tracing::warn!(
                clients,
                "these clients are not passed on to the proxy that has taken over, and are closed when they are idle: {why}"
            );
        }
        if lost > 0 {
            tracing::warn!(
                clients = lost,
                "these clients are disconnected, because it is not known whether the proxy that has taken over has them; drivers \
                 connect again"
            );
        }
        tracing::info!(passed, "clients are with the proxy that has taken over");
    }
}

/// The next clients that go together: not too many bytes of what they have sent or are to get.
fn packet_of(clients: &mut VecDeque<Leaving>) -> Vec<Leaving> {
    let mut bytes = 0;
    let next = std::iter::from_fn(|| {
        let of = clients.pop_front_if(|_| bytes < PACKET_BYTES)?;
        bytes += of.client.byte_len();
        Some(of)
    });
    next.take(AT_ONCE).collect()
}

/// Passes on what clients have prepared, one packet after the other until it is too late for another one.
/// Returns how many statements are left. An error if the other proxy cannot be spoken to any more.
async fn pass_statements(
    common: &Process,
    stream: &mut UnixStream,
    until: Instant,
    patience: Duration,
) -> Result<usize> {
    // A longer one is looked up when it is used.
    let fits = |of: &PassedStatement| of.byte_len() <= PACKET_BYTES;
    let mut statements = common.statements_to_pass().filter(fits).peekable();
    while statements.peek().is_some() && Instant::now() < until {
        let mut bytes = 0;
        let next = std::iter::from_fn(|| {
            let of = statements.next_if(|_| bytes < PACKET_BYTES)?;
            bytes += of.byte_len();
            Some(of)
        });
        let packet = Passed::Statements(next.collect());
        let passed = async {
            packets::send(stream, &packet, &[]).await?;
            packets::receive(stream).await
        };
        match timeout(patience, passed).await.context(TOO_LATE)?? {
            Some((Taken::Statements, _)) => {}
            Some(_) => bail!("it has answered something else"),
            None => bail!("it has closed the connection"),
        }
    }
    Ok(statements.count())
}

/// Passes these clients on. Returns for each of them why it has not been taken over, if it has not.
async fn pass(
    stream: &mut UnixStream,
    clients: Vec<Leaving>,
    patience: Duration,
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
    let sent = timeout(patience, packets::send(stream, &packet, &sockets)).await;
    let sent = sent.context(TOO_LATE).and_then(|sent| sent);
    sent.map_err(Unanswered::Kept)?;
    // An answer of which a part has come is not thrown away with the time that it had.
    let mut has_come = false;
    let answer = async {
        packets::announced(stream).await?;
        has_come = true;
        packets::receive(stream).await
    };
    let received = match timeout(patience, answer).await {
        Ok(received) => received,
        Err(_) if has_come => return Err(Unanswered::Lost(anyhow!(TOO_LATE))),
        Err(_) => {
            // From now on it cannot answer, and serves nobody that it has not said to have. Its words before
            // that can still be read.
            shutdown(&*stream, Shutdown::Read).map_err(|e| Unanswered::Lost(e.into()))?;
            packets::receive(stream).await
        }
    };
    match received {
        Ok(Some((Taken::Clients(outcomes), _))) if outcomes.len() == count => Ok(outcomes),
        Ok(Some(_)) => Err(Unanswered::Lost(anyhow!("it has answered something else"))),
        Ok(None) => Err(Unanswered::Kept(anyhow!(
            "it has not answered, or has closed the connection"
        ))),
        Err(e) if e.is::<std::io::Error>() => Err(Unanswered::Kept(e)),
        Err(e) => Err(Unanswered::Lost(e)),
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

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    const SHORT: Duration = Duration::from_millis(20);

    #[tokio::test]
    async fn who_is_too_late_to_answer_cannot_answer_any_more() {
        let (mut here, mut there) = UnixStream::pair().expect("a pair");
        let ended = pass(&mut here, Vec::new(), SHORT).await;
        assert!(matches!(ended, Err(Unanswered::Kept(_))));
        // It has got the packet, but cannot say that it has these clients.
        let packet = packets::receive::<Passed>(&mut there).await;
        assert!(packet.expect("received").is_some());
        let answer = Taken::Clients(Vec::new());
        assert!(packets::send(&mut there, &answer, &[]).await.is_err());
    }

    /// Whatever it has answered before.
    #[tokio::test]
    async fn who_stalls_after_its_first_answers_has_nobody() {
        let (mut here, mut there) = UnixStream::pair().expect("a pair");
        for _ in 0..3 {
            let answer = Taken::Clients(Vec::new());
            packets::send(&mut there, &answer, &[]).await.expect("sent");
            assert!(pass(&mut here, Vec::new(), SHORT).await.is_ok());
        }
        let ended = pass(&mut here, Vec::new(), SHORT).await;
        assert!(matches!(ended, Err(Unanswered::Kept(_))));
        let answer = Taken::Clients(Vec::new());
        assert!(packets::send(&mut there, &answer, &[]).await.is_err());
    }

    /// It serves nobody before it has given a whole answer.
    #[tokio::test]
    async fn who_dies_in_the_middle_of_its_answer_has_nobody() {
        for said in [&b"\0"[..], b"\0\0\0\x20", b"\0\0\0\x20\x81\xA7Clients"] {
            let (mut here, mut there) = UnixStream::pair().expect("a pair");
            there.write_all(said).await.expect("said");
            drop(there);
            let ended = pass(&mut here, Vec::new(), SHORT).await;
            assert!(matches!(ended, Err(Unanswered::Kept(_))), "{said:?}");
        }
    }

    #[tokio::test]
    async fn clients_are_lost_to_whoever_answers_something_else_or_never_ends() {
        for said in [Taken::Statements, Taken::Clients(vec![None])] {
            let (mut here, mut there) = UnixStream::pair().expect("a pair");
            packets::send(&mut there, &said, &[]).await.expect("sent");
            let ended = pass(&mut here, Vec::new(), SHORT).await;
            assert!(matches!(ended, Err(Unanswered::Lost(_))), "{said:?}");
        }
        for said in [
            &b"\0\0\0\x01\xC1"[..],
            b"\xFF\xFF\xFF\xFF",
            b"\0\0\0\x20\x81",
        ] {
            let (mut here, mut there) = UnixStream::pair().expect("a pair");
            there.write_all(said).await.expect("said");
            let ended = pass(&mut here, Vec::new(), SHORT).await;
            assert!(matches!(ended, Err(Unanswered::Lost(_))), "{said:?}");
        }
    }

    /// Of half a packet nobody can be served.
    #[tokio::test]
    async fn who_dies_while_it_reads_has_nobody() {
        let (mut here, mut there) = UnixStream::pair().expect("a pair");
        let reads = async {
            there.read_exact(&mut [0; 2]).await.expect("a part");
            drop(there);
        };
        let (ended, ()) = tokio::join!(pass(&mut here, Vec::new(), SHORT), reads);
        assert!(matches!(ended, Err(Unanswered::Kept(_))));
    }

    #[tokio::test]
    async fn an_answer_in_time_counts_and_none_of_one_that_is_gone() {
        let (mut here, mut there) = UnixStream::pair().expect("a pair");
        let answer = Taken::Clients(Vec::new());
        packets::send(&mut there, &answer, &[]).await.expect("sent");
        let ended = pass(&mut here, Vec::new(), SHORT).await;
        assert!(ended.is_ok_and(|outcomes| outcomes.is_empty()));
        drop(there);
        let ended = pass(&mut here, Vec::new(), SHORT).await;
        assert!(matches!(ended, Err(Unanswered::Kept(_))));
    }
}
