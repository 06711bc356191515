//! The head of a block: its kind, its length, and CRC-32 of its bytes and of the head before it. The second one tells
//! a damaged length from a file that was cut off.

use crate::error::FormatError;
use crate::limits::BLOCK_BYTES_MAX;

/// Bytes of a head.
pub(crate) const HEAD: usize = 13;
/// In the first format, which has no checksums.
const HEAD_WITHOUT: usize = 5;

/// Completes a block: what is behind the place for its head are its bytes.
pub(crate) fn complete(block: &mut [u8], kind: u8) {
    let Some((head, bytes)) = block.split_first_chunk_mut::<HEAD>() else {
        return;
    };
    head[0] = kind;
    head[1..5].copy_from_slice(&(bytes.len() as u32).to_le_bytes());
    head[5..9].copy_from_slice(&crc32fast::hash(bytes).to_le_bytes());
    let of_head = crc32fast::hash(&head[..9]);
    head[9..].copy_from_slice(&of_head.to_le_bytes());
}

/// A block's head.
pub(crate) struct Head {
    pub kind: u8,
    pub length: usize,
    checksum: Option<u32>,
}

impl Head {
    /// How many bytes it has in this version of the format.
    pub(crate) fn byte_len(version: u8) -> usize {
        match version {
            1 => HEAD_WITHOUT,
            _ => HEAD,
        }
    }

    pub(crate) fn of(bytes: &[u8]) -> Result<Head, FormatError> {
        let number = |at: usize| {
            let four = bytes.get(at..).and_then(<[u8]>::first_chunk);
            four.map(|four| u32::from_le_bytes(*four))
        };
        let (Some(kind), Some(length)) = (bytes.first(), number(1)) else {
            return Err(FormatError::Malformed("a block has no head"));
        };
        if bytes.len() == HEAD && number(9) != Some(crc32fast::hash(&bytes[..9])) {
            return Err(FormatError::Malformed("the head of a block has changed"));
        }
        let length = length as usize;
        if length > BLOCK_BYTES_MAX {
            return Err(FormatError::Malformed("a block is too long"));
        }
        Ok(Head {
            kind: *kind,
            length,
            checksum: number(5),
        })
    }

    pub(crate) fn check(&self, block: &[u8]) -> Result<(), FormatError> {
        match self.checksum {
            Some(checksum) if checksum != crc32fast::hash(block) => {
                Err(FormatError::Malformed("the bytes of a block have changed"))
            }
            _ => Ok(()),
        }
    }
}
