use std::sync::Arc;

use helenus_wire::{Decoder, Flow, Opcode, flags};

use super::*;
use crate::memory::{Ledger, Memory};

/// Numbers from a seed; no better ones are needed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % n as u64) as usize
    }
}

fn header(framed: bool, stream: usize) -> Header {
    Header {
        version: if framed { 5 } else { 4 },
        response: true,
        flags: 0,
        stream: stream as i16,
        opcode: Opcode::Result as u8,
        body_len: 0,
    }
}

fn body(stream: usize, len: usize) -> Vec<u8> {
    (0..len)
        .map(|at| (at * 7 + at / 251 + stream) as u8)
        .collect()
}

fn push_large(outbox: &mut Outbox, header: Header, body: Vec<u8>, ledger: &Rc<Ledger>) {
    let (flags, body) = match outbox.compressed(&body) {
        Some(compressed) => (flags::COMPRESSED, compressed),
        None => (0, body),
    };
    outbox.push_large(Header { flags, ..header }, SharedBody::new(body, ledger));
}

/// Reads what is written to the end.
fn drain(outbox: &mut Outbox, decoder: &mut Decoder) -> Vec<(usize, Vec<u8>)> {
    let (mut got, mut scratch) = (Vec::new(), Vec::new());
    loop {
        let bytes = outbox.pending().to_vec();
        if bytes.is_empty() {
            return got;
        }
        outbox.advance(bytes.len());
        let used = decoder.feed(&bytes, &mut scratch, |header, body| {
            got.push((header.stream as usize, body.to_vec()));
            Flow::Continue
        });
        assert_eq!(used.unwrap(), bytes.len());
    }
}

#[test]
fn every_answer_arrives_whole_in_every_dialect_however_much_the_socket_takes() {
    let seed = std::env::var("HELENUS_SEED").map_or(0x5EED, |s| s.parse().expect("a number"));
    println!("HELENUS_SEED={seed}");
    let mut dice = Dice(seed | 1);
    let dialects = [
        (false, Compression::None),
        (false, Compression::Lz4),
        (false, Compression::Snappy),
        (true, Compression::None),
        (true, Compression::Lz4),
    ];
    for (framed, compression) in dialects {
        let ledger = Ledger::new(Arc::new(Memory::default()), usize::MAX);
        let mut outbox = Outbox::new();
        outbox.set_mode(framed, compression);
        let mut decoder = Decoder::new(256 << 20);
        decoder.set_mode(framed, compression);
        let (mut sent, mut got, mut scratch) = (0, vec![0; 150], Vec::new());
        while sent < got.len() || !outbox.is_empty() {
            if sent < got.len() && dice.below(3) > 0 {
                let len = [0, 1, 100, 5_000, 40_000, 131_062, 131_071, 400_000][dice.below(8)];
                let header = header(framed, sent);
                match len >= LARGE {
                    true => push_large(&mut outbox, header, body(sent, len), &ledger),
                    false => outbox.push(header, &body(sent, len)),
                }
                sent += 1;
            }
            let pending = outbox.pending();
            let taken = pending.len().min(1 + dice.below(200_000));
            let bytes = pending[..taken].to_vec();
            outbox.advance(taken);
            decoder
                .feed(&bytes, &mut scratch, |header, found| {
                    let stream = header.stream as usize;
                    assert!(found == body(stream, found.len()), "{stream}");
                    got[stream] += 1;
                    Flow::Continue
                })
                .unwrap();
        }
        assert!(
            got.iter().all(|times| *times == 1),
            "{framed} {compression:?}"
        );
        assert_eq!((outbox.len(), ledger.held()), (0, 0));
    }
}

/// The streams in the order in which their answers arrive.
fn order_of(outbox: &mut Outbox) -> Vec<usize> {
    let got = drain(outbox, &mut Decoder::new(256 << 20));
    got.iter().map(|(stream, _)| *stream).collect()
}

fn push_page(outbox: &mut Outbox, ledger: &Rc<Ledger>, stream: usize, len: usize) {
    push_large(outbox, header(false, stream), body(stream, len), ledger);
}

