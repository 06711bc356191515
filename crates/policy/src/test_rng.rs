//! A small xorshift generator for tests, so that a printed seed replays a failure.

/// Marsaglia's xorshift64* (2003; the multiplier is Vigna's, 2016).
pub(crate) struct TestRng(u64);

impl TestRng {
    pub(crate) fn new(seed: u64) -> Self {
        // The all-zero state is a fixed point; the lowest bit keeps away from it.
        TestRng(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A number in `0..bound`.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        ((self.next() >> 33) % bound as u64) as usize
    }

    pub(crate) fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.next() as u8).collect()
    }
}

/// Runs `check` for seeds 0..`count`, or only for `HELENUS_SEED`; a failing seed is printed.
pub(crate) fn for_seeds(count: u64, check: impl Fn(u64, &mut TestRng)) {
    struct ReplayHint(u64);
    impl Drop for ReplayHint {
        fn drop(&mut self) {
            if std::thread::panicking() {
                eprintln!("replay with HELENUS_SEED={}", self.0);
            }
        }
    }
    let only = std::env::var("HELENUS_SEED")
        .ok()
        .map(|text| text.parse().expect("HELENUS_SEED is a number"));
    let seeds = only.map_or(0..count, |seed| seed..seed + 1);
    for seed in seeds {
        let _hint = ReplayHint(seed);
        check(seed, &mut TestRng::new(seed));
    }
}
