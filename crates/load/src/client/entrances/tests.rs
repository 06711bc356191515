use rustls::ServerConfig;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use super::*;
use crate::client::endpoint::{Endpoint, Policy};
use crate::client::tls::Trust;
use crate::client::tls::tests::Certificates;

/// A server that sends back what it gets.
async fn start(config: ServerConfig) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    tokio::spawn(async move {
        while let Ok((tcp, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                let stream = acceptor.accept(tcp).await?;
                let (mut reading, mut writing) = tokio::io::split(stream);
                tokio::io::copy(&mut reading, &mut writing).await
            });
        }
    });
    address
}

fn trusting(files: &Certificates, server_name: Option<&str>) -> Tls {
    let file = &files.ca();
    Tls::new(Trust::Authority { file, server_name }, None).unwrap()
}

async fn refused(tls: &Tls, point: String) -> String {
    format!("{:#}", Entrances::open(tls, &[point]).await.unwrap_err())
}

#[tokio::test]
async fn bytes_go_on_to_contact_points_and_to_nodes_that_are_heard_of() {
    let files = Certificates::new(&["localhost"]);
    let node = start(files.server()).await;
    let given = [
        format!("localhost:{}", node.port()),
        "127.0.0.1:1".to_owned(),
    ];
    // The certificate is for the name under which it was given.
    let tls = trusting(&files, None);
    let (entrances, found) = Entrances::open(&tls, &given).await.unwrap();
    assert_eq!(found.len(), 1);
    let heard = SocketAddr::new(node.ip(), found[0].port());
    assert_eq!(entrances.node(heard), node);
    assert_eq!(entrances.0.entrance_heard(heard).unwrap(), found[0]);
    let mut driver = TcpStream::connect(found[0]).await.unwrap();
    driver.write_all(b"bytes").await.unwrap();
    let mut back = [0; 5];
    driver.read_exact(&mut back).await.unwrap();
    assert_eq!(&back, b"bytes");
    drop(entrances);
    driver.read_u8().await.expect_err("closed");
}

#[tokio::test]
async fn why_no_node_is_reached_is_said_with_what_to_do() {
    let (good, named) = (
        Certificates::new(&["127.0.0.1"]),
        Certificates::new(&["db.example"]),
    );
    let node = start(good.server()).await.to_string();
    for (tls, node, told) in [
        (trusting(&named, None), node.clone(), "--tls-ca"),
        (
            trusting(&good, Some("db.example")),
            node,
            "--tls-server-name",
        ),
        (
            trusting(&good, None),
            start(good.mutual()).await.to_string(),
            "--tls-cert",
        ),
        (
            trusting(&good, None),
            "127.0.0.1:1".to_owned(),
            "127.0.0.1:1",
        ),
    ] {
        let why = refused(&tls, node.clone()).await;
        assert!(why.contains(told) && why.contains(&node), "{why}");
    }
    let mut endpoint = Endpoint::new("second", vec!["127.0.0.1:1".into()], Policy::TokenAware);
    endpoint.tls = Some(trusting(&good, None));
    let why = format!("{:#}", endpoint.connect().await.unwrap_err());
    assert!(
        why.contains("second") && why.contains("127.0.0.1:1"),
        "{why}"
    );
}
