use std::io::{Read, Write};
use std::net::TcpListener;
use std::thread;

use socket2::SockRef;

use super::*;

#[derive(Clone, Copy)]
enum Peer {
    /// Accepts the connection and closes it properly.
    Closes,
    /// Accepts the connection, reads a little, and resets it.
    Resets,
    /// Responds to anything like a node without TLS.
    SpeaksPlainly,
    /// Announces an answer of 64 KiB and a byte.
    SpeaksAtLength,
}

/// The outcome of the first exchange with such a peer.
fn outcome(peer: Peer, tls: bool) -> String {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    let address = listener.local_addr().expect("its address");
    let other = thread::spawn(move || {
        let (mut socket, _) = listener.accept().expect("a connection");
        let mut byte = [0; 1];
        match peer {
            Peer::Closes => while matches!(socket.read(&mut [0; 512]), Ok(512)) {},
            Peer::Resets => {
                socket.read_exact(&mut byte).expect("a byte");
                let linger = Some(Duration::ZERO);
                SockRef::from(&socket).set_linger(linger).expect("set");
            }
            Peer::SpeaksPlainly | Peer::SpeaksAtLength => {
                socket.read_exact(&mut byte).expect("a byte");
                let said: &[u8] = match peer {
                    Peer::SpeaksAtLength => b"\x84\0\0\x01\x06\0\x01\0\x01",
                    _ => b"\x84\0\0\0\0\0\0\0\x06\0\0\0\x0A\0\0",
                };
                socket.write_all(said).expect("written");
                // Until the other end has read it and closed.
                while matches!(socket.read(&mut [0; 512]), Ok(1..)) {}
            }
        }
    });
    let tls = tls.then(|| {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_root_certificates(rustls::RootCertStore::empty())
            .with_no_client_auth();
        Arc::new(config)
    });
    let dialer = Dialer {
        connect_timeout: Duration::from_secs(5),
        tls,
        tls_server_name: None,
        authenticators: Authenticators::default(),
        client_id: "".into(),
        advice: Advice::SETTINGS,
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let error = runtime.block_on(async {
        match dialer.dial(address, Version::V4).await {
            Ok(mut conn) => conn.call(Opcode::Options, &[]).await.expect_err("refused"),
            Err(e) => e,
        }
    });
    other.join().expect("the peer");
    error.to_string()
}

#[test]
fn a_connection_lost_at_once_is_explained() {
    for peer in [Peer::Closes, Peer::Resets] {
        let plain = outcome(peer, false);
        assert!(plain.contains("set cluster.tls.ca"), "{plain}");
        let encrypted = outcome(peer, true);
        assert!(encrypted.contains("require_client_auth"), "{encrypted}");
        assert!(
            encrypted.contains("cluster.tls.certificate and cluster.tls.key"),
            "{encrypted}"
        );
    }
    let text = outcome(Peer::SpeaksPlainly, true);
    assert!(text.contains("remove [cluster.tls]"), "{text}");
    // Without TLS it is an ordinary response.
    let text = outcome(Peer::SpeaksPlainly, false);
    assert!(text.contains("0x000A"), "{text}");
}

#[test]
fn a_node_that_has_not_let_anybody_in_says_little() {
    let text = outcome(Peer::SpeaksAtLength, false);
    assert!(text.contains("maximum allowed length"), "{text}");
}

#[test]
fn what_the_own_machine_lacks_says_nothing_of_a_node() {
    let of = |errno: Errno| ConnError::Io(errno.into()).not_dialed();
    for own in [Errno::MFILE, Errno::ADDRNOTAVAIL] {
        assert!(matches!(of(own), NotDialed::NoMeans(_)), "{own}");
    }
    for of_node in [Errno::CONNREFUSED, Errno::CONNRESET] {
        assert!(matches!(of(of_node), NotDialed::Lost(_)), "{of_node}");
    }
    let late = ConnError::Timeout(Duration::from_secs(2)).not_dialed();
    assert!(matches!(late, NotDialed::Lost(_)));
}
