use helenus_wire::{ErrorBody, Opcode, Version, code};

use super::*;
use crate::config::Config;
use crate::testing::bench::{Asking, BIGINT, Bench, TABLE, no_rows};

const FILTER: &str = "SELECT total FROM app.orders WHERE total = 1 ALLOW FILTERING";
const S: fn(u64) -> Duration = Duration::from_secs;

fn bench(page_timeout_ms: u64, request_timeout_ms: Option<u64>) -> Bench {
    let mut config = Config::default();
    config.limits.page_timeout_ms = page_timeout_ms;
    config.limits.request_timeout_ms = request_timeout_ms;
    // The node is slow, and not suspected of being gone.
    config.links.silence_ms = 600_000;
    Bench::with(config, (Version::V5, Version::V5))
}

fn nothing() -> Vec<u8> {
    no_rows(TABLE, &[("total", BIGINT)])
}

/// A node takes so long for each stretch of a filter that finds nothing. After how long its client is
/// answered, and with what; and how many stretches were sent.
fn filter(bench: &mut Bench, each: Duration) -> (Duration, (Opcode, Vec<u8>), usize) {
    let asking = Asking {
        page_size: Some(100),
        ..Asking::default()
    };
    let begun = bench.now;
    bench.ask(Opcode::Query, 3, &asking.query(Version::V5, FILTER));
    let mut sent = 0;
    loop {
        for (opcode, stream, _) in bench.at_node() {
            assert_eq!(opcode, Opcode::Query);
            sent += 1;
            bench.wait(each);
            bench.say(Opcode::Result, stream, &nothing());
        }
        let took = bench.now - begun;
        assert!(took < S(3_600), "{sent} stretches");
        if let Some((opcode, _, body)) = bench.answers().pop() {
            // Stretches that were on their way by then.
            for (_, stream, _) in bench.at_node() {
                bench.say(Opcode::Result, stream, &nothing());
            }
            return (took, (opcode, body), sent);
        }
    }
}

#[test]
fn a_page_read_in_stretches_has_a_limit_after_which_nothing_is_read_for_it() {
    let mut bench = bench(60_000, None);
    let (took, (opcode, body), sent) = filter(&mut bench, S(5));
    assert_eq!(opcode, Opcode::Error);
    let error = ErrorBody::parse(&body).expect("an error");
    assert_eq!(error.code, code::READ_TIMEOUT);
    // The client's level; of one replica that had to answer none has, nor with data.
    assert_eq!(error.fields, [0, 6, 0, 0, 0, 0, 0, 0, 0, 1, 0]);
    assert!(error.message.contains("60s"), "{}", error.message);
    assert!((S(60)..S(66)).contains(&took), "{took:?}");
    assert!(sent > 5, "{sent} stretches");
    bench.is_done();
    bench.wait(S(20));
    bench.is_done();
}

#[test]
fn a_page_that_is_complete_before_has_none() {
    let mut bench = bench(60_000, None);
    let (_, (opcode, body), sent) = filter(&mut bench, Duration::from_millis(100));
    assert_eq!((opcode, body), (Opcode::Result, nothing()));
    assert!(sent > 5, "{sent} stretches");
    bench.is_done();
}

#[test]
fn a_page_has_at_least_as_long_as_a_node_has_for_one() {
    let limit = |page_ms, request_ms| bench(page_ms, request_ms).engine.page_limit();
    assert_eq!(limit(60_000, None), S(60));
    assert_eq!(limit(1_000, None), S(12));
    assert_eq!(limit(1_000, Some(2_000)), S(2));
    assert_eq!(limit(60_000, Some(90_000)), S(90));
}
