use super::*;
use rand::SeedableRng;

const DRAWS: u32 = 200_000;

fn rng(seed: u64) -> ChaCha8Rng {
    ChaCha8Rng::seed_from_u64(seed)
}

/// Six standard deviations of a count of `DRAWS` draws with this probability.
fn is_near(seen: u32, probability: f64) -> bool {
    let expected = f64::from(DRAWS) * probability;
    let slack = 6.0 * (expected * (1.0 - probability)).sqrt() + 1e-9;
    (f64::from(seen) - expected).abs() <= slack
}

#[test]
fn operations_come_in_the_proportions_of_the_core_workloads() {
    let table = [
        (Core::A, [0.5, 0.5, 0.0, 0.0, 0.0]),
        (Core::B, [0.95, 0.05, 0.0, 0.0, 0.0]),
        (Core::C, [1.0, 0.0, 0.0, 0.0, 0.0]),
        (Core::D, [0.95, 0.0, 0.05, 0.0, 0.0]),
        (Core::E, [0.0, 0.0, 0.05, 0.95, 0.0]),
        (Core::F, [0.5, 0.0, 0.0, 0.0, 0.5]),
    ];
    for (core, shares) in table {
        let mut rng = rng(11);
        let mut seen = [0; 5];
        for _ in 0..DRAWS {
            seen[core.shape().draw(&mut rng)] += 1;
        }
        for (kind, share) in KINDS
            .iter()
            .zip(shares)
            .enumerate()
            .map(|(i, (k, s))| ((i, k), s))
        {
            let (index, name) = kind;
            assert!(
                is_near(seen[index], share),
                "seed 11, {core:?}: {} {name}",
                seen[index]
            );
        }
    }
}

/// YCSB's own constant for its ten thousand million ranks, `ScrambledZipfianGenerator.ZETAN`.
const ZETA: f64 = 26.469_028_201_783_02;

#[test]
fn the_zipfian_ranks_have_their_theoretical_shares() {
    let zipf = crate::workload::keys::Zipf::new(10_000_000_000, 0.99);
    for seed in [1, 2, 3] {
        let mut rng = rng(seed);
        let mut seen = [0; 100];
        for _ in 0..DRAWS {
            if let Some(count) = seen.get_mut(zipf.draw(&mut rng) as usize - 1) {
                *count += 1;
            }
        }
        for (index, &count) in seen.iter().enumerate() {
            let share = ((index + 1) as f64).powf(-0.99) / ZETA;
            assert!(
                is_near(count, share),
                "seed {seed}, rank {}: {count}",
                index + 1
            );
        }
    }
}

#[test]
fn the_scattered_records_have_the_shares_of_the_ranks_that_fall_on_them() {
    let records = 1000;
    let choice = Choice::new(RequestDistribution::Zipfian, records);
    // The first hundred thousand ranks exactly; the rest spread evenly by the hash.
    let mut shares = vec![0.0; records as usize];
    let mut rest = 1.0;
    for rank in 1..=100_000u64 {
        let share = (rank as f64).powf(-0.99) / ZETA;
        shares[(fnv_hash(rank - 1) % records) as usize] += share;
        rest -= share;
    }
    let mut rng = rng(21);
    let mut seen = vec![0; records as usize];
    for _ in 0..DRAWS {
        seen[choice.draw(records, &mut rng) as usize] += 1;
    }
    for (record, (&seen, share)) in seen.iter().zip(&shares).enumerate() {
        let share = share + rest / records as f64;
        assert!(
            is_near(seen, share),
            "seed 21, record {record}: {seen}, share {share}"
        );
    }
}

#[test]
fn the_latest_record_is_the_most_popular_and_the_popular_ones_move() {
    let choice = Choice::new(RequestDistribution::Latest, 1);
    let mut rng = rng(31);
    for visible in [1u64, 100, 5000] {
        let zeta: f64 = (1..=visible).map(|rank| (rank as f64).powf(-0.99)).sum();
        let mut newest = [0; 2];
        for _ in 0..DRAWS {
            let record = choice.draw(visible, &mut rng);
            assert!(record < visible);
            if let Some(count) = newest.get_mut((visible - 1 - record) as usize) {
                *count += 1;
            }
        }
        assert!(
            is_near(newest[0], 1.0 / zeta),
            "seed 31, {visible}: {newest:?}"
        );
        if visible > 1 {
            let second = 2f64.powf(-0.99) / zeta;
            assert!(is_near(newest[1], second), "seed 31, {visible}: {newest:?}");
        }
    }
}

#[test]
fn new_records_are_asked_for_once_they_are_there_and_never_before() {
    let choice = Choice::new(RequestDistribution::Zipfian, 200);
    let mut rng = rng(41);
    assert!(
        (0..20_000).all(|_| choice.draw(100, &mut rng) < 100),
        "seed 41"
    );
    let new = (0..20_000).filter(|_| choice.draw(200, &mut rng) >= 100);
    assert!(new.count() > 2_000, "seed 41");
    // More inserts than expected: those beyond are reached as well.
    assert!(
        (0..20_000).any(|_| choice.draw(400, &mut rng) >= 200),
        "seed 41"
    );
}

#[test]
fn a_record_is_visible_when_all_before_it_are_done() {
    let inserts = Inserts::after(10);
    let numbers = [inserts.begin(), inserts.begin(), inserts.begin()];
    assert_eq!(numbers, [10, 11, 12]);
    inserts.end(12);
    inserts.end(11);
    assert_eq!(inserts.visible(), 10);
    inserts.end(10);
    assert_eq!(inserts.visible(), 13);
}

#[test]
fn scans_are_1_to_100_rows_long_each_length_equally_often() {
    let mut rng = rng(51);
    let mut seen = [0; 101];
    for _ in 0..DRAWS {
        seen[scan_rows(SCAN_ROWS_MAX, &mut rng) as usize] += 1;
    }
    assert_eq!(seen[0], 0);
    assert!(
        seen[1..].iter().all(|&count| is_near(count, 0.01)),
        "seed 51: {seen:?}"
    );
}

#[test]
fn keys_and_values_look_as_in_ycsb() {
    // FNV-1a of eight zero bytes is 0xA8C7F832281A39C5, negative as a signed number.
    assert_eq!(fnv_hash(0), 0xA8C7_F832_281A_39C5u64.wrapping_neg());
    assert_eq!(key_of(0), "user6284781860667377211");
    let value = text(&mut rng(61));
    assert_eq!(value.len(), FIELD_BYTES);
    assert!(value.iter().all(|byte| (b' '..=b'_').contains(byte)));
}
