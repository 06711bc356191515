//! v5 frames: a CRC-checked container of up to 128 KiB for many envelopes or a part of a large one.
//!
//! ```text
//! uncompressed: 17-bit length, self-contained bit, padding | CRC24 | payload | CRC32
//! LZ4:          17-bit compressed length, 17-bit uncompressed length, bit | CRC24 | payload | CRC32
//! ```
//! All integers are little-endian. Source: `native_protocol_v5.spec`, section 2.

use crate::compress::lz4_block;
use crate::reader::Malformed;

/// The largest payload of a frame, in bytes.
pub const PAYLOAD_MAX: usize = (1 << 17) - 1;
/// Header bytes of an uncompressed frame.
pub const HEADER_LEN: usize = 6;
/// Header bytes of a frame on a connection with LZ4.
pub const HEADER_LEN_LZ4: usize = 8;
/// Bytes of the CRC32 after the payload.
pub const TRAILER_LEN: usize = 4;

const CRC24_INIT: u32 = 0x0087_5060;
const CRC24_POLYNOMIAL: u32 = 0x0197_4F0B;
const CRC32_PREFIX: [u8; 4] = [0xFA, 0x2D, 0x55, 0xCA];

const CRC24_TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = (byte as u32) << 16;
        let mut bit = 0;
        while bit < 8 {
            crc <<= 1;
            if crc & 0x0100_0000 != 0 {
                crc ^= CRC24_POLYNOMIAL;
            }
            bit += 1;
        }
        table[byte] = crc & 0x00FF_FFFF;
        byte += 1;
    }
    table
};

/// The frame header's CRC24.
pub fn crc24(bytes: &[u8]) -> u32 {
    let mut crc = CRC24_INIT;
    for byte in bytes {
        let index = ((crc >> 16) ^ u32::from(*byte)) & 0xFF;
        crc = ((crc << 8) & 0x00FF_FFFF) ^ CRC24_TABLE[index as usize];
    }
    crc
}

/// CRC32 of a payload, which Cassandra starts with four fixed bytes.
pub fn crc32(payload: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&CRC32_PREFIX);
    hasher.update(payload);
    hasher.finalize()
}

/// The header of an uncompressed frame.
pub fn header(payload_len: usize, self_contained: bool) -> [u8; HEADER_LEN] {
    debug_assert!(payload_len <= PAYLOAD_MAX);
    let bits = payload_len as u32 | u32::from(self_contained) << 17;
    let b = bits.to_le_bytes();
    let c = crc24(&b[..3]).to_le_bytes();
    [b[0], b[1], b[2], c[0], c[1], c[2]]
}

/// The header of a frame on an LZ4 connection. `plain_len` is 0 if the payload is not compressed.
pub fn header_lz4(
    stored_len: usize,
    plain_len: usize,
    self_contained: bool,
) -> [u8; HEADER_LEN_LZ4] {
    debug_assert!(stored_len <= PAYLOAD_MAX && plain_len <= PAYLOAD_MAX);
    let bits = stored_len as u64 | (plain_len as u64) << 17 | u64::from(self_contained) << 34;
    let b = bits.to_le_bytes();
    let c = crc24(&b[..5]).to_le_bytes();
    [b[0], b[1], b[2], b[3], b[4], c[0], c[1], c[2]]
}

/// One frame found at the start of some bytes.
#[derive(Debug)]
pub struct Frame<'a> {
    pub payload: &'a [u8],
    pub self_contained: bool,
    /// Bytes of the whole frame on the wire.
    pub wire_len: usize,
}

/// Finds the frame at the start of `bytes`; `None` until it is complete. With `lz4`, a compressed
/// payload is decompressed into `scratch`.
pub fn parse<'a>(
    bytes: &'a [u8],
    lz4: bool,
    scratch: &'a mut Vec<u8>,
) -> Result<Option<Frame<'a>>, Malformed> {
    let header_len = if lz4 { HEADER_LEN_LZ4 } else { HEADER_LEN };
    if bytes.len() < header_len {
        return Ok(None);
    }
    let mut bits = [0; 8];
    bits[..header_len].copy_from_slice(&bytes[..header_len]);
    let bits = u64::from_le_bytes(bits);
    let (crc_at, stored_len, plain_len, self_contained) = if lz4 {
        (
            5,
            bits & 0x1FFFF,
            (bits >> 17) & 0x1FFFF,
            bits >> 34 & 1 == 1,
        )
    } else {
        (3, bits & 0x1FFFF, 0, bits >> 17 & 1 == 1)
    };
    let crc = u32::from_le_bytes([bytes[crc_at], bytes[crc_at + 1], bytes[crc_at + 2], 0]);
    if crc != crc24(&bytes[..crc_at]) {
        return Err(Malformed("a frame header fails its CRC24"));
    }
    let (stored_len, plain_len) = (stored_len as usize, plain_len as usize);
    let wire_len = header_len + stored_len + TRAILER_LEN;
    if bytes.len() < wire_len {
        return Ok(None);
    }
    let (stored, trailer) = bytes[header_len..wire_len].split_at(stored_len);
    if crc32(stored).to_le_bytes() != trailer {
        return Err(Malformed("a frame payload fails its CRC32"));
    }
    let payload = if plain_len > 0 {
        lz4_block(stored, plain_len, PAYLOAD_MAX, scratch)?;
        scratch.as_slice()
    } else {
        stored
    };
    Ok(Some(Frame {
        payload,
        self_contained,
        wire_len,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Worked out bit by bit from the specification, not by this code: whoever writes and reads by it alone would not
    /// notice an error in both.
    #[test]
    fn a_frame_is_these_bytes() {
        let payload = [4, 0, 0, 1, 5, 0, 0, 0, 0];
        let head = [0x09, 0x00, 0x02, 0xa4, 0xc8, 0xc1];
        let trailer = [0xf6, 0x41, 0x0f, 0x91];
        assert_eq!(header(payload.len(), true), head);
        assert_eq!(crc32(&payload).to_le_bytes(), trailer);
        let bytes = [&head[..], &payload, &trailer].concat();
        let mut scratch = Vec::new();
        let frame = parse(&bytes, false, &mut scratch);
        let frame = frame.expect("whole").expect("complete");
        assert!(frame.self_contained && frame.payload == payload && frame.wire_len == bytes.len());
    }
}
