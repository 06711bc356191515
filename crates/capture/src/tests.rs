use super::*;
use crate::limits::CHUNK;

mod follow;

fn select() -> Statement {
    Statement {
        text: "SELECT v FROM t WHERE k = ?".to_owned(),
        keyspace: Some("ks".to_owned()),
        kinds: kinds::READ | kinds::WHOLE,
        sent: None,
    }
}

fn request(connection: u64) -> Request {
    Request {
        connection,
        arrived_us: 1_234_567,
        opcode: 0x0A,
        class: 3,
        consistency: 6,
        serial_consistency: Some(9),
        page_size: Some(5_000),
        marks: marks::TIMESTAMP,
        batch_type: 0,
        key: Some(u64::MAX),
    }
}

const ANSWER: Answer = Answer {
    took_us: 812,
    bytes: 70_000,
    error: Some(0x1001),
};

fn start() -> Start {
    Start {
        proxy: "0.1.0".to_owned(),
        began_us: 1_700_000_000_000_000,
        wanted_us: 600_000_000,
        share_ppm: 10_000,
        has_values: true,
        classes: vec!["point".to_owned(), "scan".to_owned()],
    }
}

fn bound(statement: u32, count: usize, values: &[u8], with_bytes: bool) -> Bound<'_> {
    Bound {
        statement,
        count,
        values,
        with_bytes,
    }
}

/// A file with two chunks that define the same statement, and where its second chunk begins.
fn file() -> (Vec<u8>, usize) {
    let mut bytes = start().to_bytes();
    let mut chunk = Chunk::new(2);
    let number = chunk.define(&select());
    let mut values = Vec::new();
    push_value(&mut values, Some(b"key"), false, true);
    push_value(&mut values, None, false, true);
    push_value(&mut values, None, true, true);
    chunk.record(
        &request(7),
        Some(&ANSWER),
        [bound(number, 3, &values, true)].into_iter(),
    );
    assert_eq!(chunk.records(), 1);
    bytes.extend(chunk.into_bytes());
    let second = bytes.len();
    let mut chunk = Chunk::new(0);
    let other = Statement {
        text: "another".to_owned(),
        ..Statement::default()
    };
    chunk.define(&other);
    let number = chunk.define(&select());
    let mut sizes = Vec::new();
    push_value(&mut sizes, Some(&[0; 300]), false, false);
    chunk.record(
        &request(8),
        None,
        [bound(number, 1, &sizes, false)].into_iter(),
    );
    bytes.extend(chunk.into_bytes());
    let mark = Mark { at_us: 9, lost: 4 };
    bytes.extend(mark.to_bytes());
    let reason = Reason::Size;
    bytes.extend(End { reason, mark }.to_bytes());
    (bytes, second)
}

fn all<R: std::io::Read>(reader: &mut Reader<R>) -> Result<Vec<Recorded>, FormatError> {
    let mut found = Vec::new();
    while reader.next_chunk(|recorded| found.push(recorded))? {}
    Ok(found)
}

#[test]
fn what_is_written_is_read() {
    let (bytes, _) = file();
    let mut reader = Reader::open(&bytes[..]).expect("a capture");
    assert_eq!(*reader.start(), start());
    let found = all(&mut reader).expect("readable");
    let values = vec![Value::Bytes(b"key".to_vec()), Value::Null, Value::Unset];
    let first = Recorded {
        worker: 2,
        request: request(7),
        answer: Some(ANSWER),
        parts: vec![(0, values)],
    };
    let second = Recorded {
        worker: 0,
        request: request(8),
        answer: None,
        parts: vec![(0, vec![Value::Sized(300)])],
    };
    assert_eq!(found, [first, second]);
    // A statement has one number in the whole file.
    assert_eq!(*reader.statements()[0], select());
    let end = reader.end().expect("it has an end");
    assert_eq!((end.reason, end.mark.lost), (Reason::Size, 4));
    assert!(!reader.is_cut_off());
}

