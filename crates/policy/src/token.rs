//! Computes where on the ring a partition lives: key bytes → token.
//!
//! Formula: for `Murmur3Partitioner` the token is the first 64 bits of MurmurHash3 x64 128 with
//! seed 0, with two departures from the published algorithm: the bytes of the tail are
//! sign-extended, and −2⁶³ becomes 2⁶³ − 1, because −2⁶³ is reserved as the ring's minimum, which
//! is also the token of the empty key. For `ByteOrderedPartitioner` the token is the key itself,
//! compared as unsigned bytes.
//!
//! Evidence: checked against vectors that Cassandra 5.0.6 printed (`testdata/murmur3.txt`).
//!
//! Limits: other partitioners are not known; see [`Partitioner`].
//!
//! Source: A. Appleby, MurmurHash3 (2011); Cassandra's `Murmur3Partitioner`,
//! `ByteOrderedPartitioner` and `MurmurHash`.

use std::fmt::Write;

#[cfg(test)]
mod tests;

/// How a cluster turns partition keys into tokens.
///
/// Clusters with any other partitioner still work through the proxy, but their queries are not
/// routed to owners.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Partitioner {
    Murmur3,
    ByteOrdered,
}

impl Partitioner {
    /// From `system.local.partitioner`: a class name with or without its package.
    pub fn from_class_name(name: &str) -> Option<Self> {
        let short = match name.rsplit_once('.') {
            Some(("org.apache.cassandra.dht", short)) => short,
            Some(_) => return None,
            None => name,
        };
        match short {
            "Murmur3Partitioner" => Some(Partitioner::Murmur3),
            "ByteOrderedPartitioner" => Some(Partitioner::ByteOrdered),
            _ => None,
        }
    }
}

/// A position on the ring. Tokens of one partitioner compare in ring order.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Token {
    Murmur3(i64),
    Bytes(Box<[u8]>),
}

impl Token {
    /// The token of a serialized partition key (see [`composite_key`]).
    pub fn of_key(partitioner: Partitioner, routing_key: &[u8]) -> Token {
        match partitioner {
            Partitioner::Murmur3 => Token::Murmur3(murmur3_token(routing_key)),
            Partitioner::ByteOrdered => Token::Bytes(routing_key.into()),
        }
    }

    /// Parses the text form of `system.local.tokens` and `system.peers.tokens`: decimal for
    /// Murmur3, hexadecimal for ByteOrdered (an odd number of digits gets a leading zero, as in
    /// Cassandra).
    pub fn parse(partitioner: Partitioner, text: &str) -> Option<Token> {
        match partitioner {
            Partitioner::Murmur3 => text.parse().ok().map(Token::Murmur3),
            Partitioner::ByteOrdered => from_hex(text).map(Token::Bytes),
        }
    }

    /// The inverse of [`Token::parse`].
    pub fn to_text(&self) -> String {
        match self {
            Token::Murmur3(token) => token.to_string(),
            Token::Bytes(bytes) => {
                let mut text = String::with_capacity(2 * bytes.len());
                for byte in bytes {
                    // Writing to a String cannot fail.
                    let _ = write!(text, "{byte:02x}");
                }
                text
            }
        }
    }
}

/// The token that `Murmur3Partitioner` gives to `key`.
pub fn murmur3_token(key: &[u8]) -> i64 {
    if key.is_empty() {
        return i64::MIN;
    }
    match murmur3_first_half(key) {
        i64::MIN => i64::MAX,
        token => token,
    }
}

/// Serializes a partition key from the values of its columns into `out`, which
/// is cleared first: a single value is written as is, several are each framed as
/// `[u16 length][bytes][0]`.
///
/// Returns false, with `out` empty, for keys that Cassandra refuses: no value at all, or more than
/// 65,535 bytes. (A single empty value, which it also refuses, has a token and is left to
/// Cassandra.)
pub fn composite_key<'a>(components: impl Iterator<Item = &'a [u8]>, out: &mut Vec<u8>) -> bool {
    out.clear();
    let mut components = components.peekable();
    let Some(first) = components.next() else {
        return false;
    };
    let valid = if components.peek().is_none() {
        out.extend_from_slice(first);
        true
    } else {
        std::iter::once(first)
            .chain(components)
            .all(|component| push_component(component, out))
    };
    if !valid || out.len() > KEY_BYTES_MAX {
        out.clear();
        return false;
    }
    true
}

/// Cassandra's `FBUtilities.MAX_UNSIGNED_SHORT`: the longest partition key.
const KEY_BYTES_MAX: usize = u16::MAX as usize;

fn push_component(component: &[u8], out: &mut Vec<u8>) -> bool {
    let Ok(len) = u16::try_from(component.len()) else {
        return false;
    };
    out.extend_from_slice(&len.to_be_bytes());
    out.extend_from_slice(component);
    out.push(0);
    true
}

const C1: u64 = 0x87c3_7b91_1142_53d5;
const C2: u64 = 0x4cf5_ad43_2745_937f;

/// MurmurHash3 x64 128 with seed 0 and a sign-extended tail, first half only.
fn murmur3_first_half(key: &[u8]) -> i64 {
    let (mut h1, mut h2) = (0u64, 0u64);
    let (blocks, tail) = key.as_chunks::<16>();
    for block in blocks {
        let block = u128::from_le_bytes(*block);
        h1 ^= mix_k1(block as u64);
        h1 = h1.rotate_left(27).wrapping_add(h2);
        h1 = h1.wrapping_mul(5).wrapping_add(0x52dc_e729);
        h2 ^= mix_k2((block >> 64) as u64);
        h2 = h2.rotate_left(31).wrapping_add(h1);
        h2 = h2.wrapping_mul(5).wrapping_add(0x3849_5ab5);
    }

    let (low, high) = tail.split_at(tail.len().min(8));
    // Mixing zero yields zero, so a missing half needs no branch.
    h2 ^= mix_k2(signed_tail(high));
    h1 ^= mix_k1(signed_tail(low));

    h1 ^= key.len() as u64;
    h2 ^= key.len() as u64;
    h1 = h1.wrapping_add(h2);
    h2 = h2.wrapping_add(h1);
    finish(h1).wrapping_add(finish(h2)) as i64
}

/// Java bytes are signed, so a byte above 0x7f also flips all bits above its own.
fn signed_tail(bytes: &[u8]) -> u64 {
    bytes.iter().enumerate().fold(0, |word, (i, &byte)| {
        word ^ ((i64::from(byte as i8) as u64) << (8 * i))
    })
}

fn mix_k1(k: u64) -> u64 {
    k.wrapping_mul(C1).rotate_left(31).wrapping_mul(C2)
}

fn mix_k2(k: u64) -> u64 {
    k.wrapping_mul(C2).rotate_left(33).wrapping_mul(C1)
}

fn finish(mut k: u64) -> u64 {
    k ^= k >> 33;
    k = k.wrapping_mul(0xff51_afd7_ed55_8ccd);
    k ^= k >> 33;
    k = k.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    k ^ (k >> 33)
}

fn from_hex(text: &str) -> Option<Box<[u8]>> {
    let digits = text
        .chars()
        .map(|c| c.to_digit(16).map(|digit| digit as u8))
        .collect::<Option<Vec<u8>>>()?;
    // `rchunks` starts at the end, so that the odd digit, if any, comes first.
    let mut bytes: Vec<u8> = digits
        .rchunks(2)
        .map(|pair| pair.iter().fold(0, |byte, digit| byte << 4 | digit))
        .collect();
    bytes.reverse();
    Some(bytes.into())
}
