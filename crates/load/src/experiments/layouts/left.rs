//! How long the rounds still take, for whoever waits.

use super::experiment::Layouts;
use std::collections::BTreeMap;
use std::time::Duration;

/// The parts of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Turn {
    /// One arm's reads in one cell.
    Read,
    /// One arm's reads in one cell while a node is paused.
    ReadPaused,
    /// The queries on one synthetic table.
    Synthetic(usize),
}

#[derive(Debug)]
struct Kind {
    left: usize,
    /// Of the last such turn, or as planned; None until a synthetic table has been measured once.
    took: Option<Duration>,
}

/// The turns that are left.
#[derive(Debug)]
pub(super) struct Left(BTreeMap<Turn, Kind>);

impl Left {
    pub(super) fn of(layouts: &Layouts, nodes_can_pause: bool) -> Self {
        let planned = Some(layouts.cell_warmup + layouts.cell_time);
        let cells = layouts.rounds * layouts.cells(false).len();
        let paused = layouts.arms.iter().filter(|arm| arm.with_paused_node);
        let paused = if nodes_can_pause { paused.count() } else { 0 };
        let kind = |left, took| Kind { left, took };
        let mut turns = BTreeMap::from([
            (Turn::Read, kind(cells * layouts.arms.len(), planned)),
            (Turn::ReadPaused, kind(cells * paused, planned)),
        ]);
        let synthetic = 0..layouts.synthetic.len();
        turns.extend(synthetic.map(|at| (Turn::Synthetic(at), kind(layouts.rounds, None))));
        Self(turns)
    }

    /// So many turns are over; `took` is the time of one, or None if they were left out.
    pub(super) fn done(&mut self, turn: Turn, count: usize, took: Option<Duration>) {
        if let Some(kind) = self.0.get_mut(&turn) {
            kind.left = kind.left.saturating_sub(count);
            kind.took = took.or(kind.took);
        }
    }

    /// Such as `12 min left`.
    pub(super) fn describe(&self) -> String {
        let kinds = || self.0.values().filter(|kind| kind.left > 0);
        let times = kinds().filter_map(|kind| Some(kind.took? * u32::try_from(kind.left).ok()?));
        let seconds = times.sum::<Duration>().as_secs();
        let at_least = match kinds().any(|kind| kind.took.is_none()) {
            true => "more than ",
            false => "",
        };
        match seconds {
            0..120 => format!("{at_least}{seconds} s left"),
            _ => format!("{at_least}{} min left", seconds.div_ceil(60)),
        }
    }
}
