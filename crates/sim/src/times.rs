//! How long requests took.

/// Times from a client's sending to its getting the answer.
#[derive(Clone, Debug, Default)]
pub struct Times {
    sorted_us: Vec<u64>,
}

impl Times {
    pub fn of(mut times_us: Vec<u64>) -> Self {
        times_us.sort_unstable();
        Times {
            sorted_us: times_us,
        }
    }

    pub fn count(&self) -> usize {
        self.sorted_us.len()
    }

    pub fn mean_us(&self) -> f64 {
        let count = self.sorted_us.len().max(1);
        self.sorted_us.iter().sum::<u64>() as f64 / count as f64
    }

    /// The least time that at least this share does not exceed; 0 without any.
    pub fn quantile_us(&self, share: f64) -> u64 {
        let rank = (share * self.sorted_us.len() as f64).ceil() as usize;
        let at = rank.max(1) - 1;
        self.sorted_us.get(at).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_values_that_occurred() {
        let times = Times::of((1..=100).rev().collect());
        assert_eq!(
            [0.5, 0.95, 0.99, 1.0].map(|q| times.quantile_us(q)),
            [50, 95, 99, 100]
        );
        assert_eq!(times.mean_us(), 50.5);
        assert_eq!(Times::of(vec![7]).quantile_us(0.01), 7);
        assert_eq!(Times::default().quantile_us(0.5), 0);
    }
}
