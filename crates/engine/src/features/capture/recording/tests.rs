use std::time::Duration;

use helenus_capture::{Answer, MIRROR_NAME, Reader, Recorded, Start, Value, kinds};
use helenus_wire::{Opcode, Version, code, flags, write};

use super::*;
use crate::config::Config;
use crate::shared::WorkerMessage;
use crate::testing::bench::{Asking, BIGINT, Bench, Spec, rows};

const READ: &str = "SELECT total FROM app.others WHERE customer = 4711";
const SHOWN: &str = "SELECT total FROM app.others WHERE customer = ?";
const TEXT: u16 = 0xD;
const COLUMNS: [Spec; 1] = [("total", BIGINT)];

fn bench() -> Bench {
    Bench::with(Config::default(), (Version::V5, Version::V5))
}

fn wanted(bench: &Bench) -> Wanted {
    Wanted {
        ticket: 1,
        began: bench.now,
        until: bench.now + Duration::from_secs(60),
        share_ppm: 1_000_000,
        has_values: false,
        salt: [7; 16],
    }
}

fn begin(bench: &mut Bench, wanted: Wanted) {
    let message = WorkerMessage::Feature(features::Message::Capture(Some(Arc::new(wanted))));
    bench.engine.on_message(bench.now, message);
}

fn end(bench: &mut Bench) -> Vec<Captured> {
    bench.engine.on_message(
        bench.now,
        WorkerMessage::Feature(features::Message::Capture(None)),
    );
    assert!(bench.engine.cx().features.capture.is_none());
    captured(bench)
}

fn captured(bench: &mut Bench) -> Vec<Captured> {
    let outputs = std::iter::from_fn(|| bench.engine.poll_output());
    outputs
        .filter_map(|output| match output {
            Output::Feature(features::Output::Captured(captured)) => Some(captured),
            _ => None,
        })
        .collect()
}

/// The records of blocks, answered and waiting; and their bytes.
fn read(
    blocks: &[Captured],
) -> (
    Vec<Recorded>,
    Vec<Recorded>,
    Vec<u8>,
    Vec<helenus_capture::Statement>,
) {
    let mut file = Start::default().to_bytes();
    blocks.iter().for_each(|of| file.extend(&of.block));
    let mut reader = Reader::open(&file[..]).expect("a capture");
    let (mut answered, mut waiting) = (Vec::new(), Vec::new());
    while reader
        .next_chunk(|recorded| match recorded.answer {
            Some(_) => answered.push(recorded),
            None => waiting.push(recorded),
        })
        .expect("readable")
    {}
    let statements = reader
        .statements()
        .iter()
        .map(|of| (**of).clone())
        .collect();
    (answered, waiting, file, statements)
}

fn ask(bench: &mut Bench, stream: i16, text: &str) {
    let body = Asking::default().query(bench.versions.0, text);
    bench.ask(Opcode::Query, stream, &body);
}

