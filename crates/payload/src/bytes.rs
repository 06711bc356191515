//! Numbers and byte strings one after another, for headers and for what was learned.

/// The bytes end before what they announce.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct End;

/// Reads from the front.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn byte(&mut self) -> Result<u8, End> {
        let (first, rest) = self.0.split_first().ok_or(End)?;
        self.0 = rest;
        Ok(*first)
    }

    pub(crate) fn take(&mut self, count: usize) -> Result<&'a [u8], End> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(End)?;
        self.0 = rest;
        Ok(taken)
    }

    /// Seven bits a byte, the low ones first. One that is longer than 64 bits ends it as well.
    pub(crate) fn number(&mut self) -> Result<u64, End> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if bits << shift >> shift != bits {
                return Err(End);
            }
            number |= bits << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(End)
    }

    /// A length, and so many bytes.
    pub(crate) fn string(&mut self) -> Result<&'a [u8], End> {
        let length = usize::try_from(self.number()?).map_err(|_| End)?;
        self.take(length)
    }
}

pub(crate) fn put_number(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

pub(crate) fn put_string(out: &mut Vec<u8>, bytes: &[u8]) {
    put_number(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back_and_longer_ones_end() {
        for number in [
            0,
            1,
            127,
            128,
            16_383,
            16_384,
            u64::from(u32::MAX),
            u64::MAX,
        ] {
            let mut out = Vec::new();
            put_number(&mut out, number);
            let mut reader = Reader(&out);
            assert_eq!(reader.number(), Ok(number));
            assert!(reader.0.is_empty());
            assert_eq!(Reader(&out[..out.len() - 1]).number(), Err(End));
        }
        assert_eq!(Reader(&[0xff; 10]).number(), Err(End));
        assert_eq!(Reader(&[0xff; 1]).string(), Err(End));
    }
}
