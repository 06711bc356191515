//! The sweep of one table.

use std::cell::{Cell, RefCell};
use std::convert::Infallible;
use std::time::{Duration, Instant};

use anyhow::{Error, Result};
use helenus_catalogue::stored::WHOLE_TABLE;
use helenus_catalogue::sweep::{Due, Left, Pending};
use helenus_catalogue::{Layout, LayoutState};
use helenus_console::cells::print_error;
use helenus_rows::{Range, TableName};

use super::super::compare::TooMany;
use super::super::work::Work;
use super::how::{How, Manner};
use super::round::{self, Round};
use super::told::Told;
use super::view::View;
use super::{behind, doubts, parts};
use crate::catalogue::now_ms;
use crate::nodes::cluster::Cluster;
use crate::nodes::hints::Watched;
use crate::nodes::ring;

/// Ranges that are compared before what is to be done is looked at again.
const RANGES: usize = 4;
/// A range is compared no more often than this.
const ROUND_MIN: Duration = Duration::from_secs(600);
/// Pause if there is nothing to do, or after an error.
const PAUSE: Duration = Duration::from_secs(10);
/// One that is asked for once waits no longer than this for partitions that are put in doubt again and again.
const PATIENCE: Duration = Duration::from_secs(180);

/// What has been done.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Done {
    /// Rows of the table that were compared in rounds.
    pub rows: u64,
    /// Rows of layouts.
    pub repaired: u64,
    /// Layouts that were behind, and are read again.
    pub opened: u64,
    /// Partitions that were in doubt.
    pub settled: u64,
    /// Partitions that are in doubt still.
    pub left: u64,
}

/// What is to be done next.
enum Next {
    GoOn,
    Nothing,
    /// The table has no derived layouts any more.
    Over,
}

pub(super) struct OfTable<'a> {
    pub name: TableName,
    cluster: &'a Cluster,
    how: &'a How,
    done: RefCell<Done>,
    pending: RefCell<Pending>,
    round: RefCell<Option<Round>>,
    /// Layouts that this sweep, or an earlier one that was stopped, has taken on: names, and numbers of their fillings.
    taken_on: RefCell<Option<Vec<(String, i64)>>>,
    /// When no node had kept hints for as long as they may go unseen.
    no_hints: Cell<Option<Instant>>,
    is_over: Cell<bool>,
    /// Of a doubt of the whole table.
    left: RefCell<behind::Left>,
}