#[test]
fn a_file_that_was_cut_off_is_read_up_to_there() {
    let (bytes, second) = file();
    for length in second..bytes.len() {
        let mut reader = Reader::open(&bytes[..length]).expect("a capture");
        let found = all(&mut reader).expect("readable");
        assert!(!found.is_empty() && reader.end().is_none(), "{length}");
    }
    let mut reader = Reader::open(&bytes[..second + 7]).expect("a capture");
    assert_eq!(all(&mut reader).expect("readable").len(), 1);
    assert!(reader.is_cut_off());
}

#[test]
fn other_files_and_later_formats_are_refused() {
    let (mut bytes, _) = file();
    assert!(matches!(
        Reader::open(&b"PK\x03\x04"[..]),
        Err(FormatError::NoCapture)
    ));
    for length in [0, 3, MAGIC.len() + 1, start().to_bytes().len() - 1] {
        assert!(matches!(
            Reader::open(&bytes[..length]),
            Err(FormatError::Short)
        ));
    }
    for version in [0, VERSION + 1, 0xFF] {
        bytes[MAGIC.len()] = version;
        let other = Reader::open(&bytes[..]).err().expect("refused");
        assert!(
            other
                .to_string()
                .contains("the version of Helenus that has made it")
        );
    }
}

#[test]
fn values_can_be_left_out() {
    let mut bytes = start().to_bytes();
    let mut chunk = Chunk::new(0);
    for text in ["SELECT v FROM t WHERE k = 1", "SELECT v FROM t WHERE k = 2"] {
        let sent = Some(text.to_owned());
        let number = chunk.define(&Statement { sent, ..select() });
        let mut values = Vec::new();
        push_value(&mut values, Some(b"key"), false, true);
        let bound = bound(number, 1, &values, true);
        chunk.record(&request(1), None, [bound].into_iter());
    }
    bytes.extend(chunk.into_bytes());
    let reader = Reader::open(&bytes[..]).expect("a capture");
    let mut reader = reader.without_values();
    let found = all(&mut reader).expect("readable");
    assert_eq!(reader.statements().len(), 1);
    for one in found {
        assert_eq!(one.parts, [(0, vec![Value::Sized(3)])]);
    }
}

#[test]
fn statements_do_not_fill_the_memory() {
    let mut bytes = start().to_bytes();
    for number in 0..100 {
        let mut chunk = Chunk::new(0);
        chunk.define(&Statement {
            text: format!("{}{number}", "x".repeat(10_000)),
            ..Statement::default()
        });
        bytes.extend(chunk.into_bytes());
    }
    let mut reader = Reader::open(&bytes[..]).expect("a capture");
    reader.statement_bytes_max = 300_000;
    let refused = all(&mut reader).expect_err("too much");
    assert!(
        matches!(refused, FormatError::TooManyStatements),
        "{refused}"
    );
    assert!((20..30).contains(&reader.statements().len()));
}

#[test]
fn what_no_capture_has_is_refused() {
    let late = Request {
        arrived_us: u64::MAX,
        ..request(1)
    };
    let mut bytes = start().to_bytes();
    let mut chunk = Chunk::new(0);
    let number = chunk.define(&select());
    chunk.record(&late, None, [bound(number, 0, &[], false)].into_iter());
    bytes.extend(chunk.into_bytes());
    let mut reader = Reader::open(&bytes[..]).expect("a capture");
    assert!(matches!(all(&mut reader), Err(FormatError::Malformed(_))));
    // A value of 4 GiB that has no bytes.
    let mut bytes = start().to_bytes();
    let mut chunk = Chunk::new(0);
    let number = chunk.define(&select());
    let mut values = Vec::new();
    crate::numbers::varint(&mut values, u64::from(u32::MAX));
    chunk.record(
        &request(1),
        None,
        [bound(number, 1, &values, false)].into_iter(),
    );
    bytes.extend(chunk.into_bytes());
    let mut reader = Reader::open(&bytes[..]).expect("a capture");
    assert!(matches!(all(&mut reader), Err(FormatError::Malformed(_))));
}

