use super::*;
use crate::client::CqlType;
use crate::client::tls::tests::Certificates;
use crate::client::tls::{Tls, Trust};
use helenus_wire::{
    Compression, ErrorBody, HEADER_LEN, Header, code, compress_body, decompress_body, flags,
    query_flags, write,
};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;

/// A server for one statement: it answers STARTUP and PREPARE properly, and each EXECUTE with the
/// next of its replies (opcode and body). It closes the connection once they are used up.
#[derive(Clone, Default)]
struct Server {
    replies: Vec<(Opcode, Vec<u8>)>,
    requires_auth: bool,
    tls: Option<tokio_rustls::TlsAcceptor>,
    compression: Compression,
    /// Answers EXECUTE only with these flags of the query's options.
    query_flags: Option<u32>,
    /// Never answers EXECUTE.
    hangs: bool,
}

impl Server {
    fn of(replies: Vec<(Opcode, Vec<u8>)>) -> Self {
        Self {
            replies,
            ..Self::default()
        }
    }

    async fn start(self) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let server = self.clone();
                tokio::spawn(async move {
                    match server.tls.clone() {
                        Some(tls) => match tls.accept(stream).await {
                            Ok(stream) => server.serve(stream).await,
                            Err(error) => println!("the server saw: {error}"),
                        },
                        None => server.serve(stream).await,
                    }
                });
            }
        });
        address
    }

    async fn serve(self, mut stream: impl AsyncRead + AsyncWrite + Unpin) {
        let mut replies = self.replies.clone().into_iter();
        let mut head = [0; HEADER_LEN];
        let mut agreed = Compression::None;
        while stream.read_exact(&mut head).await.is_ok() {
            let header = Header::parse(&head).unwrap();
            let mut body = vec![0; header.body_len as usize];
            stream.read_exact(&mut body).await.unwrap();
            if header.flags & flags::COMPRESSED != 0 {
                let compressed = std::mem::take(&mut body);
                decompress_body(agreed, &compressed, 1 << 20, &mut body).unwrap();
            } else {
                assert_eq!(agreed, Compression::None, "a body that is not compressed");
            }
            let opcode = Opcode::from_number(header.opcode).unwrap();
            if self.hangs && opcode == Opcode::Execute {
                std::future::pending::<()>().await;
            }
            let Some((opcode, body)) = self.answer(opcode, &body, &mut replies) else {
                return;
            };
            // As in Cassandra, the answer to STARTUP is the first that is compressed.
            if opcode == Opcode::Ready {
                agreed = self.compression;
            }
            let mut sent = Vec::new();
            compress_body(agreed, &body, &mut sent);
            let header = Header {
                response: true,
                opcode: opcode as u8,
                flags: match agreed {
                    Compression::None => 0,
                    _ => flags::COMPRESSED,
                },
                body_len: sent.len() as u32,
                ..header
            };
            let mut out = Vec::new();
            header.write(&mut out);
            out.extend(sent);
            stream.write_all(&out).await.unwrap();
            stream.flush().await.unwrap();
        }
    }

    fn answer(
        &self,
        opcode: Opcode,
        body: &[u8],
        replies: &mut impl Iterator<Item = (Opcode, Vec<u8>)>,
    ) -> Option<(Opcode, Vec<u8>)> {
        let asked = |name: &str| body.windows(name.len()).any(|part| part == name.as_bytes());
        Some(match opcode {
            Opcode::Startup if self.requires_auth => (Opcode::Authenticate, vec![0, 1, b'A']),
            Opcode::Startup => {
                let is_known = match self.compression {
                    Compression::None => !asked("COMPRESSION"),
                    Compression::Lz4 => asked("lz4"),
                    Compression::Snappy => asked("snappy"),
                };
                match is_known {
                    true => (Opcode::Ready, Vec::new()),
                    false => (Opcode::Error, error(code::PROTOCOL)),
                }
            }
            Opcode::Prepare => (Opcode::Result, prepared()),
            Opcode::AuthResponse if body == TOKEN => (Opcode::AuthSuccess, vec![0xFF; 4]),
            Opcode::AuthResponse => (Opcode::Error, error(code::BAD_CREDENTIALS)),
            _ => {
                // Behind the statement's id and the consistency level.
                if let Some(wanted) = self.query_flags {
                    assert_eq!(u32::from(body[5]), wanted);
                }
                replies.next()?
            }
        })
    }
}

async fn server(replies: Vec<(Opcode, Vec<u8>)>) -> String {
    Server::of(replies).start().await
}

/// SASL PLAIN of role `me`, password `secret`, as a value with its length.
const TOKEN: &[u8] = b"\x00\x00\x00\x0a\x00me\x00secret";

