//! How the key of the next operation is drawn.

use rand::{Rng, RngExt};
use rand_distr::{Distribution, Exp, Normal};

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
    /// Most often in the middle: the standard deviation is a sixth of all keys.
    Gaussian {
        normal: Normal<f64>,
        keys: u64,
    },
    /// The logarithm is drawn as by `Gaussian`: half of all draws are below the square root of the
    /// number of keys.
    LogNormal {
        normal: Normal<f64>,
        keys: u64,
    },
    /// The more often, the lower: 95 % of the draws are of the first 86 % of the keys, as in YCSB.
    Exponential {
        exponential: Exp<f64>,
        keys: u64,
    },
    /// The last key is the most popular, with Zipf's exponent 0.99.
    Latest {
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

    /// Three standard deviations on each side of the middle key.
    pub fn gaussian(keys: u64) -> Self {
        let keys = keys.max(1);
        let half = keys as f64 / 2.0;
        Self::Gaussian {
            normal: normal(half),
            keys,
        }
    }

    /// Three standard deviations of the logarithm on each side of its middle.
    pub fn lognormal(keys: u64) -> Self {
        let keys = keys.max(1);
        // Key k is drawn by k + 1, whose logarithm begins at 0.
        let half = (keys as f64 + 1.0).ln() / 2.0;
        Self::LogNormal {
            normal: normal(half),
            keys,
        }
    }

    /// YCSB's defaults: `exponential.percentile` 95, `exponential.frac` 0.8571428571.
    pub fn exponential(keys: u64) -> Self {
        let keys = keys.max(1);
        let rate = -(0.05f64.ln()) / (keys as f64 * 0.857_142_857_1);
        Self::Exponential {
            exponential: Exp::new(rate).expect("the rate is above 0"),
            keys,
        }
    }

    /// As if the keys had been inserted in order and the newest were read most, as YCSB's `latest`.
    pub fn latest(keys: u64) -> Self {
        let keys = keys.max(1);
        Self::Latest {
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
            Self::Gaussian { normal, keys } => within(*keys, || normal.sample(rng)),
            Self::LogNormal { normal, keys } => within(*keys, || normal.sample(rng).exp() - 1.0),
            Self::Exponential { exponential, keys } => within(*keys, || exponential.sample(rng)),
            Self::Latest { zipf, keys } => keys - zipf.draw(rng).min(*keys),
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

fn normal(half: f64) -> Normal<f64> {
    Normal::new(half, half / 3.0).expect("the deviation is finite and not negative")
}

/// Draws again what is outside. That is rare: at most one draw in twenty.
fn within(keys: u64, mut draw: impl FnMut() -> f64) -> u64 {
    loop {
        let drawn = draw();
        if drawn >= 0.0 && drawn < keys as f64 {
            // Near the end of a bigint's range the next number may be one too many.
            return (drawn as u64).min(keys - 1);
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
