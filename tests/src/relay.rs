//! An address at which a node is reached, and which can be taken away, or be slow to pass an answer on.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context, Result};

/// Passes bytes on between its own address and another. Dropping it closes all connections and the port.
pub struct Relay {
    pub address: SocketAddr,
    shared: Arc<Shared>,
    acceptor: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    ended: AtomicBool,
    sockets: Mutex<Vec<TcpStream>>,
}

impl Relay {
    /// At a free port of this address.
    pub fn start(ip: &str, target: SocketAddr) -> Result<Relay> {
        Relay::holding(ip, target, Arc::default())
    }

    /// [`Relay::start`] with a hold for answers.
    pub fn holding(ip: &str, target: SocketAddr, hold: Arc<Hold>) -> Result<Relay> {
        let listener = TcpListener::bind((ip, 0)).context("no port for a relay")?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared::default());
        let of_acceptor = shared.clone();
        let acceptor = thread::spawn(move || {
            for client in listener.incoming().flatten() {
                if of_acceptor.ended.load(Ordering::Acquire) {
                    return;
                }
                // If the target is not there, the client finds the connection closed.
                let Ok(node) = TcpStream::connect(target) else {
                    continue;
                };
                of_acceptor.keep(&client);
                of_acceptor.keep(&node);
                if let (Ok(to_client), Ok(to_node)) = (client.try_clone(), node.try_clone()) {
                    // A connection whose next answer is held back.
                    let (of_client, of_node) = (hold.clone(), hold.clone());
                    let asked = Arc::new(AtomicBool::new(false));
                    let is_asked = asked.clone();
                    thread::spawn(move || {
                        pass(client, to_node, |bytes| {
                            if of_client.is_meant(bytes) {
                                asked.store(true, Ordering::SeqCst);
                            }
                        });
                    });
                    thread::spawn(move || {
                        pass(node, to_client, |_| {
                            if is_asked.swap(false, Ordering::SeqCst) {
                                of_node.wait();
                            }
                        });
                    });
                }
            }
        });
        Ok(Relay {
            address,
            shared,
            acceptor: Some(acceptor),
        })
    }
}

impl Shared {
    fn keep(&self, socket: &TcpStream) {
        let mut sockets = self.sockets.lock().unwrap_or_else(PoisonError::into_inner);
        sockets.extend(socket.try_clone());
    }
}

/// A hold for one answer: as if whoever has asked had stood still before it read that.
#[derive(Default)]
pub struct Hold {
    stage: Mutex<Stage>,
    changed: Condvar,
}

#[derive(Default)]
enum Stage {
    #[default]
    Passing,
    /// The answer to the request that many ahead with this text in it.
    Armed {
        text: &'static str,
        ahead: u32,
    },
    Holding,
}

impl Hold {
    /// From now on: the answer to the request with this text in it that comes behind so many others.
    pub fn arm(&self, text: &'static str, ahead: u32) {
        self.enter(Stage::Armed { text, ahead });
    }

    /// True if an answer is being held back.
    pub fn is_holding(&self) -> bool {
        matches!(*self.stage(), Stage::Holding)
    }

    /// Lets it go.
    pub fn release(&self) {
        self.enter(Stage::Passing);
    }

    fn is_meant(&self, bytes: &[u8]) -> bool {
        let mut stage = self.stage();
        let Stage::Armed { text, ahead } = &mut *stage else {
            return false;
        };
        if !bytes.windows(text.len()).any(|of| of == text.as_bytes()) {
            return false;
        }
        let Some(fewer) = ahead.checked_sub(1) else {
            *stage = Stage::Holding;
            return true;
        };
        *ahead = fewer;
        false
    }

    fn wait(&self) {
        let is_held = |stage: &mut Stage| matches!(stage, Stage::Holding);
        // A test that has failed releases nothing.
        let most = Duration::from_secs(300);
        let waited = self.changed.wait_timeout_while(self.stage(), most, is_held);
        drop(waited);
    }

    fn enter(&self, stage: Stage) {
        *self.stage() = stage;
        self.changed.notify_all();
    }

    fn stage(&self) -> MutexGuard<'_, Stage> {
        self.stage.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Until one side ends; then the other does. `look`: at what is passed on next.
fn pass(mut from: TcpStream, mut to: TcpStream, look: impl Fn(&[u8])) {
    let mut buffer = vec![0; 64 * 1024];
    let _ = from.set_nodelay(true);
    while let Ok(n @ 1..) = from.read(&mut buffer) {
        look(&buffer[..n]);
        if to.write_all(&buffer[..n]).is_err() {
            break;
        }
    }
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::Release);
        // Wakes the acceptor.
        let _ = TcpStream::connect(self.address);
        if let Some(acceptor) = self.acceptor.take() {
            let _ = acceptor.join();
        }
        let sockets = self.shared.sockets.lock();
        for socket in sockets.unwrap_or_else(PoisonError::into_inner).iter() {
            // It may have ended already.
            let _ = socket.shutdown(Shutdown::Both);
        }
    }
}