/// `id` 7, one marker `k bigint`, no result columns.
fn prepared() -> Vec<u8> {
    let mut body = Vec::new();
    write::i32(&mut body, 4);
    write::short_bytes(&mut body, &[7]);
    write::u32(&mut body, 1);
    write::i32(&mut body, 1);
    write::i32(&mut body, 0);
    write::string(&mut body, "ks");
    write::string(&mut body, "t");
    write::string(&mut body, "k");
    write::u16(&mut body, 0x02);
    write::u32(&mut body, 4);
    write::i32(&mut body, 0);
    body
}

fn one_row(value: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    write::i32(&mut body, 2);
    write::u32(&mut body, 4);
    write::i32(&mut body, 1);
    write::i32(&mut body, 1);
    write::bytes(&mut body, Some(value));
    body
}

fn error(code: i32) -> Vec<u8> {
    let mut body = Vec::new();
    let (message, fields) = ("because", &[][..]);
    ErrorBody {
        code,
        message,
        fields,
    }
    .write(&mut body);
    body
}

async fn clients(address: String, count: usize) -> Result<RawClients> {
    let endpoint = Endpoint::new(
        "x",
        vec![address],
        crate::client::endpoint::Policy::TokenAware,
    );
    RawClients::open(&endpoint, &["SELECT"], count).await
}

#[tokio::test]
async fn each_client_sends_on_its_own_connection() {
    let address = server(vec![(Opcode::Result, one_row(b"x"))]).await;
    let clients = clients(address, 100).await.unwrap();
    assert_eq!(clients.markers(0)[0].name, "k");
    assert_eq!(clients.markers(0)[0].cql_type, Some(CqlType::BigInt));
    for client in 0..100 {
        let response = clients.execute(client, 0, &[&[0; 8]]).await.unwrap();
        assert_eq!((response.rows, response.cell(0)), (1, Some(&b"x"[..])));
    }
}

#[tokio::test]
async fn a_forgotten_statement_is_prepared_again_and_other_errors_are_counted() {
    let replies = vec![
        (Opcode::Error, error(code::UNPREPARED)),
        (Opcode::Result, one_row(b"y")),
        (Opcode::Error, error(code::OVERLOADED)),
    ];
    let clients = clients(server(replies).await, 1).await.unwrap();
    let response = clients.execute(0, 0, &[&[0; 8]]).await.unwrap();
    assert_eq!(response.cell(0), Some(&b"y"[..]));
    assert_eq!(clients.execute(0, 0, &[&[0; 8]]).await, Err("overloaded"));
}

#[tokio::test]
async fn a_closed_connection_fails_one_request_and_is_opened_anew() {
    let address = server(vec![(Opcode::Result, one_row(b"z"))]).await;
    let clients = clients(address, 1).await.unwrap();
    for turn in 0..4 {
        let outcome = clients.execute(0, 0, &[&[0; 8]]).await;
        assert_eq!(outcome.is_ok(), turn % 2 == 0, "turn {turn}: {outcome:?}");
    }
}

#[tokio::test]
async fn a_refused_connection_is_an_error_with_the_address() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    drop(listener);
    let refused = clients(address.clone(), 3).await.unwrap_err();
    assert!(format!("{refused:#}").contains(&address), "{refused:#}");
}

#[tokio::test]
async fn credentials_are_sent_when_required_and_a_refusal_is_reported() {
    let server = Server {
        requires_auth: true,
        ..Server::default()
    };
    let address = server.start().await;
    let mut endpoint = Endpoint::new(
        "x",
        vec![address],
        crate::client::endpoint::Policy::TokenAware,
    );
    let without = RawClients::open(&endpoint, &["SELECT"], 1).await;
    let without = format!("{:#}", without.unwrap_err());
    assert!(without.contains("--username"), "{without}");
    endpoint.credentials = Some(("me".into(), "wrong".into()));
    let refused = RawClients::open(&endpoint, &["SELECT"], 1).await;
    let refused = format!("{:#}", refused.unwrap_err());
    assert!(refused.contains("because"), "{refused}");
    endpoint.credentials = Some(("me".into(), "secret".into()));
    assert!(RawClients::open(&endpoint, &["SELECT"], 1).await.is_ok());
}

fn endpoint(address: String) -> Endpoint {
    Endpoint::new(
        "x",
        vec![address],
        crate::client::endpoint::Policy::TokenAware,
    )
}

#[tokio::test]
async fn bodies_are_compressed_in_both_directions_once_both_sides_know_how() {
    let value = vec![b'v'; 5_000];
    for compression in [Compression::Lz4, Compression::Snappy] {
        let mut server = Server::of(vec![(Opcode::Result, one_row(&value))]);
        server.compression = compression;
        let mut endpoint = endpoint(server.start().await);
        endpoint.compression = compression;
        let clients = RawClients::open(&endpoint, &["SELECT"], 1).await.unwrap();
        let response = clients.execute(0, 0, &[&[0; 8]]).await.unwrap();
        assert_eq!(response.cell(0), Some(&value[..]));
    }
}

