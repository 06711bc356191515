use super::*;
use crate::framing::{HEAD, complete};

/// Events of bytes that come in pieces.
fn followed<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> Result<Vec<Event>, FormatError> {
    let (mut follower, mut events) = (Follower::default(), Vec::new());
    for piece in pieces {
        follower.handle_bytes(piece);
        while let Some(event) = follower.poll_event()? {
            events.push(event);
        }
    }
    Ok(events)
}

#[test]
fn what_comes_in_pieces_is_read_as_the_whole_is() {
    let (bytes, _) = file();
    let mut reader = Reader::open(&bytes[..]).expect("a capture");
    let whole = all(&mut reader).expect("readable");
    let sizes = [1, 2, 7, bytes.len()];
    let formats = [&bytes, &of_first_format(&bytes)];
    for (size, bytes) in sizes
        .iter()
        .flat_map(|size| formats.map(|bytes| (*size, bytes)))
    {
        let events = followed(bytes.chunks(size)).expect("readable");
        let [
            Event::Start(started),
            Event::Chunk { requests: one, .. },
            Event::Chunk {
                statements,
                requests: other,
            },
            Event::Mark(mark),
            Event::End(end),
        ] = &events[..]
        else {
            panic!("{events:?}");
        };
        assert_eq!((started, mark.lost), (&start(), 4));
        assert_eq!((end.reason, end.mark), (Reason::Size, *mark));
        assert_eq!(one[..], whole[..1]);
        // The number is one of the chunk.
        assert_eq!(other[0].parts[0].0, 1);
        assert_eq!(statements[1], select());
        assert_eq!(other[0].parts[0].1, whole[1].parts[0].1);
    }
}

#[test]
fn blocks_of_later_versions_are_passed_over_and_nothing_is_kept() {
    let mut follower = Follower::default();
    follower.handle_bytes(&start().to_bytes());
    assert!(matches!(follower.poll_event(), Ok(Some(Event::Start(_)))));
    for _ in 0..1_000 {
        let mut block = vec![0; HEAD + 3];
        complete(&mut block, 99);
        follower.handle_bytes(&block);
        assert_eq!(follower.poll_event().expect("passed over"), None);
        assert!(follower.held() <= block.len());
    }
}

#[test]
fn what_is_no_capture_is_refused_at_once() {
    let refused = |bytes: &[u8]| followed(bytes.chunks(3)).expect_err("refused");
    let (bytes, _) = file();
    assert!(matches!(
        refused(b"HTTP/1.1 200 OK"),
        FormatError::NoCapture
    ));
    let mut later = bytes.clone();
    later[MAGIC.len()] = VERSION + 1;
    assert!(matches!(refused(&later), FormatError::OtherVersion(_)));
    let mut headless = bytes[..MAGIC.len() + 1].to_vec();
    headless.extend(Mark::default().to_bytes());
    assert!(matches!(refused(&headless), FormatError::Malformed(_)));
    let mut long = start().to_bytes();
    long = of_first_format(&long);
    long.extend([CHUNK, 0xFF, 0xFF, 0xFF, 0xFF]);
    assert!(matches!(refused(&long), FormatError::Malformed(_)));
    for at in MAGIC.len() + 1..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0xFF;
        let error = followed(damaged.chunks(5)).expect_err("it has checksums");
        assert!(matches!(error, FormatError::Malformed(_)), "{at}: {error}");
    }
}
