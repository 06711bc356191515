//! Compares two copies of a range, whatever order their rows come in, and makes them equal: first by the rows' hashes, as
//! many as are held at a time, then row by row. Clients go on writing to both meanwhile.

use std::collections::HashSet;
use std::time::Instant;

use futures::future::try_join;
use helenus_rows::{Hashes, Range, Row, Rows, Sum, Table, Write, batches, whole};
use tokio::time::sleep;

use super::copies::{Copies, Copy, Settled};
use super::held::{Compared, Held, compared};
use super::intended::Intended;
use super::trouble::{Check, Trouble};
use crate::process::Process;

/// Rows whose hashes are held at a time, of each copy.
const ROWS_HELD: usize = 100_000;
/// A copy that lacks more rows than this of a range gets them page by page, before rows are compared one by one.
const FEW: usize = 32;

/// What became of the rows that differed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub repaired: u64,
    pub given_up: u64,
    /// Rows with values that are about to expire, and count as equal.
    pub expiring: u64,
}

/// A comparison of two of the copies, by their places.
pub(super) struct Comparing<'a> {
    pub common: &'a Process,
    pub copies: &'a mut Copies,
    pub places: [usize; 2],
    pub check: Check<'a>,
    pub counts: &'a mut Counts,
    /// Whether the buckets in which something is written are marked already.
    pub is_marked: bool,
}

impl<'a> Comparing<'a> {
    /// Makes both equal in this range, and with them all others in the rows that differ.
    pub(super) async fn range(&mut self, mut range: Range) -> Result<(), Trouble> {
        while range.after < range.end {
            range.after = self.step(range).await?;
        }
        Ok(())
    }

    /// The same from the start of the range on, as far as the rows reach that are held at a time: up to which token.
    pub(super) async fn step(&mut self, range: Range) -> Result<i64, Trouble> {
        let mut intended: Option<Intended<'a>> = None;
        let mut filling = Filling::default();
        let mut range = range;
        let end = loop {
            let held = self.both(range, Held::new(ROWS_HELD), Held::add).await?;
            let found = compared(range, &held);
            drop(held);
            let (end, lacking, differing) = match found {
                Compared::UpTo {
                    end,
                    lacking,
                    differing,
                } => (end, lacking, differing),
                Compared::TooMany(end) => {
                    range.end = end;
                    self.mark(range, &mut intended).await?;
                    self.large(range).await?;
                    break end;
                }
            };
            if differing.is_empty() {
                break end;
            }
            // Later looks end there, too: what is marked is all that is written to.
            range.end = end;
            match filling.next(lacking) {
                Next::Look => {}
                Next::Fill(lacking) => {
                    self.mark(range, &mut intended).await?;
                    self.fill(range, &lacking).await?;
                }
                Next::Settle => {
                    self.mark(range, &mut intended).await?;
                    self.settle_all(range, differing).await?;
                    break end;
                }
            }
        };
        intended.into_iter().for_each(Intended::end);
        Ok(end)
    }

    /// Marks the buckets of a range, in which something is to be written.
    async fn mark(&self, range: Range, intended: &mut Option<Intended<'a>>) -> Result<(), Trouble> {
        if intended.is_none() && !self.is_marked {
            *intended = Some(Intended::record(self.common, range).await?);
        }
        Ok(())
    }

    /// A partition with more rows than are held at a time: a part of them after the other, by the hashes of their keys.
    async fn large(&mut self, range: Range) -> Result<(), Trouble> {
        let add = |sum: &mut Sum, row: &Row| {
            sum.add(row);
            true
        };
        let [own, other] = self.both(range, Sum::default(), add).await?;
        if own == other {
            return Ok(());
        }
        let rows = own.rows.max(other.rows);
        let passes = u128::from(rows / ROWS_HELD as u64 + 1);
        for pass in 0..passes {
            let mut filling = Filling::default();
            loop {
                let [own, other] = self.hashes(range, (pass, passes)).await?;
                match filling.next(own.lacking(&other)) {
                    Next::Look => {}
                    Next::Fill(lacking) => self.fill(range, &lacking).await?,
                    Next::Settle => {
                        self.settle_all(range, own.differing(&other)).await?;
                        break;
                    }
                }
            }
        }
        Ok(())
    }

    async fn hashes(
        &mut self,
        range: Range,
        (pass, passes): (u128, u128),
    ) -> Result<[Hashes; 2], Trouble> {
        let add = |hashes: &mut Hashes, row: &Row| {
            hashes.add(row);
            true
        };
        self.both(range, Hashes::new(pass, passes), add).await
    }

    /// What comes of the rows of both.
    async fn both<T: Clone>(
        &mut self,
        range: Range,
        empty: T,
        add: fn(&mut T, &Row) -> bool,
    ) -> Result<[T; 2], Trouble> {
        let check = self.check;
        let (table, [own, other]) = self.copies.pair(self.places).ok_or(Trouble::Changed)?;
        let reads = (
            all((table, range), own, check, (empty.clone(), add)),
            all((table, range), other, check, (empty, add)),
        );
        let (own, other) = try_join(reads.0, reads.1).await?;
        Ok([own, other])
    }

    /// Writes the rows that the second one lacks, values and markers of a partition's rows at a time. What is hidden
    /// there is settled row by row; so is what only the second one has, which may be deleted in the first one.
    async fn fill(&mut self, range: Range, lacking: &HashSet<u128>) -> Result<(), Trouble> {
        let [from, to] = self.places;
        let table = self.copies.table.clone();
        let mut pages = Pages::new(&table, range);
        while let Some((rows, asked)) = self.rows_of(&mut pages, from, lacking).await? {
            for batch in batches(&rows) {
                let age = asked.elapsed();
                let writes = batch.iter().flat_map(|row| whole(&table, row, age));
                let writes: Vec<Write> = writes.collect();
                (self.check)()?;
                self.copies.write(|at| at == to, &writes).await?;
            }
            self.counts.repaired += rows.len() as u64;
        }
        Ok(())
    }

