//! How many distinct values a stream has, in 4 KiB.
//!
//! Standard error 1.04 ÷ √4096 = 1.6 %.
//!
//! Source: Flajolet et al., "HyperLogLog" (2007); the estimator is Ertl's, "New cardinality
//! estimation algorithms for HyperLogLog sketches" (2017, section 2.6), which needs no table of biases.

const BITS: u32 = 12;
const REGISTERS: usize = 1 << BITS;
/// The greatest value of a register.
const RANK_MAX: usize = 64 - BITS as usize + 1;

#[derive(Clone, Debug)]
pub struct HyperLogLog {
    registers: Vec<u8>,
}

impl Default for HyperLogLog {
    fn default() -> Self {
        HyperLogLog {
            registers: vec![0; REGISTERS],
        }
    }
}

impl HyperLogLog {
    /// Equal items must have equal hashes, whose bits look random.
    pub fn add(&mut self, hash: u64) {
        let register = (hash >> (64 - BITS)) as usize;
        // The bit set here ends the run of zeros at the latest after all bits that are left.
        let rest = hash << BITS | 1 << (BITS - 1);
        let rank = rest.leading_zeros() as u8 + 1;
        if let Some(old) = self.registers.get_mut(register) {
            *old = (*old).max(rank);
        }
    }

    pub fn estimate(&self) -> f64 {
        let mut histogram = [0.0; RANK_MAX + 1];
        for register in &self.registers {
            if let Some(count) = histogram.get_mut(usize::from(*register)) {
                *count += 1.0;
            }
        }
        let m = REGISTERS as f64;
        let mut z = m * tau(1.0 - histogram[RANK_MAX] / m);
        for count in histogram[1..RANK_MAX].iter().rev() {
            z = 0.5 * (z + count);
        }
        z += m * sigma(histogram[0] / m);
        m * m / (2.0 * std::f64::consts::LN_2 * z)
    }
}

fn sigma(mut x: f64) -> f64 {
    if x >= 1.0 {
        return f64::INFINITY;
    }
    let (mut y, mut z) = (1.0, x);
    loop {
        x *= x;
        let before = z;
        z += x * y;
        y += y;
        if z <= before {
            return z;
        }
    }
}

fn tau(mut x: f64) -> f64 {
    if x <= 0.0 || x >= 1.0 {
        return 0.0;
    }
    let (mut y, mut z) = (1.0, 1.0 - x);
    loop {
        x = x.sqrt();
        let before = z;
        y *= 0.5;
        z -= (1.0 - x) * (1.0 - x) * y;
        if z >= before {
            return z / 3.0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::mix;

    #[test]
    fn counts_are_within_four_standard_errors() {
        assert_eq!(HyperLogLog::default().estimate(), 0.0);
        for distinct in [1u64, 10, 100, 1_000, 5_000, 12_000, 50_000, 300_000] {
            let mut sketch = HyperLogLog::default();
            for item in 0..distinct {
                // Duplicates do not count.
                sketch.add(mix(item + 1));
                sketch.add(mix(item + 1));
            }
            let error = sketch.estimate() / distinct as f64 - 1.0;
            assert!(error.abs() < 0.065, "{distinct}: {error}");
        }
    }
}