/// The bytes as the first format has them: without checksums.
fn of_first_format(bytes: &[u8]) -> Vec<u8> {
    let head = MAGIC.len();
    let mut old = [&bytes[..head], &[1]].concat();
    let mut rest = &bytes[head + 1..];
    while let Some((kind_and_length, behind)) = rest.split_first_chunk::<5>() {
        let length = kind_and_length[1..].first_chunk().expect("four bytes");
        let length = u32::from_le_bytes(*length) as usize;
        old.extend(kind_and_length);
        old.extend(&behind[8..8 + length]);
        rest = &behind[8 + length..];
    }
    old
}

#[test]
fn files_of_the_first_format_are_read() {
    let (bytes, _) = file();
    let old_bytes = of_first_format(&bytes);
    let mut old = Reader::open(&old_bytes[..]).expect("a capture");
    let mut new = Reader::open(&bytes[..]).expect("a capture");
    assert_eq!(old.start(), new.start());
    let found = all(&mut old).expect("readable");
    assert_eq!(found, all(&mut new).expect("readable"));
    assert_eq!(found.len(), 2);
    assert_eq!((old.end(), old.is_cut_off()), (new.end(), false));
}

#[test]
fn damage_is_told_as_damage() {
    let (bytes, _) = file();
    for at in MAGIC.len() + 1..bytes.len() {
        for flipped in [0x01, 0x80, 0xFF] {
            let mut damaged = bytes.clone();
            damaged[at] ^= flipped;
            let outcome = Reader::open(&damaged[..]).and_then(|mut reader| all(&mut reader));
            let refused = outcome.expect_err("it has changed");
            assert!(
                refused.to_string().contains("has changed")
                    || refused.to_string().contains("have changed"),
                "{refused} at {at}"
            );
        }
    }
}

#[test]
fn damaged_files_of_the_first_format_never_panic() {
    let (bytes, _) = file();
    let bytes = of_first_format(&bytes);
    for at in MAGIC.len() + 1..bytes.len() {
        for flipped in [0x01, 0x80, 0xFF] {
            let mut damaged = bytes.clone();
            damaged[at] ^= flipped;
            if let Ok(mut reader) = Reader::open(&damaged[..]) {
                // Right, wrong or refused, but it ends.
                let _ = all(&mut reader);
            }
        }
    }
}

#[test]
fn an_announced_length_reserves_no_memory() {
    let of_checksums = {
        let mut head = [0; framing::HEAD];
        framing::complete(&mut head, CHUNK);
        head[1..5].fill(0xFF);
        let checksum = crc32fast::hash(&head[..9]);
        head[9..].copy_from_slice(&checksum.to_le_bytes());
        [start().to_bytes(), head.to_vec()].concat()
    };
    let of_none = [
        of_first_format(&start().to_bytes()),
        vec![CHUNK, 0xFF, 0xFF, 0xFF, 0xFF],
    ]
    .concat();
    for bytes in [of_checksums, of_none] {
        let mut reader = Reader::open(&bytes[..]).expect("a capture");
        let refused = all(&mut reader).expect_err("too long");
        assert!(refused.to_string().contains("too long"), "{refused}");
    }
}

#[test]
fn long_texts_are_cut_and_cannot_be_played() {
    let long = Statement {
        text: "ü".repeat(TEXT_BYTES_MAX),
        kinds: kinds::READ | kinds::WHOLE,
        ..Statement::default()
    };
    let cut = long.bounded();
    assert!(cut.text.len() <= TEXT_BYTES_MAX);
    assert_eq!(cut.kinds, kinds::READ);
    assert_eq!(select().bounded(), select());
}
