use super::*;
use crate::test_rng::{TestRng, for_seeds};

fn near(seen: u32, expected: f64, share: f64) {
    let error = (f64::from(seen) - expected).abs();
    assert!(error <= expected * share, "{seen} is not near {expected}");
}

#[test]
fn scans_cost_a_base_and_each_row() {
    for_seeds(200, |_, rng| {
        let (base, row) = (100 + rng.below(2000), 1 + rng.below(50));
        let mut estimate = Estimate::of_class(Class::Scan);
        for _ in 0..200 {
            let rows = 1 + rng.below(5000);
            estimate.on_answer((base + rows * row) as u32, rows as u32, rows as u32 * 1024);
        }
        for rows in [500, 2500, 5000] {
            near(
                estimate.work_us(rows as u32),
                (base + rows * row) as f64,
                0.1,
            );
        }
        near(estimate.row_us().round() as u32, row as f64, 0.1);
    });
}

#[test]
fn waiting_in_the_node_hardly_raises_the_prediction() {
    for_seeds(200, |_, rng| {
        let mut estimate = Estimate::of_class(Class::Point);
        for _ in 0..2000 {
            // Every other answer was queued behind others.
            let waited = if rng.below(2) == 0 {
                rng.below(2000)
            } else {
                0
            };
            estimate.on_answer((200 + waited) as u32, 1, 80);
        }
        let work = estimate.work_us(1);
        assert!((200..500).contains(&work), "{work}");
    });
}

#[test]
fn a_statement_that_became_cheaper_is_noticed_at_once_and_dearer_in_time() {
    let mut estimate = Estimate::of_class(Class::Slice);
    let mut answers = |count, us| {
        (0..count).for_each(|_| estimate.on_answer(us, 10, 1000));
        estimate.work_us(10)
    };
    near(answers(300, 4000), 4000.0, 0.05);
    near(answers(200, 400), 400.0, 0.2);
    assert!(answers(20, 4000) < 1000);
    near(answers(2000, 4000), 4000.0, 0.05);
}

#[test]
fn what_was_never_seen_is_predicted_from_its_class() {
    let of = |class| Estimate::of_class(class).typical_us();
    assert!(of(Class::Write) < of(Class::Slice));
    assert!(of(Class::Point) < of(Class::Slice) && of(Class::Slice) < of(Class::Scan));
    let slice = Estimate::of_class(Class::Slice);
    assert_eq!(
        (slice.rows(), slice.bytes(), slice.samples()),
        (100.0, 10_000.0, 0)
    );
}

#[test]
fn rows_and_bytes_are_means_of_what_has_come() {
    let mut estimate = Estimate::of_class(Class::Scan);
    (0..400).for_each(|_| estimate.on_answer(5000, 50, 4000));
    near(estimate.rows() as u32, 50.0, 0.05);
    near(estimate.bytes() as u32, 4000.0, 0.05);
    assert_eq!(estimate.samples(), 400);
}

#[test]
fn a_row_costs_what_its_class_says_until_rows_vary() {
    // Between 97 and 103 rows the times say nothing about a row.
    let mut estimate = Estimate::of_class(Class::Slice);
    for turn in 0..200 {
        estimate.on_answer(1000 + 600 * (turn % 2), 97 + 6 * (turn % 2), 1000);
    }
    assert_eq!(estimate.row_us(), 5.0);
    // Nor do three answers, however different.
    let mut estimate = Estimate::of_class(Class::Slice);
    for rows in [10, 500, 1000] {
        estimate.on_answer(500 + 50 * rows, rows, 1000);
    }
    assert_eq!(estimate.row_us(), 5.0);
    estimate.on_answer(500, 0, 0);
    assert!(estimate.row_us() > 30.0);
    // All rows together never cost more than the whole.
    let mut estimate = Estimate::of_class(Class::Multi);
    (0..200).for_each(|_| estimate.on_answer(1000, 100, 1000));
    near(estimate.row_us() as u32, 10.0, 0.1);
}

