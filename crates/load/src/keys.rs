//! How the key of the next operation is drawn.

use rand::{Rng, RngExt};

/// How keys are drawn from `0..keys`.
#[derive(Clone, Debug)]
pub enum Keys {
    Uniform {
        keys: u64,
    },
    Zipfian {
        zipf: Zipf,
        keys: u64,
    },
    /// One viral key, number 0, gets a fixed share of all draws.
    Hot {
        share: f64,
        rest: Box<Keys>,
    },
}

impl Keys {
    pub fn uniform(keys: u64) -> Self {
        Self::Uniform { keys: keys.max(1) }
    }

    /// YCSB's skew: exponent 0.99. Popular keys are scattered over the key space.
    pub fn zipfian(keys: u64) -> Self {
        let keys = keys.max(1);
        Self::Zipfian {
            zipf: Zipf::new(keys, 0.99),
            keys,
        }
    }

    /// Gives key 0 a share, from 0 to 1, of all draws.
    pub fn with_hot_key(self, share: f64) -> Self {
        Self::Hot {
            share,
            rest: Box::new(self),
        }
    }

    pub fn draw(&self, rng: &mut impl Rng) -> u64 {
        match self {
            Self::Uniform { keys } => rng.random_range(0..*keys),
            Self::Zipfian { zipf, keys } => scatter(zipf.draw(rng) - 1) % keys,
            Self::Hot { share, rest } => {
                if rng.random::<f64>() < *share {
                    0
                } else {
                    rest.draw(rng)
                }
            }
        }
    }
}

/// Ranks `1..=n` with probability proportional to `rank^-s`.
///
/// Rejection-inversion (Hörmann and Derflinger, 1996): invert the integral H of the density's hat
/// and reject the small overshoot. Exact, constant time, and no sum over all ranks beforehand.
#[derive(Clone, Debug)]
pub struct Zipf {
    exponent: f64,
    ranks: f64,
    h_first: f64,
    h_last: f64,
    accept_below: f64,
}

impl Zipf {
    /// `exponent` must be positive and not 1.
    pub fn new(ranks: u64, exponent: f64) -> Self {
        assert!(ranks >= 1 && exponent > 0.0 && exponent != 1.0);
        let mut zipf = Self {
            exponent,
            ranks: ranks as f64,
            h_first: 0.0,
            h_last: 0.0,
            accept_below: 0.0,
        };
        zipf.h_first = zipf.h(1.5) - 1.0;
        zipf.h_last = zipf.h(zipf.ranks + 0.5);
        zipf.accept_below = 2.0 - zipf.h_inverse(zipf.h(2.5) - 2f64.powf(-exponent));
        zipf
    }

    pub fn draw(&self, rng: &mut impl Rng) -> u64 {
        loop {
            let uniform: f64 = rng.random();
            let height = self.h_last + uniform * (self.h_first - self.h_last);
            let x = self.h_inverse(height);
            let rank = x.round().clamp(1.0, self.ranks);
            if rank - x <= self.accept_below
                || height >= self.h(rank + 0.5) - rank.powf(-self.exponent)
            {
                return rank as u64;
            }
        }
    }

    /// An antiderivative of `x^-s`.
    fn h(&self, x: f64) -> f64 {
        x.powf(1.0 - self.exponent) / (1.0 - self.exponent)
    }

    fn h_inverse(&self, y: f64) -> f64 {
        (y * (1.0 - self.exponent)).powf(1.0 / (1.0 - self.exponent))
    }
}

/// The finaliser of SplitMix64: a bijection of 64-bit numbers.
fn scatter(value: u64) -> u64 {
    let mut x = value.wrapping_add(0x9E37_79B9_7F4A_7C15);
    x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests;
