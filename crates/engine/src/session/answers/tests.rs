//! Answers to clients while little memory is left.

use std::net::SocketAddr;
use std::time::Duration;

use helenus_wire::{Compression, Decoder, Flow, Opcode, Version, code};

use crate::config::Config;
use crate::keys::SessionKey;
use crate::output::{Outgoing, Sent, Then};
use crate::session::connection::Next;
use crate::testing::bench::{Asking, Bench, Spec, VARCHAR, rows};
use crate::testing::take;

const V4: Version = Version::V4;
const COLUMNS: [Spec; 1] = [("status", VARCHAR)];
const READ: &str = "SELECT status FROM app.others WHERE customer = 1";
const WRITE: &str = "INSERT INTO app.others (customer, x) VALUES (1, 2)";
const MIB: usize = 1 << 20;

fn bench(set: impl FnOnce(&mut Config)) -> Bench {
    let mut config = Config::default();
    config.assignment.hedging = false;
    set(&mut config);
    Bench::with(config, (V4, V4))
}

fn ask(bench: &mut Bench, client: SessionKey, stream: i16, text: &str) {
    let query = Asking::default().query(V4, text);
    bench.ask_as(client, Opcode::Query, stream, &query);
}

/// A page of one row with so many bytes.
fn page(bytes: usize) -> Vec<u8> {
    rows("others", &COLUMNS, None, &[&vec![b'x'; bytes]])
}

/// How many of a client's answers are results, and how many errors of full memory. It reads all.
fn read_all(bench: &mut Bench, client: SessionKey, compression: Compression) -> (usize, usize) {
    let Some(outbox) = bench.engine.client_bytes(client) else {
        return (0, 0);
    };
    let (bytes, sent) = take(outbox);
    bench.engine.on_client_sent(bench.now, client, sent);
    let mut decoder = Decoder::new(256 * MIB);
    decoder.set_mode(false, compression);
    let mut found = (0, 0);
    let fed = decoder.feed(&bytes, &mut Vec::new(), |header, body| {
        match header.opcode == Opcode::Error as u8 {
            true => {
                assert_eq!(body[..4], code::OVERLOADED.to_be_bytes());
                found.1 += 1;
            }
            false => found.0 += 1,
        }
        Flow::Continue
    });
    assert_eq!(fed, Ok(bytes.len()));
    found
}

/// The client takes a few bytes, and then its socket has no room.
fn read_some(bench: &mut Bench, client: SessionKey) -> Vec<u8> {
    let outbox = bench.engine.client_bytes(client).expect("a client");
    let len = outbox.pending().len().min(4096);
    let taken = outbox.pending()[..len].to_vec();
    outbox.advance(len);
    let sent = Sent {
        writes: 1,
        bytes: len as u64,
        then: Then::Blocked,
    };
    bench.engine.on_client_sent(bench.now, client, sent);
    taken
}

/// The client's socket takes nothing.
fn block(bench: &mut Bench, client: SessionKey) {
    let outbox = bench.engine.client_bytes(client).expect("a client");
    assert!(!outbox.pending().is_empty());
    let then = Then::Blocked;
    let sent = Sent {
        writes: 0,
        bytes: 0,
        then,
    };
    bench.engine.on_client_sent(bench.now, client, sent);
}

/// Requests on streams from 1 on are one read at the node, which answers with a page of so many bytes.
fn share(bench: &mut Bench, clients: &[SessionKey], each: i16, bytes: usize) {
    for client in clients {
        for stream in 1..=each {
            ask(bench, *client, stream, READ);
        }
    }
    let (_, stream, _) = bench.one_at_node();
    bench.say(Opcode::Result, stream, &page(bytes));
}

#[test]
fn copies_of_a_shared_answer_are_refused_when_the_memory_is_full() {
    let mut bench = bench(|config| config.limits.memory_max = Some(16 * MIB));
    let clients = [bench.client, bench.another("b"), bench.another("c")];
    for ready in clients {
        read_all(&mut bench, ready, Compression::None);
    }
    share(&mut bench, &clients, 1_000, 30_000);
    assert!(bench.engine.bytes_held() <= 17 * MIB);
    let mut all = (0, 0);
    for client in clients {
        let (results, refused) = read_all(&mut bench, client, Compression::None);
        all = (all.0 + results, all.1 + refused);
    }
    assert_eq!(all.0 + all.1, 3_000);
    assert!((500..600).contains(&all.0), "{all:?}");
    assert_eq!(bench.engine.bytes_held(), 0);
}

#[test]
fn the_tables_of_the_proxies_count_like_any_other_answer() {
    let mut bench = bench(|config| {
        config.limits.memory_max = Some(16 * MIB);
        let other = |last| SocketAddr::from(([10, 1, 0, last], 9042));
        config.listen.proxies = (1..=250).map(other).collect();
    });
    bench.show_peers(&["peer", "peer_port", "rack"]);
    let client = bench.client;
    let asked: usize = 10_000;
    for at in 0..asked {
        let stream = (at % 256) as i16;
        ask(&mut bench, client, stream, "SELECT * FROM system.peers_v2");
    }
    let held = bench.engine.bytes_held();
    assert!(held < 16 * MIB + asked * 300, "{held}");
    let (results, refused) = read_all(&mut bench, client, Compression::None);
    assert_eq!(results + refused, asked);
    assert!(results > 0 && refused > 0, "{results} {refused}");
    assert_eq!(bench.engine.bytes_held(), 0);
}

