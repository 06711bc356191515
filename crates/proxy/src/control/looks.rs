//! When it is looked whether the nodes agree on the schema. Nodes hear of each other's version by gossip, some time
//! after they have taken on a change: whoever looks earlier takes those for behind that are not, and clients wait.

use std::time::Duration;

use tokio::time::Instant;

/// So long after a change nodes have heard of each other's version.
pub(super) const DELAY: Duration = Duration::from_millis(1_500);
/// Where change follows change, so long after the first of them.
const DELAY_MAX: Duration = Duration::from_secs(5);
/// Pause while they disagree.
const PAUSE: Duration = Duration::from_secs(1);

/// The next look, if there is to be one.
#[derive(Debug, Default)]
pub(super) struct Looks {
    at: Option<Instant>,
    /// It is not put off any further.
    at_last: Option<Instant>,
}

impl Looks {
    pub(super) fn at(&self) -> Option<Instant> {
        self.at
    }

    /// The schema has changed, or may have.
    pub(super) fn after_change(&mut self, now: Instant) {
        let at_last = *self.at_last.get_or_insert(now + DELAY_MAX);
        self.at = Some(at_last.min(now + DELAY));
    }

    /// To be looked at once.
    pub(super) fn at_once(&mut self, now: Instant) {
        (self.at, self.at_last) = (Some(now), Some(now));
    }

    /// It was looked.
    pub(super) fn done(&mut self, now: Instant, disagree: bool) {
        self.at = disagree.then_some(now + PAUSE);
        self.at_last = self.at;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_looked_once_nodes_have_heard_of_each_other_however_many_changes_there_are() {
        let begin = Instant::now();
        let after = |ms| begin + Duration::from_millis(ms);
        let mut looks = Looks::default();
        assert_eq!(looks.at(), None);
        looks.after_change(begin);
        looks.after_change(after(1_000));
        assert_eq!(looks.at(), Some(after(2_500)));
        for at in (1_000..10_000).step_by(500) {
            looks.after_change(after(at));
        }
        assert_eq!(looks.at(), Some(after(5_000)));
        looks.done(after(5_000), false);
        assert_eq!(looks.at(), None);
    }

    #[test]
    fn while_they_disagree_it_is_looked_every_second() {
        let begin = Instant::now();
        let mut looks = Looks::default();
        looks.at_once(begin);
        looks.after_change(begin);
        assert_eq!(looks.at(), Some(begin));
        looks.done(begin, true);
        looks.after_change(begin + PAUSE / 2);
        assert_eq!(looks.at(), Some(begin + PAUSE));
    }
}
