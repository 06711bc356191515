//! Clients of several roles: what they are told at the same time, and when their access ends.

use std::io::ErrorKind;
use std::net::TcpStream;

use helenus_tests::raw::{Client, Fault, ONE, op};

use crate::identity::{BAD_CREDENTIALS, UNAUTHORIZED};

/// All that readers and writers ask is in flight at once, of the same keys: what is shared, merged or queued is theirs
/// alone, and each is told what its own role may.
pub(crate) fn together(login: impl Fn(&str, &str, u8) -> Result<Client<TcpStream>, Fault>) {
    const ROUNDS: i16 = 100;
    let select = "SELECT v FROM r.t WHERE k = 1";
    let insert = "INSERT INTO r.t (k, v) VALUES (1, 'x')";
    let mut clients: Vec<_> = (0..6)
        .map(|number| {
            let role = [("reader", "read"), ("writer", "write")][number % 2];
            let version = [5, 4, 3][number / 2];
            (
                role.0,
                login(role.0, role.1, version).expect("it is let in"),
            )
        })
        .collect();
    for stream in 0..ROUNDS {
        for (_, client) in &mut clients {
            for (offset, cql) in [(0, select), (ROUNDS, insert)] {
                let body = client.query_body(cql, ONE);
                client
                    .send(stream + offset, op::QUERY, &body)
                    .expect("sent");
            }
        }
    }
    for (role, client) in &mut clients {
        let mut answered = vec![false; 2 * ROUNDS as usize];
        for _ in 0..2 * ROUNDS {
            let answer = client.receive().expect("an answer");
            let stream = answer.stream as usize;
            assert!(!std::mem::replace(&mut answered[stream], true), "{role}");
            let is_read = answer.stream < ROUNDS;
            let may = is_read == (*role == "reader");
            match answer.judged().expect("an answer") {
                Ok(answer) => {
                    assert!(may, "{role} may, on stream {stream}");
                    let rows = answer.rows().expect("rows");
                    assert_eq!(rows.len(), usize::from(is_read), "{role}");
                }
                Err(fault) => {
                    assert!(!may, "{role}: {fault:?}");
                    assert_eq!(fault.code, UNAUTHORIZED, "{fault:?}");
                    assert!(fault.message.contains(*role), "{role}: {fault:?}");
                }
            }
        }
    }
}

const IN_FLIGHT_AT_ITS_END: &str = "the credentials of its role are not valid any more";

/// True if the proxy has closed a client's connection. A node may refuse meanwhile only because it does not know
/// the role any more; nothing else may be said, and an answer that does not come is no end.
pub(crate) fn has_ended(client: &mut Client<TcpStream>, cql: &str) -> bool {
    match client.try_query(cql, ONE) {
        Ok(Ok(_)) => false,
        Ok(Err(fault)) => {
            // Its link may close, too, while it is at a node.
            let is_closing = fault.message.contains(IN_FLIGHT_AT_ITS_END);
            assert!(
                is_closing || [BAD_CREDENTIALS, UNAUTHORIZED].contains(&fault.code),
                "{fault:?}"
            );
            false
        }
        Err(e) => {
            let closed = [
                ErrorKind::UnexpectedEof,
                ErrorKind::ConnectionReset,
                ErrorKind::ConnectionAborted,
                ErrorKind::BrokenPipe,
            ];
            assert!(closed.contains(&e.kind()), "{e}");
            true
        }
    }
}
