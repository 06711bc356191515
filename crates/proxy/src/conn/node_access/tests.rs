use std::path::{Path, PathBuf};
use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, date_time_ymd};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::*;
use crate::config::{ListenTls, NodeTls};
use crate::conn::transport::Transport;

/// An authority, and the certificate that it has signed for a node.
struct Certificates {
    folder: TempDir,
}

impl Certificates {
    /// All authorities have the same name.
    fn new(name: &str, expires_year: i32) -> Certificates {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, "a test");
        let key = KeyPair::generate().expect("a key");
        let certificate = params.self_signed(&key).expect("a certificate");
        let folder = tempfile::tempdir().expect("a folder");
        let write = |name: &str, pem: String| {
            std::fs::write(folder.path().join(name), pem).expect("written");
        };
        write("ca.pem", certificate.pem());
        let issuer = Issuer::new(params, key);
        let mut params = CertificateParams::new([name.to_owned()]).expect("a name");
        params.not_before = date_time_ymd(2000, 1, 1);
        params.not_after = date_time_ymd(expires_year, 1, 1);
        let key = KeyPair::generate().expect("a key");
        let signed = params.signed_by(&key, &issuer).expect("signed");
        write("node.pem", signed.pem());
        write("node.key", key.serialize_pem());
        Certificates { folder }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn trusted(&self) -> NodeTls {
        NodeTls {
            ca: self.file("ca.pem"),
            certificate: None,
            key: None,
            server_name: None,
            verify_names: true,
        }
    }

    /// A node that says what it supports, on every connection, and after that what it has heard.
    async fn node(&self) -> SocketAddr {
        let settings = ListenTls {
            certificate: self.file("node.pem"),
            key: self.file("node.key"),
            client_ca: None,
        };
        let tls = crate::conn::tls::server(&settings).expect("a server");
        let (listener, address) = listener().await;
        tokio::spawn(async move {
            while let Ok((tcp, _)) = listener.accept().await {
                let tls = tls.clone();
                tokio::spawn(async move {
                    let mut stream = Transport::accept(tcp, tls).await?;
                    let mut header = [0; 9];
                    stream.read_exact(&mut header).await?;
                    stream
                        .write_all(&[0x84, 0, header[2], header[3], 6, 0, 0, 0, 2, 0, 0])
                        .await?;
                    stream.flush().await?;
                    let (mut from, mut to) = tokio::io::split(stream);
                    tokio::io::copy(&mut from, &mut to).await
                });
            }
        });
        address
    }
}

async fn listener() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("its address");
    (listener, address)
}

fn access(tls: Option<NodeTls>, by: GivenBy) -> NodeAccess {
    let mut config = Config::default();
    config.cluster.tls = tls;
    config.links.connect_timeout_ms = 20_000;
    NodeAccess::new(&config, by).expect("usable files")
}

async fn refusal(node: SocketAddr, tls: Option<NodeTls>, by: GivenBy) -> String {
    let error = access(tls, by).try_node(node).await.expect_err("refused");
    error.to_string()
}

#[tokio::test]
async fn what_is_wrong_with_tls_is_said_in_the_words_of_who_has_asked_for_it() {
    let good = Certificates::new("127.0.0.1", 2100);
    let other = Certificates::new("127.0.0.1", 2100);
    let named = Certificates::new("db.example", 2100);
    let expired = Certificates::new("127.0.0.1", 2001);
    let node = good.node().await;
    let usable = |tls| access(Some(tls), GivenBy::Options);
    for tls in [
        good.trusted(),
        NodeTls {
            verify_names: false,
            ..good.trusted()
        },
    ] {
        usable(tls).try_node(node).await.expect("reached");
    }
    let settings = refusal(node, Some(other.trusted()), GivenBy::Settings).await;
    assert!(
        settings.contains("no authority in cluster.tls.ca"),
        "{settings}"
    );
    let options = refusal(node, Some(other.trusted()), GivenBy::Options).await;
    assert!(options.contains("no authority in --tls-ca"), "{options}");

    let elsewhere = named.node().await;
    let settings = refusal(elsewhere, Some(named.trusted()), GivenBy::Settings).await;
    assert!(
        settings.contains("set cluster.tls.server_name to"),
        "{settings}"
    );
    let options = refusal(elsewhere, Some(named.trusted()), GivenBy::Options).await;
    assert!(
        options.contains("set --tls-server-name to one of them, or --tls-verify-names false"),
        "{options}"
    );
    for tls in [
        NodeTls {
            server_name: Some("db.example".to_owned()),
            ..named.trusted()
        },
        NodeTls {
            verify_names: false,
            ..named.trusted()
        },
    ] {
        usable(tls).try_node(elsewhere).await.expect("reached");
    }

    // Also where names do not matter.
    for verify_names in [true, false] {
        let tls = NodeTls {
            verify_names,
            ..expired.trusted()
        };
        let text = refusal(expired.node().await, Some(tls), GivenBy::Options).await;
        assert!(text.contains("has expired; renew it"), "{text}");
    }
}

