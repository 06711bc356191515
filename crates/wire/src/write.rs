//! Appends the protocol's notations to a byte vector.

use std::net::{IpAddr, SocketAddr};

pub fn u16(out: &mut Vec<u8>, value: u16) {
    out.extend_from_slice(&value.to_be_bytes());
}

pub fn i32(out: &mut Vec<u8>, value: i32) {
    out.extend_from_slice(&value.to_be_bytes());
}

pub fn u32(out: &mut Vec<u8>, value: u32) {
    out.extend_from_slice(&value.to_be_bytes());
}

pub fn i64(out: &mut Vec<u8>, value: i64) {
    out.extend_from_slice(&value.to_be_bytes());
}

/// `[string]`. Text beyond 65,535 bytes is cut at a character boundary, since the notation has only
/// two length bytes.
pub fn string(out: &mut Vec<u8>, text: &str) {
    let mut end = text.len().min(u16::MAX as usize);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    u16(out, end as u16);
    out.extend_from_slice(&text.as_bytes()[..end]);
}

/// `[long string]`.
pub fn long_string(out: &mut Vec<u8>, text: &str) {
    u32(out, text.len() as u32);
    out.extend_from_slice(text.as_bytes());
}

/// `[short bytes]`; `bytes` must be shorter than 64 KiB.
pub fn short_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    debug_assert!(bytes.len() <= u16::MAX as usize);
    u16(out, bytes.len() as u16);
    out.extend_from_slice(bytes);
}

/// `[bytes]`; `None` is null.
pub fn bytes(out: &mut Vec<u8>, bytes: Option<&[u8]>) {
    match bytes {
        Some(bytes) => {
            u32(out, bytes.len() as u32);
            out.extend_from_slice(bytes);
        }
        None => i32(out, -1),
    }
}

pub fn string_list<S: AsRef<str>>(out: &mut Vec<u8>, list: &[S]) {
    u16(out, list.len() as u16);
    for text in list {
        string(out, text.as_ref());
    }
}

pub fn string_map<K: AsRef<str>, V: AsRef<str>>(out: &mut Vec<u8>, map: &[(K, V)]) {
    u16(out, map.len() as u16);
    for (key, value) in map {
        string(out, key.as_ref());
        string(out, value.as_ref());
    }
}

/// `[inetaddr]`.
pub fn inet_addr(out: &mut Vec<u8>, ip: IpAddr) {
    match ip {
        IpAddr::V4(ip) => {
            out.push(4);
            out.extend_from_slice(&ip.octets());
        }
        IpAddr::V6(ip) => {
            out.push(16);
            out.extend_from_slice(&ip.octets());
        }
    }
}

/// `[inet]`.
pub fn inet(out: &mut Vec<u8>, address: SocketAddr) {
    inet_addr(out, address.ip());
    i32(out, i32::from(address.port()));
}
