//! Bytes from a peer never panic and never make us reserve more than they earn; what the encoder
//! writes, the decoder reads, however the bytes are cut.
//!
//! `HELENUS_SEED` replays a run.

use helenus_wire::{
    BatchView, Compression, Decoder, Encoder, ErrorBody, ExecuteView, Flow, HEADER_LEN, Header,
    Opcode, PrepareView, PreparedView, QueryView, RequestContext, RowsView, Version,
    convert_request, convert_response, flags, strip_prelude, write,
};

const VERSIONS: [Version; 3] = [Version::V3, Version::V4, Version::V5];
const COMPRESSIONS: [Compression; 3] = [Compression::None, Compression::Lz4, Compression::Snappy];
const BODY_LEN_MAX: usize = 1 << 20;

/// SplitMix64: enough chance for a test, without a dependency.
struct Dice(u64);

impl Dice {
    fn new() -> Dice {
        let seed = std::env::var("HELENUS_SEED")
            .ok()
            .and_then(|s| s.parse().ok())
            .unwrap_or_else(|| {
                let now = std::time::SystemTime::now();
                now.duration_since(std::time::UNIX_EPOCH)
                    .map_or(1, |d| d.as_nanos() as u64)
            });
        println!("seed {seed} (set HELENUS_SEED to replay)");
        Dice(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }

    /// Half noise, half repetition, so that compression has something to do.
    fn bytes(&mut self, len: usize) -> Vec<u8> {
        let noise = self.below(2) == 0;
        (0..len)
            .map(|i| {
                if noise {
                    self.next() as u8
                } else {
                    (i / 7) as u8
                }
            })
            .collect()
    }

    fn mutate(&mut self, bytes: &mut Vec<u8>) {
        for _ in 0..1 + self.below(4) {
            let at = self.below(bytes.len());
            match self.below(5) {
                0 if !bytes.is_empty() => bytes[at] = self.next() as u8,
                1 if !bytes.is_empty() => bytes[at] ^= 1 << self.below(8),
                2 => bytes.truncate(at),
                3 => bytes.insert(at, [0, 0xff, 0x7f, 0x80][self.below(4)]),
                _ if at + 4 <= bytes.len() => {
                    let edge = [-1i32, -2, i32::MAX, i32::MIN, 0xffff, 1 << 24][self.below(6)];
                    bytes[at..at + 4].copy_from_slice(&edge.to_be_bytes());
                }
                _ => {}
            }
        }
    }
}

fn encoder(framed: bool, compression: Compression) -> Encoder {
    let mut encoder = Encoder::new();
    encoder.set_mode(framed, compression);
    encoder
}

fn header(dice: &mut Dice, version: Version) -> Header {
    Header {
        version: version as u8,
        response: dice.below(2) == 0,
        flags: [0, flags::TRACING, flags::WARNING][dice.below(3)],
        stream: dice.next() as i16,
        opcode: dice.below(17) as u8,
        body_len: 0,
    }
}

/// Feeds everything in random pieces; returns whether the decoder found nothing wrong.
fn feed_in_pieces(
    dice: &mut Dice,
    decoder: &mut Decoder,
    bytes: &[u8],
    piece_max: usize,
    mut found: impl FnMut(Header, &[u8]),
) -> bool {
    let mut scratch = Vec::new();
    let mut rest = bytes;
    while !rest.is_empty() {
        let (piece, tail) = rest.split_at((1 + dice.below(piece_max)).min(rest.len()));
        rest = tail;
        let fed = decoder.feed(piece, &mut scratch, |header, body| {
            assert_eq!(header.body_len as usize, body.len());
            found(header, body);
            Flow::Continue
        });
        match fed {
            Ok(used) => assert_eq!(used, piece.len()),
            Err(_) => return false,
        }
    }
    true
}

#[test]
fn an_envelope_given_up_in_its_middle_is_skipped_and_what_comes_behind_it_is_read() {
    let mut dice = Dice::new();
    for framed in [false, true] {
        let version = if framed { Version::V5 } else { Version::V4 };
        let mut encoder = encoder(framed, Compression::None);
        let (long, short) = (dice.bytes(700_000), dice.bytes(100));
        let of_long = header(&mut dice, version);
        let of_short = header(&mut dice, version);
        encoder.push_slice(of_long, &long);
        encoder.push_slice(of_short, &short);
        let bytes = encoder.take_pending();
        let mut decoder = Decoder::new(BODY_LEN_MAX);
        decoder.set_mode(framed, Compression::None);
        decoder.skip_longer_than(BODY_LEN_MAX);
        let cut = 140_000 + dice.below(500_000);
        let (begun, rest) = bytes.split_at(cut);
        assert_eq!(decoder.skip_unfinished(0), None, "nothing has come");
        let none = |_: Header, _: &[u8]| panic!("nothing is complete");
        assert!(feed_in_pieces(&mut dice, &mut decoder, begun, 9_000, none));
        let given_up = decoder.skip_unfinished(0).expect("an envelope");
        assert_eq!(given_up.stream, of_long.stream);
        assert_eq!(given_up.body_len as usize, long.len());
        assert!(given_up.is_skipped(&[]) && decoder.is_skipping());
        let mut received = Vec::new();
        let take = |header: Header, body: &[u8]| received.push((header.stream, body.to_vec()));
        assert!(feed_in_pieces(&mut dice, &mut decoder, rest, 90_000, take));
        assert_eq!(received, [(of_short.stream, short)], "framed: {framed}");
        assert_eq!(decoder.buffered_len(), 0);
    }
}

#[test]
fn what_is_encoded_is_decoded_however_it_is_cut() {
    let mut dice = Dice::new();
    let edge = 128 * 1024;
    for round in 0..120 {
        let framed = round % 2 == 0;
        let compression = COMPRESSIONS[dice.below(if framed { 2 } else { 3 })];
        let version = if framed { Version::V5 } else { Version::V4 };
        let mut encoder = encoder(framed, compression);
        let mut sent = Vec::new();
        for _ in 0..1 + dice.below(6) {
            let len = match dice.below(8) {
                0 => edge - 30 + dice.below(60),
                1 => edge + dice.below(300_000),
                2 => 0,
                _ => dice.below(3_000),
            };
            let body = dice.bytes(len);
            let header = header(&mut dice, version);
            encoder.push_slice(header, &body);
            sent.push((header, body));
        }
        let bytes = encoder.take_pending();
        let mut decoder = Decoder::new(BODY_LEN_MAX);
        decoder.set_mode(framed, compression);
        let piece_max = [40_000, 100_000, 2_000_000][dice.below(3)];
        let mut received = Vec::new();
        let fine = feed_in_pieces(
            &mut dice,
            &mut decoder,
            &bytes,
            piece_max,
            |header, body| {
                received.push((header, body.to_vec()));
            },
        );
        assert!(fine, "round {round}: own bytes were refused");
        assert_eq!(received.len(), sent.len(), "round {round}");
        for ((was, body), (is, same)) in sent.iter().zip(&received) {
            let was = Header {
                body_len: body.len() as u32,
                ..*was
            };
            assert_eq!(was, *is, "round {round}");
            assert!(body == same, "round {round}: a body of {}", body.len());
        }
        assert_eq!(decoder.buffered_len(), 0, "an idle decoder keeps memory");
    }
}

#[test]
fn envelopes_that_are_sent_in_parts_arrive_whole() {
    let mut dice = Dice::new();
    let edge = 128 * 1024;
    for round in 0..24 {
        let framed = round % 2 == 0;
        let compression = COMPRESSIONS[dice.below(if framed { 2 } else { 3 })];
        let version = if framed { Version::V5 } else { Version::V4 };
        let len = [edge - 30 + dice.below(60), edge + dice.below(300_000), 100][dice.below(3)];
        let (plain, body) = (header(&mut dice, version), dice.bytes(len));
        let mut encoder = encoder(framed, compression);
        let packed = encoder.compressed(&body);
        let expected = !framed && compression != Compression::None;
        assert_eq!(packed.is_some(), expected, "round {round}");
        let mut head = plain;
        if packed.is_some() {
            head.flags |= flags::COMPRESSED;
        }
        let sent = packed.as_deref().unwrap_or(&body);
        let (mut from, mut parts) = (0, 1);
        while let Some(next) = encoder.push_part(head, sent, from) {
            assert!(next > from);
            (from, parts) = (next, parts + 1);
        }
        let part_max = edge - 1;
        assert_eq!(parts, (HEADER_LEN + sent.len()).div_ceil(part_max));
        encoder.push_slice(plain, b"behind it");
        let bytes = encoder.take_pending();
        let mut decoder = Decoder::new(BODY_LEN_MAX);
        decoder.set_mode(framed, compression);
        let mut received = Vec::new();
        let fine = feed_in_pieces(&mut dice, &mut decoder, &bytes, 40_000, |head, body| {
            received.push((head.stream, body.to_vec()));
        });
        assert!(fine, "round {round}: own bytes were refused");
        let all = [body, b"behind it".to_vec()].map(|body| (plain.stream, body));
        assert!(
            received == all,
            "round {round}: {len} bytes in {parts} parts"
        );
    }
}

#[test]
fn envelopes_share_a_frame_until_it_is_full() {
    let mut dice = Dice::new();
    let header = header(&mut dice, Version::V5);
    let mut encoder = encoder(true, Compression::None);
    for _ in 0..3 {
        encoder.push_slice(header, &[7; 100]);
    }
    assert!(!encoder.pending().is_empty());
    assert_eq!(encoder.frames(), 1);
    encoder.push_slice(header, &[7; 300_000]);
    assert!(!encoder.pending().is_empty());
    assert_eq!(encoder.frames(), 4, "three for what is larger than two");
}

#[test]
fn hostile_streams_do_not_panic_and_earn_the_memory_they_take() {
    let mut dice = Dice::new();
    let mut refused = 0;
    for round in 0..6_000 {
        let framed = dice.below(2) == 0;
        let compression = COMPRESSIONS[dice.below(3)];
        let len = dice.below(400);
        let mut bytes = if round % 4 == 0 {
            dice.bytes(len)
        } else {
            let mut encoder = encoder(framed, compression);
            for _ in 0..1 + dice.below(3) {
                let body = dice.bytes(len);
                let header = header(&mut dice, Version::V4);
                encoder.push_slice(header, &body);
            }
            encoder.take_pending()
        };
        if !bytes.is_empty() {
            dice.mutate(&mut bytes);
        }
        let mut decoder = Decoder::new(BODY_LEN_MAX);
        decoder.set_mode(framed, compression);
        let fine = feed_in_pieces(&mut dice, &mut decoder, &bytes, 200, |_, body| {
            assert!(body.len() <= BODY_LEN_MAX);
        });
        refused += usize::from(!fine);
        let earned = 4 * bytes.len() + 4096;
        assert!(
            decoder.buffered_len() <= earned,
            "{} bytes made the decoder hold {}",
            bytes.len(),
            decoder.buffered_len()
        );
    }
    assert!(refused > 500, "only {refused} streams were refused");
}

/// Bodies that are right, to be spoilt.
fn good_body(dice: &mut Dice, version: Version) -> Vec<u8> {
    let mut out = Vec::new();
    let flags = 0x3f & dice.next() as u32 & !0x08;
    match dice.below(4) {
        0 => write::long_string(&mut out, "SELECT a FROM ks.t WHERE k = ?"),
        1 => {
            write::short_bytes(&mut out, &[7; 16]);
            if version == Version::V5 {
                write::short_bytes(&mut out, &[9; 16]);
            }
        }
        2 => {
            // Rows of two columns, the second a map of a tuple.
            for n in [2, 1, 2] {
                write::i32(&mut out, n);
            }
            write::string(&mut out, "ks");
            write::string(&mut out, "t");
            write::string(&mut out, "a");
            write::u16(&mut out, 9);
            write::string(&mut out, "m");
            for id in [0x21, 0x31, 1, 9, 0x14] {
                write::u16(&mut out, id);
            }
            write::i32(&mut out, 1);
            write::bytes(&mut out, Some(&[0, 0, 0, 1]));
            write::bytes(&mut out, None);
            return out;
        }
        _ => {
            out.push(0);
            write::u16(&mut out, 1);
            out.push(0);
            write::long_string(&mut out, "DELETE FROM ks.t WHERE k = ?");
            write::u16(&mut out, 1);
            write::bytes(&mut out, Some(&[1, 2, 3, 4]));
        }
    }
    write::u16(&mut out, 4);
    match version {
        Version::V5 => write::u32(&mut out, flags),
        _ => out.push(flags as u8),
    }
    write::u16(&mut out, 1);
    write::bytes(&mut out, Some(&[1, 2, 3, 4]));
    write::i32(&mut out, 100);
    write::u16(&mut out, 8);
    write::i64(&mut out, 1);
    out
}

#[test]
fn hostile_bodies_do_not_panic_in_views_and_conversions() {
    let mut dice = Dice::new();
    let mut understood = 0;
    for round in 0..40_000 {
        let version = VERSIONS[dice.below(3)];
        let len = dice.below(200);
        let mut body = match round % 5 {
            0 => dice.bytes(len),
            _ => good_body(&mut dice, version),
        };
        if round % 5 != 1 && !body.is_empty() {
            dice.mutate(&mut body);
        }
        if let Ok(view) = QueryView::parse(&body, version) {
            understood += 1;
            let values = view.options.values;
            let _ = (values.iter().count(), values.named("x"), values.get(3));
        }
        let _ = ExecuteView::parse(&body, version);
        let _ = BatchView::parse(&body, version);
        let _ = PrepareView::parse(&body, version);
        let _ = PreparedView::parse(&body, version);
        let _ = ErrorBody::parse(&body);
        let _ = Header::parse(&body[..body.len().min(HEADER_LEN)]);
        if let Ok(view) = RowsView::parse(&body) {
            understood += 1;
            let cells: usize = view
                .rows()
                .map_while(Result::ok)
                .take(1_000)
                .map(|row| row.len())
                .sum();
            let _ = cells;
        }
        let header_flags = dice.next() as u8;
        let _ = strip_prelude(header_flags, &body);
        let Some(opcode) = Opcode::from_number(dice.below(17) as u8) else {
            continue;
        };
        let context = RequestContext {
            keyspace: (dice.below(2) == 0).then_some("ks"),
            ..RequestContext::default()
        };
        let room = 4 * body.len() + 1024;
        let mut out = Vec::new();
        let to = Version::V5;
        let _ = convert_request(opcode, header_flags, &body, version, to, context, &mut out);
        assert!(out.capacity() <= room, "a request of {} grew", body.len());
        out = Vec::new();
        let _ = convert_response(opcode, header_flags, &body, to, version, &mut out);
        assert!(out.capacity() <= room, "an answer of {} grew", body.len());
    }
    assert!(understood > 1_000, "only {understood} bodies made sense");
}

#[test]
fn blocks_that_large_messages_have_left_nearly_empty_hold_little_room() {
    let mut dice = Dice::new();
    for compression in [1, 2] {
        let mut encoder = encoder(false, COMPRESSIONS[compression]);
        for _ in 0..50 {
            encoder.push_slice(header(&mut dice, Version::V4), &vec![7; 400_000]);
        }
        let (waits, held) = (encoder.pending_len(), encoder.held_len());
        assert!(
            held <= 2 * waits + (256 << 10),
            "{waits} bytes wait in {held}"
        );
    }
}

#[test]
fn what_waits_is_held_in_at_most_twice_the_room_and_a_block() {
    const BLOCK: usize = 128 << 10;
    const MESSAGE_MAX: usize = 400_000;
    let mut dice = Dice::new();
    let mut far = 0;
    for (framed, compression) in [(false, 0), (false, 1), (false, 2), (true, 0), (true, 1)] {
        let mut encoder = encoder(framed, COMPRESSIONS[compression]);
        let version = if framed { Version::V5 } else { Version::V4 };
        let (mut larger, mut most) = (0, 0);
        let (mut all, mut got) = (Vec::new(), Vec::new());
        for round in 0..3_000 {
            // It fills, and it empties again, but seldom to the end.
            let is_filled = round / 300 % 2 == 0;
            if is_filled || dice.below(3) == 0 {
                let len = match dice.below(100) {
                    0 => MESSAGE_MAX,
                    1..20 => 32_000,
                    _ => dice.below(2_000),
                };
                larger = larger.max(len);
                let body = match dice.below(2) {
                    0 => dice.bytes(len),
                    _ => vec![7; len],
                };
                encoder.push_slice(header(&mut dice, version), &body);
                all.push(body);
            }
            if !is_filled || dice.below(4) == 0 {
                let pending = encoder.pending();
                let taken = pending.len().min(dice.below(60_000));
                got.extend_from_slice(&pending[..taken]);
                encoder.advance(taken);
            }
            let (waits, held) = (encoder.pending_len(), encoder.held_len());
            let more = 2 * BLOCK.max(larger) + 1_024;
            assert!(
                waits <= held && held <= 2 * waits + more,
                "{waits} bytes wait in {held}"
            );
            assert_eq!(waits == 0, held == 0);
            far += usize::from(most > 2 * waits + more);
            most = most.max(held);
        }
        got.extend_from_slice(&encoder.take_pending());
        assert_eq!((encoder.pending_len(), encoder.held_len()), (0, 0));
        let mut decoder = Decoder::new(BODY_LEN_MAX);
        decoder.set_mode(framed, COMPRESSIONS[compression]);
        let mut bodies = all.iter();
        let fine = feed_in_pieces(&mut dice, &mut decoder, &got, 500_000, |_, body| {
            assert_eq!(bodies.next().map(Vec::as_slice), Some(body));
        });
        assert!(fine && bodies.next().is_none());
    }
    assert!(
        far > 1_000,
        "a buffer that keeps its room would have broken the bound {far} times only"
    );
}
