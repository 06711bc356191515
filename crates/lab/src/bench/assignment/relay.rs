//! TCP relays in front of the nodes, as a network that can be made slow for one of them.

use anyhow::{Context, Result};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

const READ_BYTES: usize = 64 * 1024;
/// In one direction of a connection; beyond that the sender waits.
const DELAYED_READS_MAX: usize = 1024;

/// They end when this is dropped.
pub(super) struct Relays {
    /// Delay in each direction, in microseconds, by relay.
    delays_us: Vec<Arc<AtomicU64>>,
    #[cfg(test)]
    addresses: Vec<SocketAddr>,
    _tasks: JoinSet<()>,
}

impl Relays {
    /// One relay for each pair: where it listens and where it leads.
    pub(super) async fn start(pairs: &[(SocketAddr, SocketAddr)]) -> Result<Self> {
        let (mut delays_us, mut tasks) = (Vec::new(), JoinSet::new());
        #[cfg(test)]
        let mut addresses = Vec::new();
        for &(address, node) in pairs {
            let listener = TcpListener::bind(address).await;
            let listener = listener.with_context(|| format!("cannot listen on {address}"))?;
            #[cfg(test)]
            addresses.push(listener.local_addr()?);
            let delay_us = Arc::new(AtomicU64::new(0));
            delays_us.push(delay_us.clone());
            tasks.spawn(relay(listener, node, delay_us));
        }
        Ok(Self {
            delays_us,
            #[cfg(test)]
            addresses,
            _tasks: tasks,
        })
    }

    /// Delays what passes one relay from now on, in each direction.
    pub(super) fn delay(&self, relay: usize, delay: Duration) {
        if let Some(delay_us) = self.delays_us.get(relay) {
            delay_us.store(delay.as_micros() as u64, Ordering::Relaxed);
        }
    }
}

async fn relay(listener: TcpListener, node: SocketAddr, delay_us: Arc<AtomicU64>) {
    let mut connections = JoinSet::new();
    while let Ok((client, _)) = listener.accept().await {
        while connections.try_join_next().is_some() {}
        let delay_us = delay_us.clone();
        connections.spawn(async move {
            let Ok(server) = TcpStream::connect(node).await else {
                return;
            };
            // Without it small packets would wait for each other, but that is not vital.
            let _ = (client.set_nodelay(true), server.set_nodelay(true));
            let (from_client, to_client) = client.into_split();
            let (from_server, to_server) = server.into_split();
            tokio::join!(
                pass(from_client, to_server, &delay_us),
                pass(from_server, to_client, &delay_us)
            );
        });
    }
}

async fn pass(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, delay_us: &AtomicU64) {
    let (sender, mut receiver) = mpsc::channel::<(Instant, Vec<u8>)>(DELAYED_READS_MAX);
    let reading = async move {
        let mut buffer = vec![0; READ_BYTES];
        while let Ok(len @ 1..) = from.read(&mut buffer).await {
            let delay = Duration::from_micros(delay_us.load(Ordering::Relaxed));
            let read = (Instant::now() + delay, buffer[..len].to_vec());
            if sender.send(read).await.is_err() {
                return;
            }
        }
    };
    let writing = async move {
        while let Some((due, bytes)) = receiver.recv().await {
            if due > Instant::now() {
                tokio::time::sleep_until(due.into()).await;
            }
            if to.write_all(&bytes).await.is_err() {
                return;
            }
        }
        // The other side learns by this that there is no more to come; an error says it knows.
        let _ = to.shutdown().await;
    };
    tokio::join!(reading, writing);
}

#[cfg(test)]
mod tests {
    use super::*;

    const DELAY: Duration = Duration::from_millis(40);

    /// Sends back what it receives.
    async fn echo() -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                tokio::spawn(async move {
                    let (mut reading, mut writing) = stream.split();
                    let _ = tokio::io::copy(&mut reading, &mut writing).await;
                });
            }
        });
        address
    }

    #[tokio::test]
    async fn bytes_pass_in_order_at_once_or_after_a_delay_until_the_end() {
        // Any free port: one that was looked up before could be taken by then.
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let relays = Relays::start(&[(any, echo().await)]).await.unwrap();
        let address = relays.addresses[0];
        let mut stream = TcpStream::connect(address).await.unwrap();
        let mut answer = [0; 3];
        stream.write_all(b"one").await.unwrap();
        stream.read_exact(&mut answer).await.unwrap();
        assert_eq!(&answer, b"one");
        relays.delay(0, DELAY);
        let sent = Instant::now();
        stream.write_all(b"two").await.unwrap();
        stream.read_exact(&mut answer).await.unwrap();
        assert_eq!(&answer, b"two");
        assert!(sent.elapsed() >= 2 * DELAY, "{:?}", sent.elapsed());
        stream.shutdown().await.unwrap();
        assert_eq!(stream.read(&mut answer).await.unwrap(), 0);
        drop(relays);
        // The listener is closed once its task has been dropped.
        let end = Instant::now() + Duration::from_secs(5);
        while TcpStream::connect(address).await.is_ok() {
            assert!(Instant::now() < end, "it still listens");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}
