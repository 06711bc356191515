//! What clients were told of late. A client that comes from another process is told again: it may have been
//! with neither when the event came. An event twice does no harm.

use std::collections::VecDeque;
use std::rc::Rc;
use std::time::{Duration, Instant};

use crate::shared::EventKind;

/// Longer than a client is on its way, and than one control connection hears of something after another.
const REMEMBERED_FOR: Duration = Duration::from_secs(5);
const REMEMBERED_MAX: usize = 64;

#[derive(Default)]
pub(super) struct RecentEvents(VecDeque<(Instant, EventKind, Rc<[u8]>)>);

impl RecentEvents {
    pub(super) fn note(&mut self, now: Instant, kind: EventKind, body: &[u8]) {
        while self.0.len() >= REMEMBERED_MAX || self.0.front().is_some_and(|of| is_old(of.0, now)) {
            self.0.pop_front();
        }
        self.0.push_back((now, kind, body.into()));
    }

    /// Those of these kinds, as bits of [`EventKind`].
    pub(super) fn of_kinds(&self, now: Instant, kinds: u8) -> Vec<Rc<[u8]>> {
        let late = self.0.iter().filter(|(then, ..)| !is_old(*then, now));
        let wanted = late.filter(|(_, kind, _)| kinds & *kind as u8 != 0);
        wanted.map(|(.., body)| body.clone()).collect()
    }
}

fn is_old(then: Instant, now: Instant) -> bool {
    now.saturating_duration_since(then) > REMEMBERED_FOR
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_remembered_for_a_while_and_not_too_many() {
        let begin = crate::testing::begin();
        let mut events = RecentEvents::default();
        for number in 0..2 * REMEMBERED_MAX as u8 {
            events.note(begin, EventKind::Schema, &[number]);
        }
        events.note(begin, EventKind::Status, &[]);
        let schema = EventKind::Schema as u8;
        let known = events.of_kinds(begin + REMEMBERED_FOR, schema);
        assert_eq!(known.len(), REMEMBERED_MAX - 1);
        assert_eq!(known.last().map(|body| body[0]), Some(127));
        let all = schema | EventKind::Status as u8;
        assert_eq!(events.of_kinds(begin, all).len(), REMEMBERED_MAX);
        let later = begin + REMEMBERED_FOR + Duration::from_millis(1);
        assert!(events.of_kinds(later, all).is_empty());
        events.note(later, EventKind::Schema, &[]);
        assert_eq!(events.0.len(), 1);
    }
}
