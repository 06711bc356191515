use super::*;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

const DRAWS: u32 = 200_000;

/// Pearson's chi-squared statistic of `DRAWS` draws against the distribution's definition.
fn chi_square(ranks: u64, exponent: f64, seed: u64) -> f64 {
    let zipf = Zipf::new(ranks, exponent);
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut seen = vec![0u32; ranks as usize];
    for _ in 0..DRAWS {
        seen[zipf.draw(&mut rng) as usize - 1] += 1;
    }
    let weights: Vec<f64> = (1..=ranks)
        .map(|rank| (rank as f64).powf(-exponent))
        .collect();
    let total: f64 = weights.iter().sum();
    seen.iter()
        .zip(&weights)
        .map(|(&seen, weight)| {
            let expected = f64::from(DRAWS) * weight / total;
            (f64::from(seen) - expected).powi(2) / expected
        })
        .sum()
}

#[test]
fn zipf_draws_follow_the_definition() {
    for (ranks, exponent) in [(2, 0.99), (10, 0.99), (1000, 0.99), (100, 0.5), (100, 1.5)] {
        for seed in [1, 2, 3] {
            let freedom = (ranks - 1) as f64;
            let limit = freedom + 5.0 * (2.0 * freedom).sqrt() + 10.0;
            let statistic = chi_square(ranks, exponent, seed);
            assert!(
                statistic < limit,
                "{ranks} ranks, exponent {exponent}, seed {seed}: {statistic} ≥ {limit}"
            );
        }
    }
}

#[test]
fn a_wrong_exponent_would_be_noticed() {
    let zipf = Zipf::new(100, 0.99);
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let first = (0..DRAWS).filter(|_| zipf.draw(&mut rng) == 1).count() as f64;
    let share = first / f64::from(DRAWS);
    let exact = 1.0
        / (1..=100)
            .map(|rank| f64::from(rank).powf(-0.99))
            .sum::<f64>();
    assert!(
        (share - exact).abs() < 0.005,
        "seed 1: {share} against {exact}"
    );
}

#[test]
fn keys_stay_in_range_and_reach_all() {
    for keys in [
        Keys::uniform(50),
        Keys::zipfian(50),
        Keys::gaussian(50),
        Keys::lognormal(50),
        Keys::exponential(50),
        Keys::latest(50),
    ] {
        let mut rng = ChaCha8Rng::seed_from_u64(7);
        let drawn: std::collections::BTreeSet<u64> =
            (0..20_000).map(|_| keys.draw(&mut rng)).collect();
        assert!(drawn.iter().all(|&key| key < 50), "seed 7: {drawn:?}");
        assert!(drawn.len() > 25, "seed 7: only {} keys of 50", drawn.len());
    }
    let of_one = [
        Keys::zipfian(1),
        Keys::gaussian(1),
        Keys::lognormal(1),
        Keys::exponential(1),
        Keys::latest(1),
    ];
    for keys in of_one {
        assert_eq!(keys.draw(&mut ChaCha8Rng::seed_from_u64(7)), 0, "{keys:?}");
    }
}

#[test]
fn the_most_popular_key_is_not_the_first_of_the_key_space() {
    let keys = Keys::zipfian(1000);
    let mut rng = ChaCha8Rng::seed_from_u64(9);
    let mut seen = [0u32; 1000];
    for _ in 0..50_000 {
        seen[keys.draw(&mut rng) as usize] += 1;
    }
    let top = (0..1000).max_by_key(|&key| seen[key]);
    assert_eq!(top, Some((scatter(0) % 1000) as usize), "seed 9");
}

#[test]
fn a_hot_key_gets_its_share_besides_what_it_draws_anyway() {
    let keys = Keys::uniform(10).with_hot_key(0.5);
    let mut rng = ChaCha8Rng::seed_from_u64(4);
    let hot = (0..DRAWS).filter(|_| keys.draw(&mut rng) == 0).count() as f64;
    let share = hot / f64::from(DRAWS);
    assert!((share - 0.55).abs() < 0.01, "seed 4: {share}");
}

/// The share of draws below `bound`.
fn share_below(keys: &Keys, bound: u64) -> f64 {
    let mut rng = ChaCha8Rng::seed_from_u64(6);
    let below = (0..DRAWS).filter(|_| keys.draw(&mut rng) < bound).count();
    below as f64 / f64::from(DRAWS)
}

#[test]
fn shares_are_those_of_the_distributions() {
    // Of a normal distribution cut off at three deviations, from its table.
    let (one, two) = (0.158_655_3, 0.022_750_1);
    let cut = |share: f64| (share - 0.001_349_9) / 0.997_300_2;
    let gaussian = Keys::gaussian(60_000);
    // The logarithm of a million is cut into six deviations: each is a factor of ten.
    let lognormal = Keys::lognormal(1_000_000 - 1);
    let exponential = Keys::exponential(7_000);
    // 1 - 0.05^(7/6) of an exponential distribution is within the range.
    let whole = 1.0 - 0.05f64.powf(7.0 / 6.0);
    for (name, share, expected) in [
        ("gaussian, half", share_below(&gaussian, 30_000), 0.5),
        ("gaussian, -1", share_below(&gaussian, 20_000), cut(one)),
        ("gaussian, -2", share_below(&gaussian, 10_000), cut(two)),
        ("lognormal, half", share_below(&lognormal, 999), 0.5),
        ("lognormal, -1", share_below(&lognormal, 99), cut(one)),
        (
            "exponential",
            share_below(&exponential, 6_000),
            0.95 / whole,
        ),
        (
            "exponential, half",
            share_below(&exponential, 3_000),
            (1.0 - 0.05f64.sqrt()) / whole,
        ),
    ] {
        assert!(
            (share - expected).abs() < 0.005,
            "seed 6, {name}: {share} instead of {expected}"
        );
    }
}

#[test]
fn the_latest_key_is_drawn_as_often_as_the_first_rank() {
    let keys = Keys::latest(100);
    let first = (1..=100)
        .map(|rank| f64::from(rank).powf(-0.99))
        .sum::<f64>()
        .recip();
    let share = 1.0 - share_below(&keys, 99);
    assert!((share - first).abs() < 0.005, "seed 6: {share} of {first}");
}