fn answer(bench: &mut Bench) -> usize {
    let (_, stream, _) = bench.one_at_node();
    bench.now += Duration::from_millis(3);
    let page = rows("others", &COLUMNS, None, &[&[0; 8]]);
    bench.say(Opcode::Result, stream, &page);
    bench.answer().1.len()
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

#[test]
fn a_request_is_recorded_with_its_answer_and_without_its_values() {
    let mut bench = bench();
    ask(&mut bench, 1, READ);
    answer(&mut bench);
    let wanted = wanted(&bench);
    begin(&mut bench, wanted);
    bench.now += Duration::from_millis(10);
    ask(&mut bench, 1, READ);
    let bytes = answer(&mut bench);
    ask(
        &mut bench,
        1,
        "SELECT total FROM app.others WHERE customer = 42",
    );
    let (_, stream, _) = bench.one_at_node();
    bench.say_error(stream, code::OVERLOADED, "too much", &[]);
    bench.error();
    ask(&mut bench, 1, READ);
    answer(&mut bench);
    // A request that waits when the capture ends has no answer.
    ask(&mut bench, 1, READ);
    let blocks = end(&mut bench);
    let (found, waiting, file, statements) = read(&blocks);
    assert_eq!((found.len(), waiting.len()), (3, 1));
    let [statement] = &statements[..] else {
        panic!("{statements:?}");
    };
    assert_eq!(statement.text, SHOWN);
    assert_eq!(statement.kinds, kinds::READ | kinds::WHOLE);
    assert_eq!(statement.sent, None);
    let first = &found[0];
    assert_eq!(first.request.arrived_us, 10_000);
    let answer = Answer {
        took_us: 3_000,
        bytes: bytes as u64,
        error: None,
    };
    assert_eq!(first.answer, Some(answer));
    let error = found[1].answer.and_then(|answer| answer.error);
    assert_eq!(error, Some(code::OVERLOADED as u32));
    // Equal keys stay equal, others differ, and neither is what it was.
    let keys: Vec<_> = found.iter().map(|of| of.request.key).collect();
    assert!(keys[0].is_some() && keys[0] == keys[2] && keys[0] != keys[1]);
    assert!(!contains(&file, b"4711") && !contains(&file, &4711_u64.to_be_bytes()));
    assert!(!contains(&file, &4711_u64.to_le_bytes()));
}

#[test]
fn keys_are_hashed_differently_in_each_capture() {
    let mut bench = bench();
    let mut keys = Vec::new();
    for salt in [[1; 16], [2; 16]] {
        let wanted = Wanted {
            salt,
            ..wanted(&bench)
        };
        begin(&mut bench, wanted);
        ask(&mut bench, 1, READ);
        answer(&mut bench);
        let blocks = end(&mut bench);
        keys.push(read(&blocks).0[0].request.key);
    }
    assert_ne!(keys[0], keys[1]);
}

#[test]
fn bound_values_are_recorded_by_their_sizes_or_if_wanted_whole() {
    let mut bench = bench();
    bench.prepare_of(("app", "others"), SHOWN, b"id", &[("customer", BIGINT)]);
    for has_values in [false, true] {
        let wanted = Wanted {
            has_values,
            ..wanted(&bench)
        };
        begin(&mut bench, wanted);
        let secret = 0x0123_4567_89AB_CDEF_u64.to_be_bytes();
        let body = Asking {
            values: &[&secret],
            ..Asking::default()
        };
        let body = body.execute(bench.versions.0, b"id");
        bench.ask(Opcode::Execute, 3, &body);
        answer(&mut bench);
        let blocks = end(&mut bench);
        let (found, _, file, statements) = read(&blocks);
        let value = match has_values {
            true => Value::Bytes(secret.to_vec()),
            false => Value::Sized(8),
        };
        assert_eq!(found[0].parts, [(0, vec![value])]);
        assert_eq!(contains(&file, &secret), has_values);
        assert_eq!(statements[0].sent.is_some(), has_values);
    }
}

#[test]
fn answers_are_measured_without_warnings_and_as_the_client_wants_them() {
    let mut bench = bench();
    bench.prepare_of(("app", "others"), SHOWN, b"id", &[("customer", BIGINT)]);
    let wanted = wanted(&bench);
    begin(&mut bench, wanted);
    let key = [0; 8];
    for skip_metadata in [false, true] {
        let body = Asking {
            values: &[&key],
            skip_metadata,
            ..Asking::default()
        };
        let body = body.execute(bench.versions.0, b"id");
        bench.ask(Opcode::Execute, 3, &body);
        let (cx, session) = (bench.engine.cx_mut(), bench.client);
        let mut warned = vec![0, 1];
        write::string(&mut warned, "too many tombstones");
        warned.extend([0; 77]);
        super::on_sent(cx, (session, 3), Opcode::Result, flags::WARNING, &warned);
        answer(&mut bench);
    }
    let blocks = end(&mut bench);
    let (found, ..) = read(&blocks);
    let recorded = found.iter().map(|of| {
        (
            of.request.skips_metadata(),
            of.answer.map(|answer| answer.bytes),
        )
    });
    assert_eq!(
        recorded.collect::<Vec<_>>(),
        [(false, Some(77)), (true, Some(77))]
    );
}

#[test]
fn what_sends_captured_requests_on_is_not_captured_itself() {
    let mut bench = bench();
    let clients = [MIRROR_NAME, "shop"].map(|name| bench.another(name));
    let wanted = wanted(&bench);
    begin(&mut bench, wanted);
    for client in clients {
        let body = Asking::default().query(bench.versions.0, READ);
        bench.ask_as(client, Opcode::Query, 1, &body);
    }
    let blocks = end(&mut bench);
    let (_, waiting, ..) = read(&blocks);
    assert_eq!(waiting.len(), 1);
}

#[test]
fn passwords_are_never_recorded() {
    let mut bench = bench();
    let wanted = Wanted {
        has_values: true,
        ..wanted(&bench)
    };
    begin(&mut bench, wanted);
    for (client, text) in [
        (
            1,
            "CREATE ROLE r WITH PASSWORD = 'hunter2' AND LOGIN = true",
        ),
        (2, "CREAT ROLE r WITH PASSWORD = 'hunter2'"),
        (3, "INSERT INTO t (k, v) VALUES (1, [john.hunter2])"),
        (4, "GRANT SELECT ON app.t TO hunter2"),
        (5, "LIST ALL PERMISSIONS OF hunter2"),
        (6, "ADD IDENTITY 'hunter2' TO ROLE r"),
        (
            7,
            "INSERT INTO system_auth.roles (role, salted_hash) VALUES ('r', 'hunter2')",
        ),
        (
            8,
            "BEGIN BATCH UPDATE system_auth.roles SET salted_hash = 'hunter2' WHERE role = 'r' APPLY BATCH",
        ),
    ] {
        ask(&mut bench, client, text);
        for (_, stream, _) in bench.at_node() {
            bench.say_error(stream, code::SYNTAX, "no", &[]);
        }
        bench.answers();
    }
    let blocks = end(&mut bench);
    let (found, waiting, file, _) = read(&blocks);
    assert_eq!(found.len() + waiting.len(), 8);
    assert!(!contains(&file, b"hunter2"));
}

#[test]
fn values_in_place_of_names_are_not_recorded_of_what_nodes_refuse() {
    let mut bench = bench();
    let wanted = wanted(&bench);
    begin(&mut bench, wanted);
    for (client, (text, error)) in [
        ("SELECT hunter2 FROM app.others", code::INVALID),
        ("SELECT hunter2 FROM app.others", code::SYNTAX),
        (
            "UPDATE app.others SET m = {\"hunter2\": 1} WHERE customer = 1",
            code::INVALID,
        ),
        (
            "UPDATE app.others SET m = {\"hunter2\": 1} WHERE customer = 1",
            code::UNAUTHORIZED,
        ),
    ]
    .into_iter()
    .enumerate()
    {
        ask(&mut bench, client as i16, text);
        for (_, stream, _) in bench.at_node() {
            bench.say_error(stream, error, "no", &[]);
        }
        bench.answers();
    }
    let blocks = end(&mut bench);
    let (found, _, file, _) = read(&blocks);
    assert_eq!(found.len(), 4);
    assert!(!contains(&file, b"hunter2"));
}

#[test]
fn what_is_bound_to_tables_of_the_system_is_not_recorded() {
    let mut bench = bench();
    let text = "INSERT INTO system_auth.roles (role, salted_hash) VALUES (?, ?)";
    bench.prepare_of(
        ("system_auth", "roles"),
        text,
        b"id",
        &[("role", TEXT), ("salted_hash", TEXT)],
    );
    let wanted = Wanted {
        has_values: true,
        ..wanted(&bench)
    };
    begin(&mut bench, wanted);
    let body = Asking {
        values: &[b"r", b"hunter2"],
        ..Asking::default()
    };
    let body = body.execute(bench.versions.0, b"id");
    bench.ask(Opcode::Execute, 3, &body);
    let (_, stream, _) = bench.one_at_node();
    bench.say_error(stream, code::UNAUTHORIZED, "no", &[]);
    bench.answers();
    let blocks = end(&mut bench);
    let (found, _, file, statements) = read(&blocks);
    assert_eq!(
        found[0].parts,
        [(0, vec![Value::Sized(1), Value::Sized(7)])]
    );
    assert_ne!(statements[0].kinds & kinds::LOCAL, 0);
    assert!(!contains(&file, b"hunter2"));
}

#[test]
fn what_does_not_mean_what_was_asked_is_marked() {
    let mut bench = bench();
    let wanted = wanted(&bench);
    begin(&mut bench, wanted);
    let long = format!(
        "SELECT total FROM app.others WHERE customer = 1 -- {}",
        "x".repeat(TEXT_BYTES_MAX)
    );
    for (text, is_whole) in [
        (
            "SELECT total FROM app.others WHERE customer = (bigint) 4711",
            true,
        ),
        (
            "SELECT total FROM app.others WHERE customer = (mine) {a: 4711}",
            false,
        ),
        (&*long, false),
    ] {
        ask(&mut bench, 1, text);
        answer(&mut bench);
        let blocks = end(&mut bench);
        let (.., statements) = read(&blocks);
        let kinds = statements[0].kinds;
        assert_eq!(
            kinds & kinds::WHOLE != 0,
            is_whole,
            "{}",
            statements[0].text
        );
        let wanted = self::wanted(&bench);
        begin(&mut bench, wanted);
    }
}

#[test]
fn what_does_not_fit_is_counted_and_memory_stays_bounded() {
    let mut bench = bench();
    let wanted = Wanted {
        has_values: true,
        ..wanted(&bench)
    };
    begin(&mut bench, wanted);
    // Larger than what is recorded of one request.
    let large = format!(
        "SELECT total FROM app.others WHERE customer = {}",
        "1".repeat(2 << 20)
    );
    ask(&mut bench, 1, &large);
    for stream in 2..=200 {
        let text = format!("{SHOWN} -- {}{stream}\n", "x".repeat(60_000)).replace('?', "1");
        ask(&mut bench, stream, &text);
    }
    bench.at_node();
    let blocks = end(&mut bench);
    let (found, waiting, ..) = read(&blocks);
    let lost: u64 = blocks.iter().map(|of| of.lost).sum();
    assert!(lost > 0 && !waiting.is_empty());
    assert_eq!(lost + (found.len() + waiting.len()) as u64, 200);
    let bytes: usize = blocks.iter().map(|of| of.block.len()).sum();
    assert!(bytes <= 9 << 20, "{bytes}");
}

#[test]
fn a_capture_ends_by_itself_and_takes_only_its_share_of_connections() {
    let mut bench = bench();
    let until = bench.now + Duration::from_secs(1);
    let wanted = Wanted {
        until,
        ..wanted(&bench)
    };
    begin(&mut bench, wanted.clone());
    bench.wait(Duration::from_secs(2));
    assert!(bench.engine.cx().features.capture.is_none());
    captured(&mut bench);
    // One connection is either chosen or not, by the salt.
    let mut chosen = 0;
    for salt in 0..64 {
        let wanted = Wanted {
            until: bench.now + Duration::from_secs(60),
            share_ppm: 250_000,
            salt: [salt; 16],
            ..wanted.clone()
        };
        begin(&mut bench, wanted);
        ask(&mut bench, 1, READ);
        answer(&mut bench);
        let blocks = end(&mut bench);
        chosen += read(&blocks).0.len();
    }
    assert!((4..40).contains(&chosen), "{chosen}");
}

#[test]
fn full_chunks_are_handed_over_and_each_stands_alone() {
    let mut bench = bench();
    let wanted = wanted(&bench);
    begin(&mut bench, wanted);
    let mut blocks = Vec::new();
    for _ in 0..6_000 {
        ask(&mut bench, 1, READ);
        answer(&mut bench);
        blocks.extend(captured(&mut bench));
    }
    assert!(blocks.len() >= 2, "{}", blocks.len());
    let records: u64 = blocks.iter().map(|of| of.records).sum();
    assert!(records < 6_000);
    // The second alone.
    let (found, _, _, statements) = read(&blocks[1..2]);
    assert_eq!(found.len() as u64, blocks[1].records);
    assert_eq!(statements[0].text, SHOWN);
    assert!(blocks.iter().all(|of| of.block.len() < 80_000));
}

#[test]
fn how_a_statement_is_recorded_is_worked_out_once_and_in_bounded_memory() {
    let bench = bench();
    let mut capture = Capture::new(Arc::new(wanted(&bench)), 0, bench.now);
    let mut worked_out = 0;
    let mut shown = |statement: &Arc<Statement>, bytes| {
        let text = capture.shown(statement, || {
            worked_out += 1;
            ("x".repeat(bytes), kinds::READ)
        });
        assert_eq!((text.0.len(), text.1), (bytes, kinds::READ));
        worked_out
    };
    let statement = |number: usize| {
        Arc::new(Statement::new(&format!(
            "SELECT c{number} FROM t WHERE k = ?"
        )))
    };
    let (one, other) = (statement(1), statement(2));
    assert_eq!(shown(&one, 10), 1);
    assert_eq!(shown(&one, 10), 1);
    assert_eq!(shown(&other, 20), 2);
    // Forgotten elsewhere, and its memory not taken by another.
    drop(one);
    for number in 0..100 {
        assert_eq!(shown(&statement(number), 64 * 1024), 3 + number);
    }
    assert_eq!(shown(&other, 20), 103, "it had to make way");
    let of_once = Arc::new(Statement::new("SELECT c FROM t WHERE k = 5"));
    assert_eq!(shown(&of_once, 10), 104);
    assert_eq!(shown(&of_once, 10), 105, "texts with values are not kept");
}
