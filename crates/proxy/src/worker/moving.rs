//! Clients that move from one process to another with their sockets: out of a worker, and into one.

use std::cell::RefCell;
use std::io;
use std::net::TcpStream as StdTcpStream;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::time::{Duration, Instant};

use helenus_engine::SessionKey;
use helenus_engine::features::handover;
use helenus_engine::session::drain::Timetable;
use helenus_engine::session::handover::passed::{NotAdopted, PassedClient};
use helenus_engine::stats::add;
use tokio::net::TcpStream;
use tokio::sync::mpsc;

use super::{Socket, Worker};
use crate::conn::transport::Transport;
use crate::process::{Arriving, Fate, Leaving};
use crate::worker::client_socket;

/// How often a worker looks which clients can be passed on: they wait for that.
pub(super) const TICK: Duration = Duration::from_millis(2);

impl Worker {
    /// Begins to pass its clients on, less those whose connections are encrypted: what their keys are is
    /// known to the TLS library alone.
    pub(super) fn begin_passing(&mut self) {
        let clients = &self.clients;
        let is_plain = |key| {
            let socket: Option<&Socket> = clients.get(key);
            socket.is_some_and(|socket| !socket.transport.is_encrypted())
        };
        handover::begin_passing(&mut self.engine, Instant::now(), is_plain);
    }

    /// Passes on the clients that are between two messages. False if no others are left, or nobody takes
    /// them.
    pub(super) fn pass(&mut self, to: &mpsc::Sender<Leaving>, timetable: &Timetable) -> bool {
        let now = Instant::now();
        self.with(|engine| handover::hold_clients(engine, now, timetable));
        loop {
            let room = match to.try_reserve() {
                Ok(room) => room,
                Err(mpsc::error::TrySendError::Full(())) => break,
                Err(mpsc::error::TrySendError::Closed(())) => return false,
            };
            let Some((key, client)) = handover::next_to_pass(&mut self.engine, now) else {
                break;
            };
            let socket = self.clients.get(key);
            let socket = socket.and_then(|socket| socket.transport.try_clone_plain().ok());
            match socket {
                Some(socket) => room.send(Leaving {
                    worker: self.index,
                    key,
                    client,
                    socket,
                }),
                // Out of file descriptors, most likely.
                None => self.with(|engine| handover::keep_client(engine, now, key)),
            }
        }
        handover::is_passing(&self.engine)
    }

    /// Takes the fates of clients that were passed on.
    pub(super) fn settle(&mut self, clients: Vec<(SessionKey, Fate)>) {
        let now = Instant::now();
        for (key, fate) in clients {
            if fate == Fate::Kept {
                self.with(|engine| handover::keep_client(engine, now, key));
            } else if let Some(socket) = self.clients.remove(key) {
                // Its task ends.
                socket.wake();
                self.with(|engine| engine.close_session(now, key));
            }
        }
    }

    pub(super) fn end_passing(&mut self) {
        self.with(|engine| handover::end_passing(engine, Instant::now()));
    }

    /// Takes in a client that is not served yet.
    fn take_in(&mut self, client: PassedClient, socket: OwnedFd) -> Result<Newcomer, String> {
        let Some(permit) = self.shared.common.admit_client() else {
            return Err(NotAdopted::TooMany.to_string());
        };
        let tcp = stream_of(socket).map_err(|e| format!("its socket cannot be used: {e}"))?;
        let adopted = handover::adopt_session(&mut self.engine, Instant::now(), client, permit)
            .map_err(|e| e.to_string())?;
        Ok(Newcomer { key: adopted, tcp })
    }

    /// Serves a client whose session is there.
    fn serve_newcomer(&mut self, newcomer: Newcomer) {
        let Newcomer { key, tcp } = newcomer;
        add(&self.shared.common.stats.global.clients_adopted, 1);
        self.clients.insert(key, Socket::new(Transport::Plain(tcp)));
        // Bytes that wait are written when its task runs for the first time.
        self.write_client(Instant::now(), key);
        self.serve_with_a_task(key);
    }
}

/// A client that the other proxy may not know to be here.
struct Newcomer {
    key: SessionKey,
    tcp: TcpStream,
}

fn stream_of(socket: OwnedFd) -> io::Result<TcpStream> {
    let socket = StdTcpStream::from(socket);
    socket.set_nonblocking(true)?;
    let socket = TcpStream::from_std(socket)?;
    client_socket::set_up(&socket);
    Ok(socket)
}

/// Takes in clients of another process, and serves them once that knows.
pub(super) fn adopt(worker: &Rc<RefCell<Worker>>, arriving: Arriving) {
    let Arriving {
        clients,
        outcomes,
        confirmed,
    } = arriving;
    let mut newcomers = Vec::new();
    let mut said = Vec::new();
    {
        let mut worker = worker.borrow_mut();
        for (client, socket) in clients {
            said.push(match worker.take_in(client, socket) {
                Ok(newcomer) => {
                    newcomers.push(newcomer);
                    None
                }
                Err(why) => Some(why),
            });
        }
        worker.carry_out();
    }
    // If nobody waits for it, it is never confirmed either.
    let _ = outcomes.send(said);
    let worker = worker.clone();
    tokio::task::spawn_local(async move {
        let is_confirmed = confirmed.await.is_ok();
        let mut worker = worker.borrow_mut();
        for newcomer in newcomers {
            match is_confirmed {
                true => worker.serve_newcomer(newcomer),
                false => worker.engine.close_session(Instant::now(), newcomer.key),
            }
        }
        worker.carry_out();
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::worker::client_socket::testing::is_watched;

    #[tokio::test]
    async fn clients_that_vanish_are_noticed_also_after_they_were_taken_over() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await;
        let listener = listener.expect("bound");
        let address = listener.local_addr().expect("bound");
        let (client, accepted) = tokio::join!(TcpStream::connect(address), listener.accept());
        let (_client, (socket, _)) = (client.expect("connected"), accepted.expect("accepted"));
        assert!(!is_watched(&socket));
        let socket = OwnedFd::from(socket.into_std().expect("a socket"));
        let adopted = stream_of(socket).expect("a socket");
        assert!(is_watched(&adopted));
    }
}
