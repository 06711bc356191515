use std::time::Duration;

use helenus_wire::{Opcode, Version};

use crate::config::Config;
use crate::output::Output;
use crate::shared::WorkerMessage;
use crate::testing::bench::{Asking, BIGINT, Bench, no_rows};
use crate::testing::{envelopes, open_links, take_sent};

const VERSION: Version = Version::V5;

fn ask(bench: &mut Bench, stream: i16) {
    let text = format!("SELECT total FROM app.others WHERE customer = {stream}");
    let body = Asking::default().query(VERSION, &text);
    bench.ask(Opcode::Query, stream, &body);
}

#[test]
fn a_link_that_is_replaced_answers_what_it_has_and_gets_nothing_more() {
    let mut bench = Bench::with(Config::default(), (VERSION, VERSION));
    ask(&mut bench, 1);
    let (_, stream, _) = bench.one_at_node();
    let renew = |node| WorkerMessage::Renew(node);
    let other = std::net::SocketAddr::from(([10, 0, 0, 9], 9042));
    bench.engine.on_message(bench.now, renew(Some(other)));
    assert!(open_links(&mut bench.engine, bench.now, VERSION).is_empty());
    bench.engine.on_message(bench.now, renew(None));
    // It has to wait for the new link, as there is no other.
    ask(&mut bench, 2);
    let opened = open_links(&mut bench.engine, bench.now, VERSION);
    let [(_, new)] = opened[..] else {
        panic!("{} links", opened.len());
    };
    assert_eq!(bench.at_node(), []);
    let sent = envelopes(true, &take_sent(&mut bench.engine, new));
    assert!(sent.iter().any(|(opcode, ..)| *opcode == Opcode::Query));
    bench.wait(Duration::from_millis(300));
    let nothing = no_rows("others", &[("total", BIGINT)]);
    let is_closed = |bench: &mut Bench| {
        let mut closed = 0;
        while let Some(output) = bench.engine.poll_output() {
            assert!(
                !matches!(output, Output::Dial(..)),
                "one new link is enough"
            );
            closed += usize::from(matches!(output, Output::Link(_)));
        }
        closed > 0
    };
    assert!(!is_closed(&mut bench), "it has something to answer");
    bench.say(Opcode::Result, stream, &nothing);
    assert_eq!(bench.answer().0, Opcode::Result);
    bench.wait(Duration::from_millis(200));
    assert!(is_closed(&mut bench));
    assert_eq!(bench.engine.contradictions(), Vec::<String>::new());
}