#[tokio::test]
async fn a_server_that_cannot_compress_is_an_error() {
    let mut endpoint = endpoint(server(Vec::new()).await);
    endpoint.compression = Compression::Lz4;
    let refused = RawClients::open(&endpoint, &["SELECT"], 1).await;
    let refused = format!("{:#}", refused.unwrap_err());
    assert!(refused.contains("because"), "{refused}");
    // The driver would go on without.
    let refused = crate::client::DriverClients::open(&endpoint, &["SELECT"], 1).await;
    let refused = format!("{:#}", refused.unwrap_err());
    assert!(refused.contains("because"), "{refused}");
}

#[tokio::test]
async fn the_serial_consistency_is_sent_if_it_is_given() {
    for (serial, flags) in [
        (None, query_flags::VALUES),
        (
            Some(crate::client::endpoint::SerialConsistency::LocalSerial),
            query_flags::VALUES | query_flags::SERIAL_CONSISTENCY,
        ),
    ] {
        let mut server = Server::of(vec![(Opcode::Result, one_row(b"x"))]);
        server.query_flags = Some(flags);
        let mut endpoint = endpoint(server.start().await);
        endpoint.serial_consistency = serial;
        let clients = RawClients::open(&endpoint, &["SELECT"], 1).await.unwrap();
        assert!(clients.execute(0, 0, &[&[0; 8]]).await.is_ok());
    }
}

#[tokio::test]
async fn an_answer_that_comes_too_late_is_a_time_out() {
    let server = Server {
        hangs: true,
        ..Server::default()
    };
    let mut endpoint = endpoint(server.start().await);
    endpoint.request_timeout = Duration::from_millis(50);
    let clients = RawClients::open(&endpoint, &["SELECT"], 1).await.unwrap();
    let outcome = clients.execute(0, 0, &[&[0; 8]]).await;
    assert_eq!(outcome, Err("client timeout"));
}

/// A server with TLS on, and what a client is told when it opens a connection.
async fn opened(server_tls: rustls::ServerConfig, tls: Option<Tls>) -> Result<Response, String> {
    let mut server = Server::of(vec![(Opcode::Result, one_row(b"x"))]);
    server.tls = Some(std::sync::Arc::new(server_tls).into());
    let mut endpoint = endpoint(server.start().await);
    endpoint.tls = tls;
    let clients = RawClients::open(&endpoint, &["SELECT"], 1).await;
    let clients = clients.map_err(|error| format!("{error:#}"))?;
    let outcome = clients.execute(0, 0, &[&[0; 8]]).await;
    outcome.map_err(str::to_owned)
}

fn trusting(file: &std::path::Path, server_name: Option<&str>) -> Option<Tls> {
    Tls::new(Trust::Authority { file, server_name }, None).ok()
}

#[tokio::test]
async fn a_server_is_trusted_by_its_authority_and_its_name() {
    let good = Certificates::new(&["127.0.0.1", "node.example"]);
    let named = Certificates::new(&["node.example"]);
    let (ca, name) = (good.ca(), Some("node.example"));
    assert!(opened(good.server(), trusting(&ca, None)).await.is_ok());
    assert!(opened(good.server(), trusting(&ca, name)).await.is_ok());
    assert!(
        opened(named.server(), trusting(&named.ca(), name))
            .await
            .is_ok()
    );
    for (server, tls, told) in [
        (good.server(), trusting(&named.ca(), None), "--tls-ca"),
        (
            named.server(),
            trusting(&named.ca(), None),
            "--tls-server-name",
        ),
        (
            good.server(),
            trusting(&ca, Some("x.example")),
            "--tls-server-name",
        ),
    ] {
        let refused = opened(server, tls).await.unwrap_err();
        assert!(refused.contains(told), "{refused}");
    }
    let anybody = Tls::new(Trust::Anybody, None).ok();
    assert!(opened(named.server(), anybody).await.is_ok());
}

#[tokio::test]
async fn a_server_may_ask_for_a_certificate() {
    let files = Certificates::new(&["127.0.0.1"]);
    let trust = Trust::Authority {
        file: &files.ca(),
        server_name: None,
    };
    let (certificate, key) = (files.certificate(), files.key());
    let shown = Tls::new(trust, Some((&certificate, &key))).ok();
    assert!(opened(files.mutual(), shown).await.is_ok());
    let refused = opened(files.mutual(), Tls::new(trust, None).ok()).await;
    let refused = refused.unwrap_err();
    assert!(refused.contains("--tls-cert"), "{refused}");
}

#[tokio::test]
async fn a_server_without_tls_is_recognized() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut bytes = [0; 64];
        let _ = stream.read(&mut bytes).await;
        // A node's answer to a first byte that is no version.
        let answer = b"\x84\x00\x00\x00\x00\x00\x00\x00\x00";
        let _ = stream.write_all(answer).await;
    });
    let mut endpoint = endpoint(address);
    endpoint.tls = Tls::new(Trust::Anybody, None).ok();
    let refused = RawClients::open(&endpoint, &["SELECT"], 1).await;
    let refused = format!("{:#}", refused.unwrap_err());
    assert!(refused.contains("TLS"), "{refused}");
}
