//! Two ends in one process.

use std::net::TcpStream;
use std::os::unix::net::UnixListener as StdUnixListener;

use super::*;

fn port() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").expect("a port")
}

fn ports() -> Ports {
    let client = port();
    let admin = port();
    Ports {
        address: client.local_addr().expect("an address"),
        clients: vec![client.try_clone().expect("cloned"), client],
        admin: Some((admin.local_addr().expect("an address"), admin)),
    }
}

/// Both ends of a connection.
fn pair() -> (UnixStream, UnixStream) {
    UnixStream::pair().expect("a pair")
}

#[tokio::test]
async fn packets_carry_sockets_of_their_own() {
    let (mut here, mut there) = pair();
    let ports: Vec<TcpListener> = (0..64).map(|_| port()).collect();
    let addresses = ports
        .iter()
        .map(|port| port.local_addr().expect("an address"));
    let addresses: Vec<SocketAddr> = addresses.collect();
    let text = "x".repeat(1 << 20);
    let sent = tokio::spawn(async move {
        let sockets: Vec<_> = ports.iter().map(AsFd::as_fd).collect();
        for sockets in [&sockets[..], &[], &sockets[..1]] {
            packets::send(&mut here, &text, sockets)
                .await
                .expect("sent");
        }
    });
    for count in [64, 0, 1] {
        let received = packets::receive::<String>(&mut there).await;
        let (text, sockets) = received.expect("received").expect("a packet");
        assert_eq!((text.len(), sockets.len()), (1 << 20, count));
        for (socket, address) in sockets.into_iter().zip(&addresses) {
            let port = TcpListener::from(socket);
            assert_eq!(port.local_addr().ok(), Some(*address));
        }
    }
    sent.await.expect("no panic");
    let end = packets::receive::<String>(&mut there).await;
    assert!(end.expect("the end").is_none());
}

#[tokio::test]
async fn what_is_no_packet_is_an_error() {
    for bytes in [
        &b"\0\0"[..],
        b"\xFF\xFF\xFF\xFFx",
        b"\0\0\0\x08short",
        b"\0\0\0\x01\xC1",
    ] {
        let (mut here, mut there) = pair();
        here.write_all(bytes).await.expect("sent");
        drop(here);
        let received = packets::receive::<packets::Passed>(&mut there).await;
        assert!(received.is_err(), "{bytes:?}");
    }
    // A secret in the wrong place is not quoted.
    let (mut here, mut there) = pair();
    let secret = ("Clients", "hunter2");
    packets::send(&mut here, &secret, &[]).await.expect("sent");
    let error = packets::receive::<packets::Passed>(&mut there).await;
    let error = format!("{:?}", error.expect_err("no packet"));
    assert!(!error.contains("hunter2"), "{error}");
}

#[tokio::test]
async fn clients_are_passed_on_to_whoever_understands_them() {
    let (mut here, mut there) = pair();
    ask_for_clients(&mut there).await.expect("asked");
    assert!(asked_for_clients(&mut here).await.expect("a line"));
    for (line, understood) in [
        ("clients 7 2\n", true),
        ("clients 1 22\n", false),
        ("clients\n", false),
        ("", false),
    ] {
        let (mut here, mut there) = pair();
        there.write_all(line.as_bytes()).await.expect("said");
        drop(there);
        let asked = asked_for_clients(&mut here).await;
        assert_eq!(asked.expect("a line"), understood, "{line}");
    }
    let (mut here, mut there) = pair();
    there.write_all(b"something else\n").await.expect("said");
    assert!(asked_for_clients(&mut here).await.is_err());
}

async fn taken(path: &Path) -> Result<Option<Taken>> {
    let path = path.to_owned();
    let handle = tokio::runtime::Handle::current();
    // It blocks, as it does before a proxy serves anybody.
    tokio::task::spawn_blocking(move || {
        let _entered = handle.enter();
        take(&path)
    })
    .await
    .expect("no panic")
}

