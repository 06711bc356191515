use super::*;
use crate::limits::CHUNK;

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
        [(number, 3, &values[..])].into_iter(),
        true,
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
        [(number, 1, &sizes[..])].into_iter(),
        false,
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
    // The same statement has one number in the whole file.
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
    assert!(matches!(
        Reader::open(&b""[..]),
        Err(FormatError::NoCapture)
    ));
    bytes[MAGIC.len()] = VERSION + 1;
    let newer = Reader::open(&bytes[..]).err().expect("refused");
    assert!(newer.to_string().contains("use a newer one"), "{newer}");
}

#[test]
fn damaged_files_never_panic() {
    let (bytes, _) = file();
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
    let mut bytes = start().to_bytes();
    bytes.extend([CHUNK, 0xFF, 0xFF, 0xFF, 0xFF]);
    let mut reader = Reader::open(&bytes[..]).expect("a capture");
    assert!(matches!(all(&mut reader), Err(FormatError::Malformed(_))));
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