#[tokio::test]
async fn nodes_without_tls_and_those_that_want_it_are_told_apart() {
    let good = Certificates::new("127.0.0.1", 2100);
    let text = refusal(good.node().await, None, GivenBy::Options).await;
    assert!(
        text.contains("may require TLS; set --tls-ca (and"),
        "{text}"
    );

    let (plain, address) = listener().await;
    tokio::spawn(async move {
        let (mut tcp, _) = plain.accept().await?;
        tcp.read_u8().await?;
        tcp.write_all(b"\x84\0\0\0\0\0\0\0\x06\0\0\0\x0A\0\0")
            .await?;
        tokio::io::copy(&mut tcp, &mut tokio::io::sink()).await
    });
    let text = refusal(address, Some(good.trusted()), GivenBy::Options).await;
    assert!(
        text.contains("does not seem to speak TLS on this port; leave out --tls-ca"),
        "{text}"
    );
}

/// Of a node that stands still the kernel still accepts connections.
#[tokio::test]
async fn a_silent_node_is_given_up() {
    let (_silent, address) = listener().await;
    let good = Certificates::new("127.0.0.1", 2100);
    for tls in [None, Some(good.trusted())] {
        let mut access = access(tls, GivenBy::Options);
        access.dialer.connect_timeout = Duration::from_millis(300);
        let error = access.try_node(address).await.expect_err("given up");
        let text = error.to_string();
        assert!(text.contains("no answer within 300ms"), "{text}");
    }
}

#[tokio::test]
async fn unusable_files_are_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let refused = |ca: &Path| {
        let mut config = Config::default();
        config.cluster.tls = Some(NodeTls {
            ca: ca.to_owned(),
            certificate: None,
            key: None,
            server_name: None,
            verify_names: true,
        });
        let error = NodeAccess::new(&config, GivenBy::Options).expect_err("unusable");
        format!("{error:#}")
    };
    let missing = refused(&folder.path().join("missing.pem"));
    assert!(missing.contains("missing.pem"), "{missing}");
    let empty = folder.path().join("empty.pem");
    std::fs::write(&empty, "").expect("written");
    let text = refused(&empty);
    assert!(text.contains("empty.pem holds no certificate"), "{text}");
}

#[tokio::test]
async fn a_driver_without_tls_gets_through_and_other_programs_do_not() {
    let good = Certificates::new("127.0.0.1", 2100);
    let node = good.node().await;
    let plain = access(None, GivenBy::Options);
    assert_eq!(plain.entrance(node).expect("the node itself"), node);

    let access = access(Some(good.trusted()), GivenBy::Options);
    let port = access.entrance(node).expect("a port");
    let mut driver = TcpStream::connect(port).await.expect("a connection");
    let sent = b"\x04\0\0\x07\x05\0\0\0\0and then";
    driver.write_all(sent).await.expect("sent");
    let mut heard = [0; 19];
    driver.read_exact(&mut heard).await.expect("an answer");
    assert_eq!(&heard, b"\x84\0\0\x07\x06\0\0\0\x02\0\0and then");

    // The node would answer.
    let script = format!(
        "exec 3<>/dev/tcp/127.0.0.1/{} && echo connected && printf 123456789 >&3 && head -c 1 <&3",
        port.port()
    );
    let other = tokio::task::spawn_blocking(move || {
        let mut bash = std::process::Command::new("bash");
        bash.args(["-c", &script]).output().expect("bash")
    });
    let other = other.await.expect("it ends");
    assert_eq!(other.stdout, b"connected\n", "{other:?}");
}
