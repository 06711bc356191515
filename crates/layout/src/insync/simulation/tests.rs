use super::checks::Counts;
use super::world::run;
use super::{Bug, Faults, Guarantee, SECOND, Setup};
use crate::insync::Timing;
use crate::rng::Rng;
use crate::testing::for_seeds;

/// Seeds that every test runs. More: `HELENUS_SEEDS=20000`.
const SEEDS: u64 = 150;

fn setup(seed: u64, bug: Option<Bug>) -> Setup {
    let mut rng = Rng::new(seed ^ 0x5e7);
    let timing = Timing {
        lease_us: SECOND,
        drift_ppm: [1_000, 100_000][rng.below(2)],
        late_us: 1_500_000,
        patience_us: 300_000,
    };
    Setup {
        timing,
        copies: 2 + rng.below(2),
        hosts: 1 + rng.below(4),
        guarantee: [Guarantee::AllCopies, Guarantee::EachCopy][rng.below(2)],
        faults: Faults::Any,
        bug,
    }
}

#[test]
fn what_is_promised_holds_whatever_fails() {
    let mut all = Counts::default();
    let is_one = std::env::var("HELENUS_SEED").is_ok();
    for_seeds(SEEDS, |seed, _| {
        let counts = run(seed, setup(seed, None), is_one).unwrap_or_else(|e| panic!("{e}"));
        all.acknowledged += counts.acknowledged;
        all.read += counts.read;
        all.written_back += counts.written_back;
        all.evicted += counts.evicted;
        all.promoted += counts.promoted;
        all.resynchronised += counts.resynchronised;
        all.completed_by_newcomer += counts.completed_by_newcomer;
    });
    println!("{all:?}");
    let reached = [
        all.written_back,
        all.evicted,
        all.promoted,
        all.resynchronised,
        all.completed_by_newcomer,
    ];
    assert!(is_one || reached.iter().all(|count| *count > SEEDS / 10));
}
