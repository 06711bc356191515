//! A proxy that stops, as clients see it.

use std::io::{Error, ErrorKind, Result};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use helenus_tests::proxy::Proxy;
use helenus_tests::raw::{Client, ONE, PATIENCE, op};

use crate::node::shared;
use crate::{eventually, turn};

const READ: &str = "SELECT v FROM drain.t WHERE k = 1";
/// Requests that are sent before the first answer is read.
const BURST: i16 = 16;

fn start(settings: &[&str]) -> Proxy {
    let mut node = shared();
    node.keyspace(
        "drain",
        &["CREATE TABLE drain.t (k int PRIMARY KEY, v int)"],
    );
    Proxy::start(&node.cluster().contact_points(), settings).expect("proxy")
}

/// Clients send one burst after the other until they are told that the proxy goes, and one more.
#[test]
fn clients_that_send_across_sigterm_get_every_answer() {
    let _turn = turn("drain", Duration::from_secs(120));
    let mut proxy = start(&[]);
    let clients: Vec<_> = (0..9)
        .map(|number| until_told(proxy.address, 3 + number % 3))
        .collect();
    eventually("all clients send", PATIENCE, || {
        clients.iter().all(Sender::has_sent)
    });
    proxy.terminate().expect("SIGTERM");
    eventually("not ready", PATIENCE, || {
        let ready = proxy.admin_get("/ready", None);
        ready.is_ok_and(|(status, reason)| status == 503 && reason.contains("stopping"))
    });
    let mut bursts = 0;
    for client in clients {
        bursts += client.bursts().expect("every answer, then the end");
    }
    println!("{bursts} bursts of {BURST} across SIGTERM: all answered");
    let status = proxy.wait(PATIENCE).expect("it ends");
    assert!(status.success(), "{status}");
}

/// Clients that were silent for long may speak again at any moment of the grace.
#[test]
fn idle_clients_and_new_ones_are_served_while_the_grace_lasts() {
    let _turn = turn("grace", Duration::from_secs(120));
    let settings = ["listen.drain_grace_ms=4000", "listen.drain_timeout_ms=9000"];
    let mut proxy = start(&settings);
    let ready = |version| Client::ready(proxy.address, version).expect("client");
    let idle: Vec<_> = (0..20).map(|number| ready(3 + number % 3)).collect();
    let busy = until_told(proxy.address, 5);
    eventually("a client sends", PATIENCE, || busy.has_sent());
    proxy.terminate().expect("SIGTERM");
    for mut client in idle {
        client.query(READ).expect("an idle client is served");
        thread::sleep(Duration::from_millis(20));
        ready(5).query(READ).expect("a new client is served");
    }
    // They are refused, not left to wait, while others are still there.
    eventually("new clients are refused", PATIENCE, || {
        let refused = TcpStream::connect_timeout(&proxy.address, PATIENCE);
        refused.is_err_and(|e| e.kind() == ErrorKind::ConnectionRefused)
    });
    busy.bursts().expect("every answer, then the end");
    assert!(proxy.wait(PATIENCE).expect("it ends").success());
}

#[test]
fn without_clients_nothing_is_waited_for_and_a_client_that_never_stops_is_not_for_ever() {
    let _turn = turn("ends of a drain", Duration::from_secs(120));
    let long = [
        "listen.drain_grace_ms=60000",
        "listen.drain_timeout_ms=120000",
    ];
    let mut proxy = start(&long);
    drop(Client::ready(proxy.address, 5).expect("client"));
    eventually("the client is gone", PATIENCE, || {
        crate::metric(&proxy, "helenus_clients") == 0.0
    });
    proxy.terminate().expect("SIGTERM");
    assert!(proxy.wait(PATIENCE).expect("it ends at once").success());

    let mut proxy = start(&["listen.drain_grace_ms=100", "listen.drain_timeout_ms=2000"]);
    let stop = Arc::new(AtomicBool::new(false));
    let client = Sender::start(proxy.address, 4, {
        let stop = stop.clone();
        move |_| !stop.load(Ordering::Relaxed)
    });
    eventually("the client sends", PATIENCE, || client.has_sent());
    proxy.terminate().expect("SIGTERM");
    assert!(
        proxy
            .wait(PATIENCE)
            .expect("it ends all the same")
            .success()
    );
    stop.store(true, Ordering::Relaxed);
    let cut = client.bursts().expect_err("its last burst came too late");
    println!("a client that never stops: {cut}");

    // Nor is an operator who asks twice kept waiting.
    let mut proxy = start(&long);
    let _client = Client::ready(proxy.address, 5).expect("client");
    proxy.terminate().expect("SIGTERM");
    eventually("it stops", PATIENCE, || proxy.log().contains("stopping"));
    proxy.terminate().expect("SIGTERM again");
    proxy.wait(PATIENCE).expect("it ends at once");
}

/// A client on a thread of its own.
struct Sender {
    thread: JoinHandle<Result<usize>>,
    has_sent: Arc<AtomicBool>,
}

/// Stops one burst behind the event that the proxy goes.
fn until_told(address: SocketAddr, version: u8) -> Sender {
    Sender::start(address, version, move |told| match told {
        None => true,
        Some(event) => {
            assert!(event.windows(4).any(|word| word == b"DOWN"), "{event:?}");
            false
        }
    })
}

impl Sender {
    /// Goes on while `again` says so, of the event that has come; then reads to the end of the
    /// connection. Fails if an answer is missing.
    fn start(
        address: SocketAddr,
        version: u8,
        mut again: impl FnMut(Option<&[u8]>) -> bool + Send + 'static,
    ) -> Sender {
        let has_sent = Arc::new(AtomicBool::new(false));
        let sent = has_sent.clone();
        let thread = thread::spawn(move || {
            let mut client = Client::ready(address, version)?;
            client.register(&["STATUS_CHANGE"])?;
            let mut event: Option<Vec<u8>> = None;
            let mut bursts = 0;
            let mut last = false;
            while !last {
                last = !again(event.as_deref());
                burst(&mut client, &mut event)?;
                bursts += 1;
                sent.store(true, Ordering::Relaxed);
            }
            match client.receive() {
                Err(end) if end.kind() == ErrorKind::UnexpectedEof => Ok(bursts),
                other => panic!("not the end: {other:?}"),
            }
        });
        Sender { thread, has_sent }
    }

    /// The bursts that were answered, when it has ended.
    fn bursts(self) -> Result<usize> {
        self.thread.join().expect("no panic")
    }

    fn has_sent(&self) -> bool {
        self.has_sent.load(Ordering::Relaxed)
    }
}

fn burst(client: &mut Client<TcpStream>, event: &mut Option<Vec<u8>>) -> Result<()> {
    let body = client.query_body(READ, ONE);
    for stream in 0..BURST {
        client.send(stream, op::QUERY, &body)?;
    }
    let mut missing: Vec<i16> = (0..BURST).collect();
    while !missing.is_empty() {
        let answer = client.receive()?;
        if answer.opcode == op::EVENT {
            *event = Some(answer.body);
            continue;
        }
        missing.retain(|stream| *stream != answer.stream);
        answer.judged()?.map_err(Error::from)?;
    }
    Ok(())
}
