//! One seed is one history, in whichever process: nothing depends on addresses in memory, on the seeds of hash tables, or on
//! the machine's clock.

use std::process::Command;
use std::time::Instant;

use helenus_sim::chaos::run;

/// Enough for layouts, rings that change, merged writes and logins.
const SEEDS: std::ops::Range<u64> = 0..12;

/// Each run's last words and what everything before comes to, a line a seed.
fn histories() -> String {
    let history = |seed: u64| {
        #[allow(clippy::disallowed_methods)]
        let (outcome, log) = run(seed, Instant::now(), true);
        let lines = log.lines().count();
        assert!(lines > 100, "seed {seed}: {log}");
        // FNV-1a.
        let hash = log.bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        let is_ok = outcome.is_ok();
        format!("HISTORY of {seed}: {lines} lines, {hash:x}, {is_ok}\n")
    };
    SEEDS.map(history).collect()
}

#[test]
#[ignore = "run by the other test"]
fn histories_for_another_process() {
    print!("{}", histories());
}

#[test]
fn a_seed_gives_the_same_history_in_another_process() {
    let program = std::env::current_exe().expect("this program");
    let other = Command::new(program)
        .args(["--exact", "histories_for_another_process"])
        .args(["--ignored", "--nocapture"])
        .output()
        .expect("it runs");
    let said = String::from_utf8_lossy(&other.stdout);
    // The harness's own words may stand in front of the first.
    let lines = said
        .lines()
        .filter_map(|line| Some(&line[line.find("HISTORY")?..]));
    let lines: Vec<&str> = lines.collect();
    let own = histories();
    assert_eq!(lines, own.lines().collect::<Vec<_>>(), "{said}");
}
