//! An address at which a node is reached, and which can be taken away.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

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
                    thread::spawn(move || pass(client, to_node));
                    thread::spawn(move || pass(node, to_client));
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

/// Until one side ends; then the other does.
fn pass(mut from: TcpStream, mut to: TcpStream) {
    let mut buffer = vec![0; 64 * 1024];
    let _ = from.set_nodelay(true);
    while let Ok(n @ 1..) = from.read(&mut buffer) {
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
