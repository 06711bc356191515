//! Spearman's rank correlation.

/// Of pairs; equal values share the mean of their ranks. None if one side has a single value only.
pub fn rank_correlation(pairs: &[(f64, f64)]) -> Option<f64> {
    let left: Vec<f64> = pairs.iter().map(|pair| pair.0).collect();
    let right: Vec<f64> = pairs.iter().map(|pair| pair.1).collect();
    let (left, right) = (ranks(&left), ranks(&right));
    let mean = (pairs.len() as f64 - 1.0) / 2.0;
    let products = |a: &[f64], b: &[f64]| -> f64 {
        let each = a.iter().zip(b);
        each.map(|(a, b)| (a - mean) * (b - mean)).sum()
    };
    let spread = (products(&left, &left) * products(&right, &right)).sqrt();
    (spread > 0.0).then(|| products(&left, &right) / spread)
}

fn ranks(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&a, &b| values[a].total_cmp(&values[b]));
    let mut ranks = vec![0.0; values.len()];
    let mut from = 0;
    while from < order.len() {
        let equal = order[from..]
            .iter()
            .take_while(|&&at| values[at] == values[order[from]]);
        let to = from + equal.count().max(1);
        let shared = (from + to - 1) as f64 / 2.0;
        for &at in &order[from..to] {
            ranks[at] = shared;
        }
        from = to;
    }
    ranks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_alone_counts_and_equal_values_share_a_rank() {
        let of = |right: [f64; 4]| {
            let pairs: Vec<_> = [1.0, 2.0, 30.0, 400.0].into_iter().zip(right).collect();
            rank_correlation(&pairs)
        };
        assert_eq!(of([5.0, 6.0, 7.0, 8.0]), Some(1.0));
        assert_eq!(of([8.0, 7.0, 6.0, 5.0]), Some(-1.0));
        assert_eq!(of([1.0; 4]), None);
        // Ranks 0.5, 0.5, 2, 3 against 0, 1, 2, 3.
        let tied = of([1.0, 1.0, 2.0, 3.0]).unwrap();
        assert!((tied - 0.9f64.sqrt()).abs() < 1e-12, "{tied}");
        assert_eq!(rank_correlation(&[]), None);
    }
}
