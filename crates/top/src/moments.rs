//! Recent activity, round by round of looks at the proxies.

use std::collections::VecDeque;

use super::snapshot::Moment;

/// Kept of the past: more than the widest terminal shows.
const ROUNDS_MAX: usize = 600;

/// One round: all proxies are asked at the same time.
#[derive(Debug)]
struct Round {
    number: u64,
    /// Proxies that have neither answered nor failed.
    pending: usize,
    of: Vec<Option<Moment>>,
}

/// The last rounds, and what was before the first.
#[derive(Debug, Default)]
pub(super) struct Moments {
    rounds: VecDeque<Round>,
    /// Of each proxy, what it remembers; the latest last.
    past: Vec<Vec<Moment>>,
}

impl Moments {
    /// A round begins, in which so many proxies are asked; what is known of those that are not, because they have
    /// not answered to the last one.
    pub(super) fn begin(&mut self, number: u64, asked: usize, of: Vec<Option<Moment>>) {
        self.rounds.push_back(Round {
            number,
            pending: asked,
            of,
        });
        while self.rounds.len() > ROUNDS_MAX {
            self.rounds.pop_front();
        }
    }

    /// A proxy of a round has answered, or failed.
    pub(super) fn note(&mut self, number: u64, proxy: usize, moment: Option<Moment>) {
        let round = self
            .rounds
            .iter_mut()
            .rev()
            .find(|round| round.number == number);
        if let Some(round) = round {
            round.pending = round.pending.saturating_sub(1);
            if let Some(place) = round.of.get_mut(proxy) {
                *place = moment;
            }
        }
    }

    /// The common activity of some proxies in the last rounds, the latest last; None where nothing is known. Without
    /// a round that is not over: it would show a dip.
    pub(super) fn last(&self, proxies: &[usize], max: usize) -> Vec<Option<Moment>> {
        let unfinished = self.rounds.back().is_some_and(|round| round.pending > 0);
        let over = self.rounds.len() - usize::from(unfinished);
        let earlier = max.saturating_sub(over);
        let past = (1..=earlier).rev().map(|back| {
            let of = |at: usize| {
                let past = self.past.get(at)?;
                past.get(past.len().checked_sub(back)?)
            };
            together(proxies, of)
        });
        let rounds = self.rounds.iter().take(over).skip(over.saturating_sub(max));
        let rounds = rounds.map(|round| together(proxies, |at| round.of.get(at)?.as_ref()));
        // Not more than is known.
        past.skip_while(Option::is_none).chain(rounds).collect()
    }

    /// Takes a proxy's history of the time before the first round.
    pub(super) fn remember(&mut self, proxy: usize, past: Vec<Moment>) {
        if self.past.len() <= proxy {
            self.past.resize_with(proxy + 1, Vec::new);
        }
        self.past[proxy] = past;
    }
}

fn together<'a>(proxies: &[usize], of: impl Fn(usize) -> Option<&'a Moment>) -> Option<Moment> {
    let mut known = proxies.iter().filter_map(|at| of(*at));
    let mut sum = known.next()?.clone();
    known.for_each(|moment| sum.add(moment));
    Some(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clients(clients: u64) -> Option<Moment> {
        Some(Moment {
            clients,
            ..Moment::default()
        })
    }

    fn shown(moments: &Moments, proxies: &[usize]) -> Vec<Option<u64>> {
        let last = moments.last(proxies, 3);
        last.into_iter().map(|of| of.map(|of| of.clients)).collect()
    }

    #[test]
    fn rounds_are_shown_when_they_are_over_and_gaps_stay_gaps() {
        let mut moments = Moments::default();
        moments.begin(1, 2, vec![None; 2]);
        moments.note(1, 0, clients(5));
        assert_eq!(shown(&moments, &[0, 1]), []);
        moments.note(1, 1, clients(7));
        assert_eq!(shown(&moments, &[0, 1]), [Some(12)]);
        moments.begin(2, 2, vec![None; 2]);
        moments.note(2, 0, None);
        moments.note(2, 1, clients(7));
        // The second is still on its way when the third begins.
        moments.begin(3, 1, vec![None, clients(7)]);
        moments.note(3, 0, clients(6));
        assert_eq!(shown(&moments, &[0, 1]), [Some(12), Some(7), Some(13)]);
        assert_eq!(shown(&moments, &[0]), [Some(5), None, Some(6)]);
        for number in 4..2_000 {
            moments.begin(number, 0, vec![None; 2]);
        }
        assert_eq!(moments.rounds.len(), ROUNDS_MAX);
        moments.note(2, 0, clients(1));
    }

    #[test]
    fn what_proxies_remember_is_before_the_first_round() {
        let mut moments = Moments::default();
        moments.begin(1, 1, vec![None; 2]);
        moments.note(1, 0, clients(5));
        moments.remember(1, clients(1).into_iter().collect());
        moments.remember(0, (1..=3).filter_map(clients).collect());
        assert_eq!(shown(&moments, &[0]), [Some(2), Some(3), Some(5)]);
        assert_eq!(shown(&moments, &[0, 1]), [Some(2), Some(4), Some(5)]);
        assert_eq!(shown(&moments, &[1]), [Some(1), None]);
    }
}