    /// The next rows of a copy whose keys have these hashes; none at the end, or if there are no keys.
    async fn rows_of(
        &mut self,
        pages: &mut Pages<'_>,
        place: usize,
        keys: &HashSet<u128>,
    ) -> Result<Option<(Vec<Row>, Instant)>, Trouble> {
        if keys.is_empty() {
            return Ok(None);
        }
        (self.check)()?;
        let copy = self.copies.copies.get_mut(place).ok_or(Trouble::Changed)?;
        let page = pages.next(copy).await?;
        Ok(page.map(|(mut rows, asked)| {
            rows.retain(|row| keys.contains(&row.key_hash()));
            (rows, asked)
        }))
    }

    async fn settle_all(
        &mut self,
        range: Range,
        mut differing: HashSet<u128>,
    ) -> Result<(), Trouble> {
        for place in self.places {
            self.settle(place, range, &mut differing).await?;
        }
        Ok(())
    }

    /// Makes rows of one of both equal whose keys have these hashes, and takes these out.
    async fn settle(
        &mut self,
        place: usize,
        range: Range,
        differing: &mut HashSet<u128>,
    ) -> Result<(), Trouble> {
        let table = self.copies.table.clone();
        let mut pages = Pages::new(&table, range);
        while let Some((rows, _)) = self.rows_of(&mut pages, place, differing).await? {
            for row in &rows {
                differing.remove(&row.key_hash());
            }
            for settled in self.copies.equalize(self.places, &rows, self.check).await? {
                match settled {
                    Settled::WasEqual => {}
                    Settled::Expiring => self.counts.expiring += 1,
                    Settled::Repaired => self.counts.repaired += 1,
                    Settled::GivenUp => self.counts.given_up += 1,
                }
            }
        }
        Ok(())
    }
}

/// Whether a copy is sent whole rows that it lacks. Only those that it lacks at two looks: one connection is ahead of the
/// other, and what clients insert meanwhile is not missing.
#[derive(Debug, Default)]
struct Filling {
    seen: Option<HashSet<u128>>,
    is_over: bool,
}

#[derive(Debug, PartialEq, Eq)]
enum Next {
    Look,
    Fill(HashSet<u128>),
    /// Row by row.
    Settle,
}

impl Filling {
    /// The keys of the rows that are lacking at this look.
    fn next(&mut self, mut lacking: HashSet<u128>) -> Next {
        if self.is_over || lacking.len() <= FEW {
            return Next::Settle;
        }
        let Some(seen) = self.seen.take() else {
            self.seen = Some(lacking);
            return Next::Look;
        };
        self.is_over = true;
        lacking.retain(|key| seen.contains(key));
        match lacking.len() > FEW {
            true => Next::Fill(lacking),
            false => Next::Settle,
        }
    }
}

/// What comes of all rows of a range of one copy, until no more are wanted.
async fn all<T>(
    (table, range): (&Table, Range),
    copy: &mut Copy,
    check: Check<'_>,
    (mut of, add): (T, fn(&mut T, &Row) -> bool),
) -> Result<T, Trouble> {
    let mut pages = Pages::new(table, range);
    while let Some((rows, _)) = pages.next(copy).await? {
        check()?;
        if !rows.iter().all(|row| add(&mut of, row)) {
            break;
        }
    }
    Ok(of)
}

/// The rows of a range of one copy, page by page, with a rest after each page ([`super::resting`]).
struct Pages<'a> {
    reading: Rows<'a>,
    range: Range,
    state: Option<Vec<u8>>,
    is_over: bool,
    not_before: Instant,
}

impl<'a> Pages<'a> {
    fn new(table: &'a Table, range: Range) -> Pages<'a> {
        Pages {
            reading: Rows::new(table),
            range,
            state: None,
            is_over: false,
            not_before: Instant::now(),
        }
    }

    /// With the time at which they were asked for.
    async fn next(&mut self, copy: &mut Copy) -> Result<Option<(Vec<Row>, Instant)>, Trouble> {
        if self.is_over {
            return Ok(None);
        }
        sleep(self.not_before.saturating_duration_since(Instant::now())).await;
        let asked = Instant::now();
        let read = copy.page(&mut self.reading, self.range, self.state.as_deref());
        let (rows, next) = read.await?;
        let answered = Instant::now();
        self.not_before = answered + copy.rest(answered - asked);
        (self.is_over, self.state) = (next.is_none(), next);
        Ok(Some((rows, asked)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_rows_that_are_lacking_twice_are_sent_as_a_whole() {
        let keys = |keys: std::ops::Range<u128>| keys.collect::<HashSet<u128>>();
        let mut filling = Filling::default();
        assert_eq!(filling.next(keys(0..100)), Next::Look);
        assert_eq!(filling.next(keys(50..150)), Next::Fill(keys(50..100)));
        assert_eq!(filling.next(keys(50..150)), Next::Settle, "once");
        // A busy table: others each time.
        let mut filling = Filling::default();
        assert_eq!(filling.next(keys(0..100)), Next::Look);
        assert_eq!(filling.next(keys(90..190)), Next::Settle);
        assert_eq!(Filling::default().next(keys(0..32)), Next::Settle, "few");
    }
}
