use super::*;
use crate::test_rng::for_seeds;

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
fn what_was_never_seen_is_predicted_from_class_and_sizes() {
    let of = |class| Estimate::of_class(class).typical_us();
    assert!(of(Class::Write) < of(Class::Slice));
    assert!(of(Class::Point) < of(Class::Slice) && of(Class::Slice) < of(Class::Scan));
    let small = Estimate::of_sizes(1000, 100);
    let large = Estimate::of_sizes(1000, 100_000);
    assert!(small.work_us(500) * 20 < large.work_us(500));
    assert!(large.work_us(10) < large.work_us(500));
    // A table of which nothing is known, or with absurd estimates.
    assert!(Estimate::of_sizes(0, 0).work_us(0) >= 1);
    assert!(Estimate::of_sizes(u64::MAX, u64::MAX).work_us(u32::MAX) > 0);
}

#[test]
fn any_answers_leave_a_finite_prediction() {
    for_seeds(500, |_, rng| {
        let mut estimate = Estimate::of_class(Class::ALL[rng.below(Class::COUNT)]);
        for _ in 0..200 {
            let mut wild = || (rng.next() as u32) >> rng.below(32);
            estimate.on_answer(wild(), wild(), wild());
            assert!(estimate.row_us().is_finite() && estimate.deviation_us().is_finite());
            assert!(estimate.work_us(wild()) >= 1 && estimate.typical_us() >= 1);
        }
    });
}