#[test]
fn a_write_that_was_carried_out_is_answered_so_however_full_the_memory_is() {
    let mut bench = bench(|config| config.limits.memory_max = Some(16 * MIB));
    let client = bench.client;
    ask(&mut bench, client, 7, WRITE);
    let (_, write, _) = bench.one_at_node();
    share(&mut bench, &[client], 1_000, 30_000);
    assert!(bench.engine.cx().memory.is_full(10_000));
    bench.say(Opcode::Result, write, &1_i32.to_be_bytes());
    let answers = bench.answers();
    let void = (Opcode::Result, 7, 1_i32.to_be_bytes().to_vec());
    assert!(answers.contains(&void));
}

#[test]
fn a_shared_answer_is_compressed_once_for_all_that_get_it_so() {
    let mut bench = bench(|config| config.limits.memory_max = Some(64 * MIB));
    let compressing: Vec<SessionKey> = (0..4)
        .map(|_| bench.another_with(("COMPRESSION", "lz4")))
        .collect();
    for client in &compressing {
        read_all(&mut bench, *client, Compression::None);
    }
    for client in &compressing {
        for stream in 1..=100 {
            ask(&mut bench, *client, stream, READ);
        }
    }
    let (_, stream, _) = bench.one_at_node();
    // It does not become shorter.
    let mut noise = 1_u64;
    let value: Vec<u8> = std::iter::repeat_with(|| {
        noise = noise
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (noise >> 56) as u8
    })
    .take(MIB)
    .collect();
    let page = rows("others", &COLUMNS, None, &[&value]);
    bench.say(Opcode::Result, stream, &page);
    let held = bench.engine.bytes_held();
    assert!(held < 3 * MIB, "{held}");
    for client in compressing {
        assert_eq!(read_all(&mut bench, client, Compression::Lz4), (100, 0));
    }
    assert_eq!(bench.engine.bytes_held(), 0);
}

#[test]
fn a_client_that_reads_is_not_cut_however_much_is_due_to_it() {
    let mut bench = bench(|config| config.limits.client_backlog_bytes_max = MIB);
    let client = bench.client;
    share(&mut bench, &[client], 20, 300_000);
    let mut seen = Vec::new();
    for _ in 0..10 {
        seen.extend(read_some(&mut bench, client));
        bench.wait(Duration::from_secs(3));
        let next = bench.engine.next_for_client(bench.now, client);
        assert_eq!(next, Some(Next::Wait), "nothing more is read from it");
    }
    assert_eq!(seen.len(), 10 * 4096);
    let outbox = bench.engine.client_bytes(client).expect("a client");
    seen.extend(take(outbox).0);
    assert!(seen.len() > 20 * 300_000);
}

#[test]
fn a_client_that_reads_is_cut_if_too_much_is_due_to_it_while_the_memory_is_full() {
    let mut bench = bench(|config| {
        config.limits.client_backlog_bytes_max = MIB;
        config.limits.memory_max = Some(16 * MIB);
    });
    let [greedy, modest] = [bench.client, bench.another("b")];
    for client in [greedy, modest] {
        read_all(&mut bench, client, Compression::None);
    }
    share(&mut bench, &[modest], 1, 9_000);
    for stream in 1..=20 {
        ask(&mut bench, greedy, stream, READ);
        if let [(_, at_node, _)] = bench.at_node()[..] {
            bench.say(Opcode::Result, at_node, &page(MIB));
        }
    }
    assert!(bench.engine.cx().memory.is_full(MIB));
    for client in [greedy, modest] {
        read_some(&mut bench, client);
    }
    bench.wait(Duration::from_millis(200));
    let next = |bench: &mut Bench, client| bench.engine.next_for_client(bench.now, client);
    assert_eq!(next(&mut bench, greedy), Some(Next::Close));
    assert_ne!(next(&mut bench, modest), Some(Next::Close));
}

#[test]
fn one_client_gets_a_quarter_of_a_small_account_to_leave_unread() {
    for (due, is_cut) in [(3, false), (5, true)] {
        // The setting alone would let it have all of it.
        let mut bench = bench(|config| config.limits.memory_max = Some(16 * MIB));
        let client = bench.client;
        share(&mut bench, &[client], 1, due * MIB);
        read_some(&mut bench, client);
        bench.wait(Duration::from_secs(6));
        let next = bench.engine.next_for_client(bench.now, client);
        assert_eq!(next == Some(Next::Close), is_cut, "{due} MiB: {next:?}");
    }
}

#[test]
fn a_client_to_which_too_much_is_due_is_cut_once_it_stands_still() {
    let mut bench = bench(|config| config.limits.client_backlog_bytes_max = MIB);
    let client = bench.client;
    share(&mut bench, &[client], 20, 300_000);
    block(&mut bench, client);
    bench.wait(Duration::from_secs(6));
    let next = bench.engine.next_for_client(bench.now, client);
    assert_eq!(next, Some(Next::Close));
}

#[test]
fn nothing_is_read_from_a_client_while_much_is_due_to_it_even_before_it_is_written() {
    let mut bench = bench(|_| {});
    let client = bench.client;
    share(&mut bench, &[client], 100, 30_000);
    let next = bench.engine.next_for_client(bench.now, client);
    assert_eq!(next, Some(Next::Wait));
    assert!(bench.engine.is_client_held(client));
    assert_eq!(read_all(&mut bench, client, Compression::None), (100, 0));
    let next = bench.engine.next_for_client(bench.now, client);
    assert_eq!(next, Some(Next::Read { leaving: false }));
}
