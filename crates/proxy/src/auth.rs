//! Login: Cassandra itself judges every client, the proxy only carries the words.
//!
//! A client's SASL exchange runs over a fresh connection to a node. If the node accepts, that
//! connection is closed or becomes the role's first link, and the client joins the links of exactly
//! those credentials. So a client gets links only after a node has accepted it, each time anew.

use std::time::Duration;

use helenus_wire::{Compression, Opcode, code};
use tokio::sync::mpsc;

use crate::conn::{Conn, ConnError};
use crate::handshake::Phase;
use crate::pool::link_options;
use crate::stats::add;
use crate::worker::{Key, State};

/// A login that takes longer has failed.
const LOGIN_TIMEOUT: Duration = Duration::from_secs(20);

impl State {
    /// Starts the exchange of a client whose STARTUP came with this stream id.
    pub fn start_authentication(
        &mut self,
        key: Key,
        stream: i16,
        mode: (bool, Compression),
        receiver: mpsc::Receiver<(i16, Vec<u8>)>,
    ) {
        let Some(me) = self.me.upgrade() else { return };
        let dialer = (**self.shared.dialer.load()).clone();
        let version = self.snapshot.version;
        self.turn += 1;
        let nodes = &self.snapshot.nodes;
        let mut addresses: Vec<_> = (0..nodes.len())
            .map(|i| (i + self.turn as usize) % nodes.len())
            .filter(|i| !nodes[*i].gone)
            .map(|i| {
                let suspect = self.nodes[i].suspect_until.is_some_and(|t| t > self.now);
                (
                    self.nodes[i].failures + u32::from(suspect),
                    nodes[i].address,
                )
            })
            .collect();
        addresses.sort_by_key(|(failures, _)| *failures > 0);
        tokio::task::spawn_local(async move {
            let login = async {
                let mut last = ConnError::Closed;
                // A frozen node takes the connection and then says nothing: on to the next.
                let patience = dialer.connect_timeout * 2;
                for (_, address) in addresses.iter().take(3) {
                    let greet = async {
                        let mut conn = dialer.dial(*address, version).await?;
                        let greeting = conn.startup(&link_options()).await?;
                        Ok((conn, greeting))
                    };
                    match tokio::time::timeout(patience, greet).await {
                        Ok(Ok(greeted)) => return Ok(greeted),
                        Ok(Err(e)) => last = e,
                        Err(_) => last = ConnError::Timeout(patience),
                    }
                }
                Err(last)
            };
            let (conn, greeting) = match tokio::time::timeout(LOGIN_TIMEOUT, login).await {
                Ok(Ok(opened)) => opened,
                Ok(Err(e)) => {
                    let text = format!("no node can check the credentials now: {e}");
                    let mut state = me.borrow_mut();
                    state.answer_error(key, stream, code::SERVER, &text, &[]);
                    state.finish(key);
                    return;
                }
                Err(_) => {
                    let mut state = me.borrow_mut();
                    let text = "no node can check the credentials now: time-out";
                    state.answer_error(key, stream, code::SERVER, text, &[]);
                    state.finish(key);
                    return;
                }
            };
            {
                let mut state = me.borrow_mut();
                let opcode = greeting.opcode().unwrap_or(Opcode::Error);
                state.answer(key, stream, opcode, 0, &greeting.body);
                if let Some(session) = state.session(key) {
                    // What follows the AUTHENTICATE is framed (v5) or compressed.
                    session.encoder.set_mode(mode.0, mode.1);
                }
            }
            let outcome =
                tokio::time::timeout(LOGIN_TIMEOUT, relay(&me, key, conn, receiver)).await;
            let mut state = me.borrow_mut();
            if outcome.is_err() {
                state.finish(key);
            }
        });
    }
}

async fn relay(
    me: &std::rc::Rc<std::cell::RefCell<State>>,
    key: Key,
    mut conn: Conn,
    mut receiver: mpsc::Receiver<(i16, Vec<u8>)>,
) {
    let mut token: Option<Vec<u8>> = None;
    let mut rounds = 0;
    while let Some((stream, body)) = receiver.recv().await {
        rounds += 1;
        if token.is_none() {
            let mut reader = helenus_wire::Reader::new(&body);
            token = reader.bytes().ok().flatten().map(<[u8]>::to_vec);
        }
        let sent = conn.send(Opcode::AuthResponse, &body).await;
        let answer = match sent {
            Ok(_) => conn.receive().await,
            Err(e) => Err(e),
        };
        let mut state = me.borrow_mut();
        let message = match answer {
            Ok(message) => message,
            Err(e) => {
                let text = format!("the node that checks the credentials is gone: {e}");
                state.answer_error(key, stream, code::SERVER, &text, &[]);
                state.finish(key);
                return;
            }
        };
        let opcode = message.opcode().unwrap_or(Opcode::Error);
        let version = conn.version;
        state.answer_converted(
            key,
            stream,
            opcode,
            message.header.flags,
            &message.body,
            version,
        );
        match opcode {
            Opcode::AuthSuccess => {
                add(&state.shared.stats.global.auth_accepted, 1);
                // Only a one-round exchange (PLAIN) can be repeated for further links.
                let Some(token) = token.filter(|_| rounds == 1) else {
                    state.finish(key);
                    return;
                };
                let pool = state.pool_of(Some(&token));
                state.pools[pool].sessions += 1;
                if let Some(session) = state.session(key) {
                    session.phase = Phase::Ready;
                    session.pool = Some(pool);
                } else {
                    state.pools[pool].sessions -= 1;
                }
                return;
            }
            Opcode::AuthChallenge => {}
            _ => {
                add(&state.shared.stats.global.auth_refused, 1);
                state.finish(key);
                return;
            }
        }
    }
}
