use super::*;
use helenus_wire::{Decoder, Encoder, ExecuteView, Flow, Header, ValueRef, Version, write};
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use crate::client::tls::tests::Certificates;
use crate::client::tls::{Tls, Trust};

const PAGE_ROWS: i32 = 2;

/// A server of protocol v5 that collects EXECUTEs until there are `together` and answers them in reverse
/// order: each with two pages, whose only row is the first value. It closes the connection instead of
/// answering the value `b"close"`.
async fn server(together: usize) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream, together));
        }
    });
    address
}

async fn serve(mut stream: impl AsyncRead + AsyncWrite + Unpin, together: usize) {
    let (mut decoder, mut encoder) = (Decoder::new(1 << 20), Encoder::new());
    let (mut buffer, mut scratch) = (vec![0; 4096], Vec::new());
    let mut collected = Vec::new();
    while let Ok(len @ 1..) = stream.read(&mut buffer).await {
        let mut requests = Vec::new();
        let fed = decoder.feed(&buffer[..len], &mut scratch, |header, body| {
            requests.push((header, body.to_vec()));
            Flow::Continue
        });
        fed.unwrap();
        for (header, body) in requests {
            match Opcode::from_number(header.opcode) {
                Some(Opcode::Startup) => {
                    push(&mut encoder, header, Opcode::Ready, &[]);
                    stream.write_all(encoder.pending()).await.unwrap();
                    stream.flush().await.unwrap();
                    encoder = Encoder::new();
                    encoder.set_mode(true, Compression::None);
                    decoder.set_mode(true, Compression::None);
                }
                Some(Opcode::Prepare) => push(&mut encoder, header, Opcode::Result, &prepared()),
                _ => collected.push((header, body)),
            }
        }
        if collected.len() >= together {
            for (header, body) in collected.drain(..).rev() {
                let options = ExecuteView::parse(&body, Version::V5).unwrap().options;
                let Some(ValueRef::Set(value)) = options.values.get(0) else {
                    panic!("no value");
                };
                if value == b"close" {
                    return;
                }
                assert_eq!(options.page_size, Some(PAGE_ROWS));
                let is_last = options.paging_state.is_some();
                push(
                    &mut encoder,
                    header,
                    Opcode::Result,
                    &page_of(value, is_last),
                );
            }
        }
        let bytes = encoder.take_pending();
        stream.write_all(&bytes).await.unwrap();
        stream.flush().await.unwrap();
    }
}

/// [`server`] behind TLS.
async fn encrypted_server(config: ServerConfig) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                if let Ok(stream) = acceptor.accept(stream).await {
                    serve(stream, 1).await;
                }
            });
        }
    });
    address
}

/// The answer to a request.
pub(crate) fn push(encoder: &mut Encoder, request: Header, opcode: Opcode, body: &[u8]) {
    let header = Header {
        response: true,
        opcode: opcode as u8,
        ..request
    };
    encoder.push_slice(header, body);
}

/// `id` 7, no markers, no result columns.
fn prepared() -> Vec<u8> {
    let mut body = Vec::new();
    write::i32(&mut body, 4);
    write::short_bytes(&mut body, &[7]);
    write::short_bytes(&mut body, &[8]);
    for number in [0, 0, 0, 4, 0] {
        write::i32(&mut body, number);
    }
    body
}

fn page_of(value: &[u8], is_last: bool) -> Vec<u8> {
    let mut body = Vec::new();
    write::i32(&mut body, 2);
    write::u32(&mut body, if is_last { 4 } else { 4 | 2 });
    write::i32(&mut body, 1);
    if !is_last {
        write::bytes(&mut body, Some(b"more"));
    }
    write::i32(&mut body, 1);
    write::bytes(&mut body, Some(value));
    body
}