#[test]
fn any_answers_leave_a_finite_prediction() {
    for_seeds(500, |_, rng| {
        let mut estimate = Estimate::of_class(Class::ALL[rng.below(Class::COUNT)]);
        for _ in 0..200 {
            let mut wild = || (rng.next() as u32) >> rng.below(32);
            estimate.on_answer(wild(), wild(), wild());
            assert!(estimate.row_us().is_finite());
            assert!(estimate.work_us(wild()) >= 1 && estimate.typical_us() >= 1);
        }
    });
}

#[test]
fn rows_fill_a_time_and_outweigh_what_an_answer_costs_without_them() {
    let learned = |base_us: u32, row_us: u32| {
        let mut estimate = Estimate::of_class(Class::Scan);
        for turn in 0..400 {
            let rows = 50 + 40 * (turn % 11);
            estimate.on_answer(base_us + row_us * rows, rows, 100 * rows);
        }
        estimate
    };
    let near = |rows: u32, expected: u32| rows.abs_diff(expected) <= expected / 8;
    let cheap = learned(300, 20);
    assert!(
        near(cheap.rows_in(10_000), 485),
        "{}",
        cheap.rows_in(10_000)
    );
    assert!(near(cheap.rows_in(1_000), 135), "{}", cheap.rows_in(1_000));
    let dear = learned(5_000, 20);
    assert!(
        near(dear.rows_in(10_000), 4 * dear.rows() as u32),
        "{}",
        dear.rows_in(10_000)
    );
    // Pieces of one size do not tell what one without rows would cost.
    let mut alike = Estimate::of_class(Class::Scan);
    for _ in 0..4_001 {
        alike.on_answer(50_000, 500, 50_000);
    }
    assert!(
        near(alike.rows_in(10_000), 100),
        "{}",
        alike.rows_in(10_000)
    );
    // So some are larger.
    (0..7).for_each(|_| alike.on_answer(50_000, 500, 50_000));
    assert!(near(alike.rows_in(10_000), 1_000));
    assert!(Estimate::of_class(Class::Scan).rows_in(0) >= 1);
}

/// Rows of a piece, after a while, where scans of 5,000 rows come in pieces of at least 500 that are to take
/// 10 ms, with noise as a node adds that gets a share of a core.
fn piece_rows(estimate: &mut Estimate, base_us: u32, row_us: u32, rng: &mut TestRng) -> u32 {
    let mut pieces = 0;
    for scan in 0..300 {
        let mut left = 5_000;
        while left > 0 {
            let rows = estimate.rows_in(10_000).max(500).min(left);
            let waited_us = rng.below(8_000) as u32;
            estimate.on_answer(base_us + row_us * rows + waited_us, rows, 100 * rows);
            left -= rows;
            pieces += u32::from(scan >= 200);
        }
    }
    100 * 5_000 / pieces
}

#[test]
fn what_was_learned_under_load_does_not_keep_pieces_small() {
    for_seeds(50, |seed, rng| {
        let mut estimate = Estimate::of_class(Class::Scan);
        // Nodes that have far more to do than they can, and scans that come whole.
        for _ in 0..264 {
            let us = 900_000 + rng.below(400_000) as u32;
            estimate.on_answer(us, 5_000, 500_000);
        }
        let rows = piece_rows(&mut estimate, 25_000, 24, rng);
        assert!(rows > 2_000, "seed {seed}: {rows} rows a piece");
        // Where rows are all that a piece costs, it stays small, but for those that are tried.
        let rows = piece_rows(&mut Estimate::of_class(Class::Scan), 0, 80, rng);
        assert!(rows < 800, "seed {seed}: {rows} rows a piece");
    });
}

/// Which would otherwise be taken for long work, and stay among the scans.
#[test]
fn a_pause_of_a_node_is_forgotten_after_a_hundred_answers() {
    let mut estimate = Estimate::of_class(Class::Slice);
    let usual = |estimate: &mut Estimate| estimate.on_answer(3_000, 10, 1_000);
    (0..200).for_each(|_| usual(&mut estimate));
    // The requests that were in flight when it stood still for a second.
    for late in 0..64 {
        estimate.on_answer(1_000_000 - late * 15_000, 10, 1_000);
    }
    assert!(estimate.typical_us() > 50_000, "{}", estimate.typical_us());
    (0..100).for_each(|_| usual(&mut estimate));
    assert!(estimate.typical_us() < 10_000, "{}", estimate.typical_us());
}