#[test]
fn small_answers_go_before_a_large_one_but_not_for_ever() {
    let ledger = Ledger::new(Arc::new(Memory::default()), usize::MAX);
    let mut outbox = Outbox::new();
    let (page, small) = (300_000, 10_000);
    push_page(&mut outbox, &ledger, 0, page);
    assert_eq!(outbox.copied_len(), 0);
    let number = 3 * page / small;
    for stream in 1..=number {
        outbox.push(header(false, stream), &body(stream, small));
    }
    let order = order_of(&mut outbox);
    let at = order.iter().position(|stream| *stream == 0).unwrap();
    assert_eq!(order.len(), number + 1);
    assert!(at <= page / small && at + 1 >= page / small, "{at}");
}

#[test]
fn the_smallest_of_large_answers_goes_first() {
    let ledger = Ledger::new(Arc::new(Memory::default()), usize::MAX);
    let mut outbox = Outbox::new();
    for (stream, len) in [(0, 900_000), (1, 400_000), (2, 50_000), (3, 400_000)] {
        push_page(&mut outbox, &ledger, stream, len);
    }
    outbox.push(header(false, 4), &body(4, 100));
    assert_eq!(order_of(&mut outbox), [4, 2, 1, 3, 0]);
}

#[test]
fn a_large_answer_is_overtaken_by_as_much_as_it_has_itself() {
    let ledger = Ledger::new(Arc::new(Memory::default()), usize::MAX);
    let mut outbox = Outbox::new();
    let (largest, page) = (2_000_000, 50_000);
    push_page(&mut outbox, &ledger, 0, largest);
    let mut decoder = Decoder::new(256 << 20);
    let mut scratch = Vec::new();
    let (mut stream, mut before) = (0, 0);
    let mut is_there = false;
    while !is_there {
        // There is always a smaller one.
        stream += 1;
        push_page(&mut outbox, &ledger, stream, page);
        let bytes = outbox.pending().to_vec();
        outbox.advance(bytes.len());
        let fed = decoder.feed(&bytes, &mut scratch, |header, body| {
            is_there |= header.stream == 0;
            before += body.len();
            Flow::Continue
        });
        assert_eq!(fed.unwrap(), bytes.len());
        assert!(before <= 2 * largest + 2 * page, "{before}");
    }
    assert!(before >= 2 * largest, "{before}");
}

#[test]
fn small_answers_wait_for_one_of_those_that_are_overdue() {
    let ledger = Ledger::new(Arc::new(Memory::default()), usize::MAX);
    let mut outbox = Outbox::new();
    let small = OVERTAKE_MIN / 8;
    for stream in 0..4 {
        push_page(&mut outbox, &ledger, stream, LARGE);
    }
    // All are overdue after these.
    for stream in 4..20 {
        outbox.push(header(false, stream), &body(stream, small - 1));
    }
    outbox.push(header(false, 20), &body(20, 1));
    let order = order_of(&mut outbox);
    assert_eq!(order.len(), 21);
    let at = |stream| order.iter().position(|found| *found == stream).unwrap();
    let turns = [at(0), at(20), at(1), at(2), at(3)];
    assert!(at(0) < 10 && turns.is_sorted(), "{order:?}");
}

#[test]
fn a_page_for_many_clients_is_held_once() {
    let memory = Arc::new(Memory::default());
    let ledger = Ledger::new(memory.clone(), usize::MAX);
    let page = SharedBody::new(body(0, 5_000_000), &ledger);
    let mut clients: Vec<Outbox> = (0..300)
        .map(|_| {
            let mut outbox = Outbox::new();
            outbox.set_mode(true, Compression::None);
            outbox.push_large(header(true, 1), page.clone());
            outbox
        })
        .collect();
    drop(page);
    let mut copied = 0;
    for outbox in &mut clients {
        assert_eq!(outbox.len(), 5_000_000);
        outbox.pending();
        copied += outbox.copied_len();
    }
    assert!(copied < 300 * 140_000, "{copied}");
    assert_eq!(memory.held(), 5_000_000);
    clients.clear();
    assert_eq!(memory.held(), 0);
}