async fn open(addresses: Vec<String>, connections: usize) -> Result<SharedConnections> {
    let endpoint = Endpoint::new("x", addresses, crate::client::endpoint::Policy::TokenAware);
    SharedConnections::open(&endpoint, &["SELECT"], connections).await
}

/// The values of all rows.
async fn read(
    over: &SharedConnections,
    number: u64,
    value: &[u8],
) -> Result<Vec<Vec<u8>>, ErrorKind> {
    let mut found = Vec::new();
    over.read(number, 0, &[value], PAGE_ROWS, |page| {
        for row in page.rows() {
            found.push(row.unwrap()[0].unwrap().to_vec());
        }
        Ok(())
    })
    .await?;
    Ok(found)
}

#[tokio::test]
async fn requests_in_flight_on_one_connection_get_their_own_answers() {
    let over = open(vec![server(2).await], 1).await.unwrap();
    let (one, two) = tokio::join!(read(&over, 0, b"one"), read(&over, 1, b"two"));
    assert_eq!(one.unwrap(), [b"one", b"one"], "two pages");
    assert_eq!(two.unwrap(), [b"two", b"two"]);
}

#[tokio::test]
async fn a_request_that_is_given_up_keeps_its_stream_until_it_is_answered() {
    let over = open(vec![server(2).await], 1).await.unwrap();
    let patience = std::time::Duration::from_millis(20);
    assert!(timeout(patience, read(&over, 0, b"old")).await.is_err());
    // The server answers both now: the new request on a stream of its own.
    let session = over.session(0).await.unwrap();
    let first = session
        .page(&over.plan, 0, &[b"new"], PAGE_ROWS, None)
        .await
        .unwrap();
    let view = RowsView::parse(&first.body).unwrap();
    let cells = view.rows().next().unwrap().unwrap();
    assert_eq!(cells, [Some(&b"new"[..])]);
}

#[tokio::test]
async fn a_broken_connection_fails_what_is_in_flight_and_is_opened_anew() {
    let over = open(vec![server(1).await], 1).await.unwrap();
    assert_eq!(read(&over, 0, b"close").await, Err(BROKEN));
    assert_eq!(read(&over, 0, b"x").await.unwrap().len(), 2);
}

#[tokio::test]
async fn connections_are_spread_over_the_contact_points() {
    // The second server answers pairs only.
    let over = open(vec![server(1).await, server(2).await], 3)
        .await
        .unwrap();
    assert_eq!(read(&over, 0, b"x").await.unwrap().len(), 2);
    let patience = std::time::Duration::from_millis(20);
    assert!(timeout(patience, read(&over, 1, b"x")).await.is_err());
    assert_eq!(read(&over, 2, b"x").await.unwrap().len(), 2);
    assert!(open(Vec::new(), 1).await.is_err());
}

#[tokio::test]
async fn connections_are_encrypted_and_refusals_say_what_to_do() {
    let files = Certificates::new(&["127.0.0.1"]);
    let (ca, certificate, key) = (files.ca(), files.certificate(), files.key());
    let open = |address: String, is_known: bool| {
        let trust = Trust::Authority {
            file: &ca,
            server_name: None,
        };
        let identity = is_known.then_some((&*certificate, &*key));
        let mut endpoint = Endpoint::new(
            "x",
            vec![address],
            crate::client::endpoint::Policy::TokenAware,
        );
        endpoint.tls = Some(Tls::new(trust, identity).unwrap());
        async move { SharedConnections::open(&endpoint, &["q"], 1).await }
    };
    let connections = open(encrypted_server(files.server()).await, false).await;
    assert_eq!(
        read(&connections.unwrap(), 0, b"v").await.unwrap(),
        [b"v", b"v"]
    );
    let mutual = encrypted_server(files.mutual()).await;
    assert!(open(mutual.clone(), true).await.is_ok());
    let refused = open(mutual, false).await.unwrap_err();
    let refused = format!("{refused:#}");
    assert!(refused.contains("--tls-cert"), "{refused}");
}
