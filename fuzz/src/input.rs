//! The fuzzer's bytes, read from front to back.

/// The bytes that are left.
pub struct Input<'a>(pub &'a [u8]);

impl<'a> Input<'a> {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// 0 behind the end.
    pub fn byte(&mut self) -> u8 {
        self.take(1).first().copied().unwrap_or_default()
    }

    /// As many bytes as the next two say, or those that are left.
    pub fn sized(&mut self) -> &'a [u8] {
        let len = u16::from_be_bytes([self.byte(), self.byte()]);
        self.take(len.into())
    }

    fn take(&mut self, len: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(len.min(self.0.len()));
        self.0 = rest;
        taken
    }
}
