use std::time::Duration;

use helenus_policy::turns::STALE_MAX;
use helenus_wire::{Opcode, Version};

use crate::config::Config;
use crate::testing::bench::{Asking, Bench, TABLE, rows};

const BOOLEAN: u16 = 0x4;
const MS: fn(u64) -> Duration = Duration::from_millis;

fn pass(bench: &mut Bench, time: Duration) {
    bench.now += time;
    bench.engine.on_deadline(bench.now, Duration::ZERO);
}

/// A node's answer to a condition.
fn condition(holds: bool) -> Vec<u8> {
    rows(
        TABLE,
        &[("[applied]", BOOLEAN)],
        None,
        &[&[u8::from(holds)]],
    )
}

#[test]
fn conditional_writes_of_a_partition_take_turns_until_what_waits_goes_on_failing() {
    let mut config = Config::default();
    config.aggregation.lwt_turns = true;
    let mut bench = Bench::with(config, (Version::V5, Version::V5));
    let text = "UPDATE app.orders SET total = 2 WHERE customer = 1 AND day = 1 IF total = 1";
    let write = Asking::default().query(Version::V5, text);
    (1..=14).for_each(|stream| bench.ask(Opcode::Query, stream, &write));
    let one_at_node = |bench: &mut Bench| match bench.at_node()[..] {
        [(_, stream, _)] => stream,
        ref sent => panic!("{sent:?}"),
    };
    for holds in [true, true, false, false, true] {
        let stream = one_at_node(&mut bench);
        bench.say(Opcode::Result, stream, &condition(holds));
        // Longer than a partition is kept for one whose condition has failed.
        pass(&mut bench, MS(20));
    }
    for _ in 0..STALE_MAX - 1 {
        let stream = one_at_node(&mut bench);
        bench.say(Opcode::Result, stream, &condition(false));
        pass(&mut bench, MS(20));
    }
    let stream = one_at_node(&mut bench);
    assert_eq!(bench.answers().len(), 12);
    bench.say(Opcode::Result, stream, &condition(false));
    assert_eq!(bench.at_node().len(), 1, "the last one");
    (20..=24).for_each(|stream| bench.ask(Opcode::Query, stream, &write));
    assert_eq!(bench.at_node().len(), 5, "those that come after it");
}
