//! Chooses the requests that are looked at.

/// One request in so many is looked at: a power of two.
pub const SAMPLED_ONE_OF: u32 = 16;

/// Chooses one request in [`SAMPLED_ONE_OF`], in a sequence without a period: clients that ask for keys in
/// turn do not always meet the same one.
#[derive(Clone, Debug)]
pub struct Sampler(u64);

impl Sampler {
    /// `seed`: another one for each worker.
    pub fn new(seed: u64) -> Sampler {
        Sampler(seed)
    }

    /// True if this request is looked at.
    #[inline]
    pub fn takes(&mut self) -> bool {
        // Steps by the golden ratio are spread evenly, whatever the period of what they meet.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        self.0 < u64::MAX / SAMPLED_ONE_OF as u64
    }
}