/// [`taken`], as soon as it is noticed that whoever was before is gone.
async fn soon_taken(path: &Path) -> Taken {
    for _ in 0..1_000 {
        match taken(path).await {
            Ok(taken) => return taken.expect("ports"),
            Err(e) => assert!(format!("{e:#}").contains("already"), "{e:#}"),
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("the next one is not let in");
}

#[tokio::test]
async fn the_ports_pass_on_and_what_waits_in_them_is_not_lost() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("handover.sock");
    assert!(taken(&path).await.expect("nobody").is_none());
    let own = ports();
    let (address, at) = (own.address, own.admin.as_ref().expect("admin").0);
    let waiting = Waiting::bind(&path, own, false).expect("bound");
    let successor = tokio::spawn(waiting.successor());

    // One that dies before it is ready changes nothing.
    drop(taken(&path).await.expect("asked").expect("ports"));

    let client = TcpStream::connect(address).expect("it waits in the queue");
    let Taken { ports, stream } = soon_taken(&path).await;
    assert_eq!((ports.address, ports.clients.len()), (address, 2));
    assert_eq!(ports.admin.as_ref().expect("admin").0, at);
    let finished = tokio::spawn(async move {
        let mut stream = finish(stream).await?;
        ask_for_clients(&mut stream).await?;
        Ok::<_, anyhow::Error>(stream)
    });
    let mut successor = successor.await.expect("no panic");
    // The old one's sockets are closed by now, the new one's are not.
    assert!(successor.tell_left().await.expect("asked"));
    finished.await.expect("no panic").expect("left");
    let (_, peer) = ports.clients[0].accept().expect("the client");
    assert_eq!(peer, client.local_addr().expect("an address"));
    drop(successor);
    assert!(!path.exists(), "its place is free for the next");
}

#[tokio::test]
async fn one_takes_over_at_a_time_and_others_are_told_who() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("handover.sock");
    let own = ports();
    let later = own.try_clone().expect("cloned");
    let waiting = Waiting::bind(&path, own, false).expect("bound");
    let successor = tokio::spawn(waiting.successor());
    let first = taken(&path).await.expect("asked").expect("ports");
    let refused = || async {
        let error = taken(&path).await.expect_err("another one is there");
        let error = format!("{error:#}");
        let pid = std::process::id().to_string();
        assert!(error.contains("already") && error.contains(&pid), "{error}");
    };
    // While it gets ready, when it is ready, and until it listens itself.
    refused().await;
    let finished = tokio::spawn(finish(first.stream));
    let mut successor = successor.await.expect("no panic");
    successor.while_it_waits(refused()).await;
    assert!(successor.is_there());
    let left = tokio::spawn(async move {
        let asked = successor.tell_left().await;
        (successor, asked)
    });
    let mut stream = finished.await.expect("no panic").expect("left");
    refused().await;
    let waiting = Waiting::bind(&path, later, true).expect("bound");
    ask_for_clients(&mut stream).await.expect("asked");
    let (successor, asked) = left.await.expect("no panic");
    assert!(asked.expect("asked"));
    drop(successor);
    let next = tokio::spawn(waiting.successor());
    assert!(
        taken(&path).await.expect("asked").is_some(),
        "now it is the next one's turn"
    );
    next.abort();
}

/// One that has said that it takes over and then says nothing keeps nobody from the next try.
#[tokio::test]
async fn who_ends_before_it_is_ready_makes_room_for_the_next() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("handover.sock");
    let waiting = Waiting::bind(&path, ports(), false).expect("bound");
    let successor = tokio::spawn(waiting.successor());
    for said in [&b""[..], b"rea", b"never\n"] {
        let Taken { mut stream, .. } = soon_taken(&path).await;
        stream.write_all(said).await.expect("said");
        drop(stream);
    }
    let Taken { stream, .. } = soon_taken(&path).await;
    let _finished = tokio::spawn(finish(stream));
    successor.await.expect("no panic");
}

/// One that is ready, and ends while this one still waits for clients, is noticed at once.
#[tokio::test]
async fn who_ends_when_it_is_ready_makes_room_for_the_next() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("handover.sock");
    let mut waiting = Waiting::bind(&path, ports(), false).expect("bound");
    for _ in 0..2 {
        let successor = tokio::spawn(waiting.successor());
        let Taken { mut stream, .. } = soon_taken(&path).await;
        stream.write_all(READY).await.expect("said");
        let successor = successor.await.expect("no panic");
        assert!(successor.is_there());
        let ends = async move {
            tokio::time::sleep(Duration::from_millis(10)).await;
            drop(stream);
            std::future::pending::<()>().await;
        };
        successor.while_it_waits(ends).await;
        assert!(!successor.is_there());
        waiting = successor.into_waiting();
    }
    let successor = tokio::spawn(waiting.successor());
    let Taken { stream, .. } = soon_taken(&path).await;
    let _finished = tokio::spawn(finish(stream));
    assert!(successor.await.expect("no panic").is_there());
}

#[tokio::test]
async fn a_stranger_is_told_from_a_proxy() {
    let folder = tempfile::tempdir().expect("a folder");
    for (number, line) in ["", "hello\n", "helenus handover 1 127.0.0.1:1 -\n", "x"]
        .into_iter()
        .enumerate()
    {
        let path = folder.path().join(number.to_string());
        let stranger = StdUnixListener::bind(&path).expect("bound");
        let said = std::thread::spawn(move || {
            use std::io::Write;
            let (mut stream, _) = stranger.accept().expect("asked");
            stream.write_all(line.as_bytes()).expect("said");
        });
        let error = taken(&path).await.expect_err(line);
        assert!(!format!("{error:#}").is_empty());
        said.join().expect("no panic");
    }
}
