//! TLS on both sides of the proxy.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use helenus_cluster::ClientTls;
use helenus_tests::proxy::Proxy;
use helenus_tests::raw::{Client, PATIENCE, envelope, op};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::{eventually, one_node, turn};

type Encrypted = Client<StreamOwned<ClientConnection, TcpStream>>;

#[test]
fn tls_towards_nodes_and_clients() {
    let _turn = turn("tls", Duration::from_secs(240));
    let cluster = one_node(helenus_tests::ephemeral().tls(ClientTls::Mutual));
    let files = cluster.tls_files().expect("certificates");
    let points = cluster.contact_points();
    let path = |key: &str, path: &Path| format!("{key}=\"{}\"", path.display());
    let own = tempfile::tempdir().expect("a folder");
    let (good, other) = (Authority::new(), Authority::new());
    let (cert, key) = (own.path().join("cert.pem"), own.path().join("key.pem"));
    std::fs::write(&cert, &good.cert_pem).expect("written");
    std::fs::write(&key, &good.key_pem).expect("written");
    let foreign = own.path().join("foreign.pem");
    std::fs::write(&foreign, &other.cert_pem).expect("written");

    let ca = path("cluster.tls.ca", &files.ca_pem);
    let shown = [
        path("cluster.tls.certificate", &files.client_cert_pem),
        path("cluster.tls.key", &files.client_key_pem),
    ];
    // What is wrong is said in the log; the proxy goes on trying, as it does with a cluster that is
    // only starting.
    let refused = |what: &str, settings: &[&str], word: &str| {
        let mut proxy = Proxy::spawn(&points, settings).expect("spawned");
        eventually(what, PATIENCE, || {
            proxy.log().contains("no control connection") || !proxy.is_running()
        });
        let log = proxy.log();
        assert!(log.to_lowercase().contains(word), "{what}: {log}");
        assert!(!log.contains("ready for clients"), "{what}: {log}");
        let line = log
            .lines()
            .find(|line| line.contains("no control connection"));
        println!("{what}: {}", line.unwrap_or_default());
    };
    let wrong_ca = path("cluster.tls.ca", &foreign);
    refused(
        "wrong CA",
        &[&wrong_ca, &shown[0], &shown[1]],
        "certificate",
    );
    refused(
        "no certificate shown",
        &[&ca],
        "set cluster.tls.certificate and cluster.tls.key",
    );
    refused("plain text to TLS nodes", &[], "set cluster.tls.ca");

    let listen = [
        path("listen.tls.certificate", &cert),
        path("listen.tls.key", &key),
    ];
    let settings = [&ca, &shown[0], &shown[1], &listen[0], &listen[1]].map(String::as_str);
    let names = [&settings[..], &["cluster.tls.verify_names=true"]].concat();
    for settings in [&settings[..], &names] {
        let proxy = Proxy::start(&points, settings).expect("proxy");
        for version in [3, 4, 5] {
            let mut client = connect(proxy.address, &good, version);
            client.startup(None).expect("handshake").expect("ready");
            let rows = client.query("SELECT key FROM system.local");
            assert_eq!(rows.expect("rows").len(), 1);
            // More than one TLS record and one frame.
            let many = "SELECT column_name FROM system_schema.columns";
            assert!(client.query(many).expect("rows").len() > 100);
        }
        let mut stranger = connect(proxy.address, &other, 4);
        let error = stranger.startup(None).expect_err("a wrong authority");
        assert!(error.to_string().contains("certificate"), "{error}");
        // Plain text on the TLS port is closed, not awaited for ever.
        let mut plain = TcpStream::connect(proxy.address).expect("connect");
        plain.set_read_timeout(Some(PATIENCE)).expect("set");
        plain
            .write_all(&envelope(4, 1, op::OPTIONS, &[]))
            .expect("write");
        let mut answer = Vec::new();
        if let Err(e) = plain.read_to_end(&mut answer) {
            assert_eq!(e.kind(), std::io::ErrorKind::ConnectionReset);
        }
        let mut client = connect(proxy.address, &good, 4);
        client.startup(None).expect("still serving").expect("ready");
    }
    let proxy = Proxy::start(&points, settings.as_slice()).expect("proxy");
    renewal(&proxy, &good, &cert, &key);
}

/// Certificates are renewed by writing two files, one after the other, and telling nobody.
fn renewal(proxy: &Proxy, old: &Authority, cert: &Path, key: &Path) {
    let served = |client: &mut Encrypted| {
        let rows = client.query("SELECT key FROM system.local");
        assert_eq!(rows.expect("rows").len(), 1);
    };
    let accepted = |trusted: &Authority| {
        let mut client = connect(proxy.address, trusted, 5);
        match client.startup(None) {
            Ok(outcome) => {
                outcome.expect("ready");
                served(&mut client);
                true
            }
            Err(e) => {
                assert!(e.to_string().contains("certificate"), "{e}");
                false
            }
        }
    };
    let mut before = connect(proxy.address, old, 5);
    before.startup(None).expect("handshake").expect("ready");
    let new = Authority::new();
    std::fs::write(cert, &new.cert_pem).expect("written");
    // Certificate and key do not fit each other now: the proxy says so and stays as it is.
    eventually("half a renewal is noticed", PATIENCE, || {
        proxy.log().contains("cannot be used (yet)")
    });
    assert!(accepted(old) && !accepted(&new));
    std::fs::write(key, &new.key_pem).expect("written");
    let took = eventually("the renewed certificate is shown", PATIENCE, || {
        accepted(&new)
    });
    println!("a renewed certificate was in use {took:?} after it was written");
    assert!(!accepted(old), "the old certificate is still shown");
    served(&mut before);
    // The same by hand.
    let third = Authority::new();
    std::fs::write(cert, &third.cert_pem).expect("written");
    std::fs::write(key, &third.key_pem).expect("written");
    proxy.reload().expect("SIGHUP");
    eventually("the third certificate is shown", PATIENCE, || {
        accepted(&third)
    });
    served(&mut before);
}

/// A certificate that is its own authority.
struct Authority {
    cert_pem: String,
    key_pem: String,
    der: CertificateDer<'static>,
}

impl Authority {
    fn new() -> Self {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("made");
        Self {
            cert_pem: made.cert.pem(),
            key_pem: made.signing_key.serialize_pem(),
            der: made.cert.der().clone(),
        }
    }
}

fn connect(address: SocketAddr, trusted: &Authority, version: u8) -> Encrypted {
    let mut roots = RootCertStore::empty();
    roots.add(trusted.der.clone()).expect("a root");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from("localhost").expect("a name");
    let session = ClientConnection::new(Arc::new(config), name).expect("a session");
    let stream = TcpStream::connect(address).expect("connect");
    stream.set_read_timeout(Some(PATIENCE)).expect("set");
    Client::over(StreamOwned::new(session, stream), version)
}
