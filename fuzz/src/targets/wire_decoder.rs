//! Bytes of a socket, in one piece and in two; the first byte chooses framing, compression and the cut.
use helenus_wire::{Compression, Decoder, Flow};

pub fn run(data: &[u8]) {
    let Some((choice, bytes)) = data.split_first() else {
        return;
    };
    let compression = match choice >> 1 & 3 {
        0 => Compression::Lz4,
        1 => Compression::Snappy,
        _ => Compression::None,
    };
    let decoded = |parts: &[&[u8]]| {
        let mut decoder = Decoder::new(1 << 20);
        decoder.set_mode(choice & 1 != 0, compression);
        let (mut scratch, mut envelopes) = (Vec::new(), Vec::new());
        for part in parts {
            let fed = decoder.feed(part, &mut scratch, |header, body| {
                assert_eq!(header.body_len as usize, body.len());
                envelopes.push((header.stream, body.to_vec()));
                Flow::Continue
            });
            if fed.is_err() {
                return (envelopes, false);
            }
        }
        (envelopes, true)
    };
    let (first, second) = bytes.split_at(usize::from(choice >> 3).min(bytes.len()));
    assert_eq!(decoded(&[bytes]), decoded(&[first, second]));
}