impl<'a> OfTable<'a> {
    pub(super) fn new(cluster: &'a Cluster, name: TableName, how: &'a How) -> OfTable<'a> {
        OfTable {
            name,
            cluster,
            how,
            done: RefCell::default(),
            pending: RefCell::default(),
            round: RefCell::default(),
            taken_on: RefCell::default(),
            no_hints: Cell::new(None),
            is_over: Cell::new(false),
            left: RefCell::default(),
        }
    }

    /// Everything once.
    pub(super) async fn once(&self) -> Result<Done> {
        tokio::select! {
            done = self.compare_once() => done,
            never = self.watch_hints() => match never {},
        }
    }

    async fn compare_once(&self) -> Result<Done> {
        let begin_ms = now_ms();
        // Time is counted from when what is in doubt was first seen.
        self.look_for_doubts().await?;
        while matches!(self.step(begin_ms).await?, Next::GoOn) {}
        let begin = Instant::now();
        loop {
            self.settle_doubts().await?;
            // Layouts may be behind by what was in doubt.
            while matches!(self.step(begin_ms).await?, Next::GoOn) {}
            let is_done = self.pending.borrow().is_stuck();
            if is_done || begin.elapsed() > PATIENCE {
                break;
            }
            tokio::time::sleep(self.how.doubts_every).await;
        }
        let mut done = self.done.borrow_mut();
        done.left = self.pending.borrow().len();
        Ok(*done)
    }

    /// For as long as the table has derived layouts.
    pub(super) async fn while_it_has_layouts(&self) {
        tokio::select! {
            ((), ()) = futures::future::join(self.settle_on_and_on(), self.step_on_and_on()) => {}
            never = self.watch_hints() => match never {},
        }
    }

    /// Looks for hints while anything is in doubt. Beside the comparisons: some take longer than looks may be apart.
    async fn watch_hints(&self) -> Infallible {
        let mut watched = Watched::default();
        loop {
            if self.pending.borrow().is_empty() {
                watched = Watched::default();
            } else {
                let unseen = self.how.hints_unseen;
                let is_free = unseen.is_zero() || watched.look(self.cluster, unseen).await;
                self.no_hints.set(is_free.then(Instant::now));
            }
            tokio::time::sleep(self.how.doubts_every).await;
        }
    }

    async fn settle_on_and_on(&self) {
        let mut told = Told::default();
        while !self.is_over.get() {
            let settled = self.settle_doubts().await;
            told.hear(&self.name.to_string(), &settled);
            tokio::time::sleep(match settled {
                Ok(()) => self.how.doubts_every,
                Err(_) => PAUSE,
            })
            .await;
        }
    }

    async fn step_on_and_on(&self) {
        let mut told = Told::default();
        loop {
            let round_min = i64::try_from(ROUND_MIN.as_millis()).unwrap_or(i64::MAX);
            let next = self.step(now_ms() - round_min).await;
            told.hear(&self.name.to_string(), &next);
            match next {
                Ok(Next::GoOn) => {}
                Ok(Next::Nothing) | Err(_) => tokio::time::sleep(PAUSE).await,
                Ok(Next::Over) => return self.is_over.set(true),
            }
        }
    }

    async fn look_for_doubts(&self) -> Result<()> {
        let stored = doubts::read(self.cluster, &self.name).await?;
        let mut pending = self.pending.borrow_mut();
        pending.note(&stored, Instant::now(), self.how.waits());
        Ok(())
    }

    /// Compares the partitions whose time has come.
    async fn settle_doubts(&self) -> Result<()> {
        self.look_for_doubts().await?;
        let waits = self.how.waits();
        let no_hints = self.manner(&self.how.work).has_no_hints();
        let due = self.pending.borrow().due(Instant::now(), waits, no_hints);
        if due.is_empty() {
            return Ok(());
        }
        let Some(view) = View::load(self.cluster, &self.name).await? else {
            return Ok(());
        };
        if behind::leave_doubted(self.cluster, &view, &due).await? {
            return Ok(());
        }
        // Those that it was about are behind, or have been compared.
        let is_whole = |due: &Due| due.token == WHOLE_TABLE;
        let (mut equal, due): (Vec<Due>, Vec<Due>) = due.into_iter().partition(is_whole);
        let read = Instant::now();
        equal.retain(|due| self.how.no_proxies || self.is_left(due.written_us, read));
        let written = view.written();
        let parts: Vec<_> = due
            .iter()
            .map(|due| (range_of(due), due.is_quiet))
            .collect();
        let mut failed = due.clone();
        let each = |compared: parts::Compared| {
            failed.retain(|due| due.token != compared.range.end);
            self.done.borrow_mut().repaired += compared.repaired();
            let Some(due) = due.iter().find(|due| due.token == compared.range.end) else {
                return;
            };
            let is_equal = compared.is_equal();
            if is_equal && due.is_quiet {
                return equal.push(*due);
            }
            // A hint may still make it differ, or equal.
            let is_left = self.how.work.may_delete() && compared.is_left_for_now();
            let left = match is_equal || is_left {
                true => Left::ForNow,
                false => Left::Stuck,
            };
            self.pending.borrow_mut().leave(*due, left, Instant::now());
        };
        let work = Work {
            rows_per_second: None,
            ..self.how.work.clone()
        };
        let compared = parts::compare(
            self.cluster,
            &view,
            &written,
            &parts,
            self.manner(&work),
            each,
        )
        .await;
        for due in failed {
            // It must not keep the others waiting.
            let now = Instant::now();
            self.pending.borrow_mut().leave(due, Left::Stuck, now);
        }
        let settled: Vec<_> = equal
            .iter()
            .map(|due| (due.token, due.written_us))
            .collect();
        doubts::settle(self.cluster, &self.name, &settled).await?;
        self.done.borrow_mut().settled += settled.len() as u64;
        let mut pending = self.pending.borrow_mut();
        equal.into_iter().for_each(|due| pending.settle(due));
        compared.map(|_| ())
    }

    /// [`behind::Left::is_known_to_all`].
    fn is_left(&self, written_us: i64, read: Instant) -> bool {
        self.left.borrow_mut().is_known_to_all(written_us, read)
    }

    /// Layouts that are behind, or the next ranges that were not compared since then.
    async fn step(&self, before_ms: i64) -> Result<Next> {
        let Some(view) = View::load(self.cluster, &self.name).await? else {
            return Ok(Next::Over);
        };
        if self.taken_on.borrow().is_none() {
            let (_, notes) = round::notes(self.cluster, &self.name).await?;
            let notes = notes
                .into_iter()
                .map(|note| (note.layout, note.compared_ms));
            self.taken_on.replace(Some(notes.collect()));
        }
        if self.catch_up(&view).await? {
            return Ok(Next::GoOn);
        }
        let ready = view.ready();
        if ready.is_empty() {
            return Ok(Next::Nothing);
        }
        let known = self
            .round
            .take()
            .filter(|round| round.is_of(&ready) && round.age() < ROUND_MIN);
        let mut round = match known {
            Some(round) => round,
            None => self.round_of(&ready).await?,
        };
        let ranges = round.next(before_ms, RANGES);
        if ranges.is_empty() {
            self.round.replace(Some(round));
            return Ok(Next::Nothing);
        }
        let parts: Vec<_> = ranges.iter().map(|range| (*range, false)).collect();
        let (mut differing, mut compared) = (Vec::new(), Vec::new());
        let each = |part: parts::Compared| {
            self.done.borrow_mut().repaired += part.repaired();
            differing.extend(part.differing());
            compared.push(part.range);
        };
        let manner = self.manner(&self.how.work);
        let rows = parts::compare(self.cluster, &view, &ready, &parts, manner, each).await;
        differing.sort_unstable();
        differing.dedup();
        doubts::add(self.cluster, &self.name, &differing).await?;
        round
            .note(self.cluster, &self.name, &compared, now_ms())
            .await?;
        self.round.replace(Some(round));
        match rows {
            Ok(rows) => self.done.borrow_mut().rows += rows,
            Err(error) => self.leave_behind(&view, &ready, error).await?,
        }
        Ok(Next::GoOn)
    }

    /// A layout that differs in too many rows is read no longer.
    ///
    /// # Errors
    /// It is another error.
    async fn leave_behind(&self, view: &View, ready: &[Layout], error: Error) -> Result<()> {
        let too_many = error.downcast_ref::<TooMany>();
        let Some(layout) = too_many.and_then(|too_many| ready.get(too_many.at)) else {
            return Err(error);
        };
        print_error(&error.context(format!(
            "layout {} of {} is not read until it has been rebuilt",
            layout.name, self.name
        )));
        behind::leave(self.cluster, view, std::slice::from_ref(layout)).await
    }

    fn manner<'b>(&'b self, work: &'b Work) -> Manner<'b> {
        Manner {
            work,
            settled_after: self.how.settled_after,
            no_hints: &self.no_hints,
        }
    }

    async fn round_of(&self, ready: &[Layout]) -> Result<Round> {
        let (notes, _) = round::notes(self.cluster, &self.name).await?;
        let suitable = ring::suitable(self.cluster, &self.name).await;
        Ok(Round::of(ready, &notes, suitable))
    }

    /// Layouts that are behind, and those with which a sweep was interrupted. Returns whether there were any.
    async fn catch_up(&self, view: &View) -> Result<bool> {
        let behind = view.of(|state| state == Some(LayoutState::Behind));
        if !behind.is_empty() {
            let begun = behind::begin(self.cluster, view, &behind).await?;
            let mut taken_on = self.taken_on.borrow_mut();
            let begun = begun.into_iter().map(|of| (of.name, of.created));
            taken_on.get_or_insert_default().extend(begun);
            return Ok(true);
        }
        let taken_on = self.taken_on.borrow().clone().unwrap_or_default();
        let mut begun = view.of(|state| state == Some(LayoutState::Writing));
        begun.retain(|of: &Layout| taken_on.contains(&(of.name.clone(), of.created)));
        if begun.is_empty() {
            return Ok(false);
        }
        let repaired = behind::finish(self.cluster, view, &begun, self.how).await?;
        let mut done = self.done.borrow_mut();
        done.repaired += repaired;
        done.opened += begun.len() as u64;
        Ok(true)
    }
}

/// The range that holds the partition's token alone.
fn range_of(due: &Due) -> Range {
    Range {
        after: due.token.saturating_sub(1),
        end: due.token,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_range_of_a_partition_holds_its_token_alone() {
        let of = |token| Due {
            token,
            written_us: 0,
            is_quiet: false,
        };
        let range = range_of(&of(i64::MAX));
        assert_eq!((range.after, range.end), (i64::MAX - 1, i64::MAX));
        let range = range_of(&of(i64::MIN + 1));
        assert_eq!((range.after, range.end), (i64::MIN, i64::MIN + 1));
    }
}
