//! Repeatable randomness.

/// SplitMix64 (G. Steele, D. Lea, C. Flood, OOPSLA 2014).
#[derive(Clone, Debug)]
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Self {
        Dice(seed)
    }

    /// A stream of its own for one thing, the same whatever else was drawn before.
    pub fn of(seed: u64, a: u64, b: u64) -> Self {
        let mut dice = Dice(seed ^ a.wrapping_mul(0xd6e8_feb8_6659_fd93));
        dice.0 = dice.draw() ^ b.wrapping_mul(0xa076_1d64_78bd_642f);
        dice
    }

    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// In `0..bound`; 0 if `bound` is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.draw()) * u128::from(bound)) >> 64) as u64
    }

    /// In (0, 1].
    pub fn share(&mut self) -> f64 {
        ((self.draw() >> 11) + 1) as f64 / (1u64 << 53) as f64
    }

    /// Microseconds until the next of things that come at random, so many a second.
    pub fn gap_us(&mut self, per_second: f64) -> f64 {
        -self.share().ln() * 1e6 / per_second
    }

    /// Log-normal with mean 1.
    pub fn log_normal(&mut self, sigma: f64) -> f64 {
        // Box and Muller.
        let radius = (-2.0 * self.share().ln()).sqrt();
        let normal = radius * (std::f64::consts::TAU * self.share()).cos();
        (sigma * normal - sigma * sigma / 2.0).exp()
    }
}
