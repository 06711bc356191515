//! A cursor over bytes from a peer: every read is checked, nothing panics.

use thiserror::Error;

/// Bytes that violate the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("malformed message: {0}")]
pub struct Malformed(pub &'static str);

/// Reads the protocol's notations (`[int]`, `[string]`, `[bytes]` …) from a slice.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Reader { bytes, at: 0 }
    }

    /// Offset of the next unread byte.
    pub fn position(&self) -> usize {
        self.at
    }

    /// The unread bytes.
    pub fn rest(&self) -> &'a [u8] {
        &self.bytes[self.at..]
    }

    pub fn is_empty(&self) -> bool {
        self.at == self.bytes.len()
    }

    pub fn take(&mut self, len: usize) -> Result<&'a [u8], Malformed> {
        let rest = &self.bytes[self.at..];
        if len > rest.len() {
            return Err(Malformed("a value reaches past the end of the body"));
        }
        self.at += len;
        Ok(&rest[..len])
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let rest = &self.bytes[self.at..];
        match rest.first_chunk::<N>() {
            Some(chunk) => {
                self.at += N;
                Ok(*chunk)
            }
            None => Err(Malformed("a value reaches past the end of the body")),
        }
    }

    pub fn u8(&mut self) -> Result<u8, Malformed> {
        Ok(self.array::<1>()?[0])
    }

    pub fn u16(&mut self) -> Result<u16, Malformed> {
        self.array().map(u16::from_be_bytes)
    }

    pub fn i32(&mut self) -> Result<i32, Malformed> {
        self.array().map(i32::from_be_bytes)
    }

    pub fn u32(&mut self) -> Result<u32, Malformed> {
        self.array().map(u32::from_be_bytes)
    }

    pub fn i64(&mut self) -> Result<i64, Malformed> {
        self.array().map(i64::from_be_bytes)
    }

    pub fn uuid(&mut self) -> Result<[u8; 16], Malformed> {
        self.array()
    }

    /// `[string]`: two length bytes and UTF-8 text.
    pub fn string(&mut self) -> Result<&'a str, Malformed> {
        let len = self.u16()? as usize;
        std::str::from_utf8(self.take(len)?).map_err(|_| Malformed("a string is not UTF-8"))
    }

    /// `[long string]`: four length bytes and UTF-8 text.
    pub fn long_string(&mut self) -> Result<&'a str, Malformed> {
        let len = self.i32()?;
        let len =
            usize::try_from(len).map_err(|_| Malformed("a long string has a negative length"))?;
        std::str::from_utf8(self.take(len)?).map_err(|_| Malformed("a long string is not UTF-8"))
    }

    /// `[short bytes]`.
    pub fn short_bytes(&mut self) -> Result<&'a [u8], Malformed> {
        let len = self.u16()? as usize;
        self.take(len)
    }

    /// `[bytes]`: `None` for a negative length.
    pub fn bytes(&mut self) -> Result<Option<&'a [u8]>, Malformed> {
        let len = self.i32()?;
        match usize::try_from(len) {
            Ok(len) => self.take(len).map(Some),
            Err(_) => Ok(None),
        }
    }

    pub fn string_list(&mut self) -> Result<Vec<&'a str>, Malformed> {
        let n = self.u16()?;
        (0..n).map(|_| self.string()).collect()
    }

    pub fn string_map(&mut self) -> Result<Vec<(&'a str, &'a str)>, Malformed> {
        let n = self.u16()?;
        (0..n)
            .map(|_| Ok((self.string()?, self.string()?)))
            .collect()
    }

    pub fn string_multimap(&mut self) -> Result<Vec<(&'a str, Vec<&'a str>)>, Malformed> {
        let n = self.u16()?;
        (0..n)
            .map(|_| Ok((self.string()?, self.string_list()?)))
            .collect()
    }

    /// Skips a `[bytes map]`.
    pub fn skip_bytes_map(&mut self) -> Result<(), Malformed> {
        let n = self.u16()?;
        for _ in 0..n {
            self.string()?;
            self.bytes()?;
        }
        Ok(())
    }

    /// `[inetaddr]`: one length byte and 4 or 16 address bytes.
    pub fn inet_addr(&mut self) -> Result<std::net::IpAddr, Malformed> {
        match self.u8()? {
            4 => self.array::<4>().map(std::net::IpAddr::from),
            16 => self.array::<16>().map(std::net::IpAddr::from),
            _ => Err(Malformed("an address is neither 4 nor 16 bytes")),
        }
    }

    /// `[inet]`: an address and a port.
    pub fn inet(&mut self) -> Result<std::net::SocketAddr, Malformed> {
        let ip = self.inet_addr()?;
        let port = self.i32()?;
        let port = u16::try_from(port).map_err(|_| Malformed("a port is out of range"))?;
        Ok(std::net::SocketAddr::new(ip, port))
    }
}
