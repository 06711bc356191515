//! Random batches: a copy is sent what it is sent of each statement by itself, or they are refused as one of them is.

use helenus_wire::{BatchView, QueryView};

use super::batches::{DELETE, Got, Sent, UPDATE, batch, got, values_of};
use super::*;

const BATCHES: usize = 3_000;

/// xorshift64*: what is wanted is another sequence for each seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % bound
    }
}

const ONE: &[u8] = &1_i64.to_be_bytes();
const TWO: &[u8] = &2_i64.to_be_bytes();

/// Statements, and the partition that they are of. The first six are written, and come more often.
const STATEMENTS: [(Sent<'_>, i64); 12] = [
    ((Ok(INSERT), &[ONE, TWO, b"open", ONE]), 1),
    ((Ok(INSERT), &[ONE, ONE, b"shut", TWO]), 1),
    ((Ok(UPDATE), &[TWO, ONE]), 1),
    ((Ok(DELETE), &[]), 1),
    (
        (
            Ok(
                "UPDATE orders USING TTL 5 AND TIMESTAMP 3 SET total = ? WHERE customer = 1 AND day = 2 AND status IN ('a', ?)",
            ),
            &[ONE, b"b"],
        ),
        1,
    ),
    (
        (
            Ok(
                "insert into\"app\".orders(customer,day,status)values(1,2,'x;?') using timestamp ?;",
            ),
            &[ONE],
        ),
        1,
    ),
    ((Ok(INSERT), &[TWO, TWO, b"open", ONE]), 2),
    ((Ok("DELETE FROM app.orders WHERE customer = 2"), &[]), 2),
    (
        (
            Ok("DELETE FROM orders WHERE customer = 1 AND day > ?"),
            &[ONE],
        ),
        1,
    ),
    (
        (Ok("DELETE FROM orders WHERE customer IN (1, ?)"), &[TWO]),
        1,
    ),
    (
        (
            Ok("INSERT INTO orders (customer, day, status, total) VALUES (1, 2, ?, uuid())"),
            &[b"a"],
        ),
        1,
    ),
    ((Ok(UPDATE), &[TWO]), 1),
];

/// What a statement by itself is to each copy, or why it is refused.
fn alone(scene: &mut Scene, (statement, values): &Sent<'_>) -> Result<Vec<Got>, String> {
    let text = statement.expect("a text");
    let asking = Asking {
        values,
        timestamp: Some(12),
        ..Asking::default()
    };
    scene.ask(text, &asking);
    let mut answers = scene.bench.answers();
    if let Some((_, _, body)) = answers.pop() {
        let error = helenus_wire::ErrorBody::parse(&body).expect("an error");
        assert_eq!(error.code, code::INVALID);
        return Err(error.message.to_owned());
    }
    let mut of_copies = Vec::new();
    for (node, (_, stream, body)) in scene.one_each().into_iter().enumerate() {
        let view = QueryView::parse(&body, Version::V4).expect("a QUERY");
        of_copies.push(vec![(
            view.text.to_owned(),
            values_of(&view.options.values),
        )]);
        scene.void(node, stream);
    }
    scene.is_acknowledged();
    Ok(of_copies)
}

#[test]
fn a_random_batch_is_what_its_statements_are() {
    let seed = std::env::var("HELENUS_SEED").map_or(0x5EED, |s| s.parse().expect("a number"));
    println!("HELENUS_SEED={seed}");
    let mut dice = Dice(seed | 1);
    let mut scene = Scene::new(Version::V4, Version::V4);
    scene.bench.be_in("app");
    let alone: Vec<_> = STATEMENTS
        .iter()
        .map(|(sent, _)| alone(&mut scene, sent))
        .collect();
    assert_eq!(
        alone.iter().filter(|of| of.is_err()).count(),
        4,
        "{alone:?}"
    );
    let mut written = 0;
    for _ in 0..BATCHES {
        scene.read();
        let mut any = || match dice.below(12) {
            0 => dice.below(STATEMENTS.len()),
            _ => dice.below(6),
        };
        let chosen: Vec<usize> = (0..1 + any()).map(|_| any()).collect();
        let of = |at: &usize| STATEMENTS[*at];
        let children: Vec<Sent<'_>> = chosen.iter().map(|at| of(at).0).collect();
        let kind = dice.below(2) as u8;
        scene.bench.ask(
            Opcode::Batch,
            2,
            &batch(Version::V4, kind, &children, Some(12)),
        );
        scene.carry_out();
        let (_, partition) = of(&chosen[0]);
        let wrong = |at: &usize| alone[*at].is_err() || of(at).1 != partition;
        if let Some(first) = chosen.iter().position(wrong) {
            let (code, why) = scene.bench.error();
            assert_eq!(code, code::INVALID);
            let rest = why.strip_prefix(&*format!("statement {} of the batch: ", first + 1));
            let rest = rest.unwrap_or_else(|| panic!("{children:?}: {why}"));
            match &alone[chosen[first]] {
                Err(alone) => assert_eq!(rest, alone),
                Ok(_) => assert!(rest.contains("of another partition"), "{rest}"),
            }
            scene.nothing_sent();
            continue;
        }
        written += 1;
        for (copy, (opcode, stream, body)) in scene.one_each().into_iter().enumerate() {
            assert_eq!(opcode, Opcode::Batch);
            let view = BatchView::parse(&body, Version::V4).expect("a BATCH");
            let of_copy = |at: &usize| alone[*at].as_ref().expect("it is written")[copy].clone();
            let expected: Got = chosen.iter().flat_map(of_copy).collect();
            assert_eq!(got(&view), expected);
            assert_eq!(view.options.timestamp, Some(12));
            scene.void(copy, stream);
        }
        scene.is_acknowledged();
    }
    assert!(written > BATCHES / 4, "{written} were written");
    scene.is_done();
}
