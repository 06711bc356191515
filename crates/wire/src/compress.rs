//! Compression of envelope bodies in v3 and v4 (v5 compresses frames, see [`crate::frame`]).

use crate::reader::Malformed;

/// Bytes of the uncompressed length before an LZ4 block.
const LZ4_LENGTH: usize = 4;

/// The compression that the peer asked for in STARTUP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compression {
    #[default]
    None,
    Lz4,
    Snappy,
}

/// Room that [`compress_body`] needs behind `out` for a body of so many bytes.
pub(crate) fn compressed_len_max(compression: Compression, body_len: usize) -> usize {
    match compression {
        Compression::None => body_len,
        Compression::Lz4 => LZ4_LENGTH + lz4_flex::block::get_maximum_output_size(body_len),
        Compression::Snappy => snap::raw::max_compress_len(body_len),
    }
}

/// Appends the compressed form of `body` to `out`.
pub fn compress_body(compression: Compression, body: &[u8], out: &mut Vec<u8>) {
    let room = compressed_len_max(compression, body.len());
    match compression {
        Compression::None => out.extend_from_slice(body),
        Compression::Lz4 => {
            // In the native protocol the big-endian uncompressed length comes first.
            out.extend_from_slice(&(body.len() as u32).to_be_bytes());
            append(out, room - LZ4_LENGTH, |room| {
                lz4_flex::block::compress_into(body, room).unwrap_or(0)
            });
        }
        Compression::Snappy => append(out, room, |room| {
            snap::raw::Encoder::new().compress(body, room).unwrap_or(0)
        }),
    }
}

/// The length of the uncompressed form of `body`, as it is stated there.
pub(crate) fn stated_len(compression: Compression, body: &[u8]) -> Option<u32> {
    match compression {
        Compression::None => None,
        Compression::Lz4 => body.first_chunk().map(|len| u32::from_be_bytes(*len)),
        Compression::Snappy => u32::try_from(snap::raw::decompress_len(body).ok()?).ok(),
    }
}

/// Replaces `out` with the uncompressed form of `body`, which may not exceed `len_max` bytes.
pub fn decompress_body(
    compression: Compression,
    body: &[u8],
    len_max: usize,
    out: &mut Vec<u8>,
) -> Result<(), Malformed> {
    out.clear();
    match compression {
        Compression::None => Err(Malformed(
            "a compressed body on a connection that agreed on no compression",
        )),
        Compression::Lz4 => {
            let (len, data) = body
                .split_first_chunk::<4>()
                .ok_or(Malformed("an LZ4 body is too short"))?;
            let len = u32::from_be_bytes(*len) as usize;
            lz4_block(data, len, len_max, out)
        }
        Compression::Snappy => {
            let len = snap::raw::decompress_len(body)
                .map_err(|_| Malformed("provided frame does not appear to be Snappy compressed"))?;
            check_len(len, body.len(), len_max)?;
            out.resize(len, 0);
            match snap::raw::Decoder::new().decompress(body, out) {
                Ok(n) if n == len => Ok(()),
                _ => Err(Malformed("a Snappy body does not decompress")),
            }
        }
    }
}

/// Decompresses one LZ4 block of known length into `out`.
pub(crate) fn lz4_block(
    data: &[u8],
    len: usize,
    len_max: usize,
    out: &mut Vec<u8>,
) -> Result<(), Malformed> {
    check_len(len, data.len(), len_max)?;
    out.clear();
    if len == 0 {
        return Ok(());
    }
    out.resize(len, 0);
    match lz4_flex::block::decompress_into(data, out) {
        Ok(n) if n == len => Ok(()),
        _ => Err(Malformed(
            "an LZ4 body does not decompress to its stated length",
        )),
    }
}

/// Rejects lengths that the data cannot have: neither LZ4 nor Snappy exceeds a compression ratio of
/// 255, so a few hostile bytes cannot make us reserve megabytes.
fn check_len(len: usize, compressed_len: usize, len_max: usize) -> Result<(), Malformed> {
    if len > len_max || len > compressed_len.saturating_mul(255).saturating_add(64) {
        return Err(Malformed("a compressed body states an impossible length"));
    }
    Ok(())
}

fn append(out: &mut Vec<u8>, room: usize, fill: impl FnOnce(&mut [u8]) -> usize) {
    let start = out.len();
    out.resize(start + room, 0);
    let n = fill(&mut out[start..]);
    out.truncate(start + n);
}
