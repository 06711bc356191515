//! Reads of layouts that a second replica is asked for.

use super::*;

/// A read of the layout that a node has not answered for longer than usual, so that the other has been
/// asked as well; the nodes and the streams there.
fn hedged() -> (Bench, [(usize, i16); 2]) {
    let mut config = Config::default();
    config.layouts.enabled = true;
    let mut bench = Bench::with_nodes(2, config, (Version::V4, Version::V4));
    bench.renew();
    let text = "SELECT day FROM app.orders WHERE customer = 7 AND status = 'open' ALLOW FILTERING";
    let body = Asking::default().query(Version::V4, text);
    let sent = |bench: &mut Bench| {
        let at = |node| {
            bench
                .at(node)
                .into_iter()
                .map(move |(_, stream, body)| (node, stream, body))
        };
        (0..2).flat_map(at).collect::<Vec<_>>()
    };
    // How long it usually takes is learned first.
    bench.ask(Opcode::Query, 2, &body);
    let (node, stream, _) = sent(&mut bench).remove(0);
    let page = rows(LAYOUT, &COLUMNS, None, &CELLS);
    bench.say_as(node, Opcode::Result, stream, &page);
    assert_eq!(bench.answer().0, Opcode::Result);
    bench.ask(Opcode::Query, 3, &body);
    let (first, first_stream, asked) = sent(&mut bench).remove(0);
    for _ in 0..5 {
        bench.now += Duration::from_millis(10);
        bench.engine.on_deadline(bench.now, Duration::ZERO);
    }
    let (second, second_stream, again) = sent(&mut bench).remove(0);
    assert_ne!(first, second);
    assert_eq!(asked, again);
    let view = QueryView::parse(&again, Version::V4).expect("a QUERY");
    assert!(view.text.contains(LAYOUT), "{}", view.text);
    (bench, [(first, first_stream), (second, second_stream)])
}

#[test]
fn a_slow_read_of_a_layout_is_asked_of_a_second_replica() {
    let (mut bench, [_, (second, stream)]) = hedged();
    let page = rows(LAYOUT, &COLUMNS, None, &CELLS);
    bench.say_as(second, Opcode::Result, stream, &page);
    let expected = rows(TABLE, &COLUMNS, None, &CELLS);
    assert_eq!(bench.answer(), (Opcode::Result, expected));
    bench.is_done();
}

#[test]
fn the_table_is_read_when_both_replicas_cannot_read_the_layout() {
    let (mut bench, attempts) = hedged();
    let mut gone = Vec::new();
    let error = ErrorBody {
        code: code::INVALID,
        message: "table orders__layout_a does not exist",
        fields: &[],
    };
    error.write(&mut gone);
    for (at, (node, stream)) in attempts.into_iter().enumerate() {
        assert!(at == 0 || bench.at(0).is_empty() && bench.at(1).is_empty());
        bench.say_as(node, Opcode::Error, stream, &gone);
        assert_eq!(bench.answers(), []);
    }
    let at = |node| bench.at(node).into_iter().map(move |of| (node, of));
    let mut sent: Vec<_> = (0..2).flat_map(at).collect();
    let (node, (_, stream, body)) = sent.remove(0);
    let view = QueryView::parse(&body, Version::V4).expect("a QUERY");
    assert!(!view.text.contains(LAYOUT), "{}", view.text);
    bench.say_as(
        node,
        Opcode::Result,
        stream,
        &rows(TABLE, &COLUMNS, None, &CELLS),
    );
    assert_eq!(bench.answer().0, Opcode::Result);
    bench.is_done();
}
