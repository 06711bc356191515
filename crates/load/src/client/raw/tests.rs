use super::*;
use tokio::net::TcpListener;

/// A server for one statement: it answers STARTUP and PREPARE properly, and each EXECUTE with the
/// next of `replies` (opcode and body). It closes the connection once they are used up.
async fn server(replies: Vec<(Opcode, Vec<u8>)>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream, replies.clone()));
        }
    });
    address
}

/// SASL PLAIN of role `me`, password `secret`, as a value with its length.
const TOKEN: &[u8] = b"\x00\x00\x00\x0a\x00me\x00secret";

async fn serve(mut stream: TcpStream, replies: Vec<(Opcode, Vec<u8>)>) {
    // Only the authentication test runs a server without replies.
    let requires_auth = replies.is_empty();
    let mut replies = replies.into_iter();
    let mut head = [0; HEADER_LEN];
    while stream.read_exact(&mut head).await.is_ok() {
        let header = Header::parse(&head).unwrap();
        let mut body = vec![0; header.body_len as usize];
        stream.read_exact(&mut body).await.unwrap();
        let (opcode, body) = match Opcode::from_number(header.opcode) {
            Some(Opcode::Startup) if requires_auth => (Opcode::Authenticate, vec![0, 1, b'A']),
            Some(Opcode::Startup) => (Opcode::Ready, Vec::new()),
            Some(Opcode::Prepare) => (Opcode::Result, prepared()),
            Some(Opcode::AuthResponse) if body == TOKEN => (Opcode::AuthSuccess, vec![0xFF; 4]),
            Some(Opcode::AuthResponse) => (Opcode::Error, error(code::BAD_CREDENTIALS)),
            _ => match replies.next() {
                Some(reply) => reply,
                None => return,
            },
        };
        let header = Header {
            response: true,
            opcode: opcode as u8,
            body_len: body.len() as u32,
            ..header
        };
        let mut out = Vec::new();
        header.write(&mut out);
        out.extend(body);
        stream.write_all(&out).await.unwrap();
    }
}

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
    let endpoint = Endpoint::new("x", vec![address], crate::endpoint::Policy::TokenAware);
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
    let address = server(Vec::new()).await;
    let mut endpoint = Endpoint::new("x", vec![address], crate::endpoint::Policy::TokenAware);
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
