mod connections;
mod queue;
mod running;
mod server;

use std::time::{Duration, Instant};

use helenus_capture::Statement;

use super::clock::Clock;
use super::pages::PagingStates;
use super::statements::{KEPT_MAX, Statements};

#[test]
fn what_comes_fastest_says_when_a_capture_began() {
    let start = Instant::now();
    let at = |ms| start + Duration::from_millis(ms);
    let mut clock = Clock::new(at(40));
    clock.on_mark(Duration::from_millis(1_000), at(1_015));
    clock.on_mark(Duration::from_millis(2_000), at(3_000));
    assert_eq!(clock.at(Duration::from_millis(500)), at(515));
}

#[test]
fn paging_states_are_found_again_and_take_bounded_memory() {
    let mut states = PagingStates::default();
    states.note((1, 2, 0), Some(b"here".to_vec()));
    assert_eq!(states.get(&(1, 2, 0)), Some(b"here".to_vec()));
    assert_eq!(states.get(&(1, 2, 1)), None);
    for connection in 0..100_000 {
        states.note((connection, 0, 0), Some(vec![7; 1_000]));
        if connection % 1_111 == 0 {
            assert!(states.byte_len() <= (16 << 20) + 4_096);
        }
    }
    assert_eq!(states.get(&(1, 2, 0)), None);
    assert!(states.get(&(99_999, 0, 0)).is_some());
    assert!(states.get(&(95_000, 0, 0)).is_some());
    states.note((95_000, 0, 0), None);
    assert_eq!(states.get(&(95_000, 0, 0)), None);
}

#[test]
fn statements_take_bounded_memory() {
    let mut statements = Statements::new(1);
    let of = |number: usize, length: usize| Statement {
        text: format!("SELECT v{number} FROM t WHERE k = {}", "?".repeat(length)),
        ..Statement::default()
    };
    for number in 0..KEPT_MAX {
        assert!(statements.of(&of(number, 1), true).is_some());
    }
    assert!(statements.of(&of(KEPT_MAX, 1), true).is_none());
    // Those that are known still are, and texts need no room.
    let again = statements.of(&of(5, 1), true).expect("known");
    assert_eq!(statements.text(again.shown), of(5, 1).text);
    let text = statements.of(&of(KEPT_MAX + 1, 1), false).expect("a text");
    assert_eq!(
        statements.text(text.shown),
        "all but the first 1000 statements"
    );
    let mut statements = Statements::new(1);
    let kept = (0..KEPT_MAX).take_while(|n| statements.of(&of(*n, 60_000), true).is_some());
    assert!((500..600).contains(&kept.count()));
}
