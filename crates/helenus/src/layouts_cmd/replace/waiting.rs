//! Waiting until proxies have brought members of the lists in sync.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use helenus_layout::insync::State;
use helenus_rows::TableName;
use indicatif::ProgressBar;

use super::super::catalogue::Entry;
use super::super::lists::CopiesRow;
use super::proxies::{SIGN_OF_LIFE, beats, gives_sign, left_by_others, silent};
use super::ring;
use crate::online::cluster::Cluster;
use crate::terminal::spinner;

/// Without a sign of life of a proxy for so long, nobody brings anything in sync.
const SILENCE_MAX: Duration = Duration::from_secs(60);
/// For so long it is waited for proxies to make good what others have left.
const LEFT_MAX: Duration = Duration::from_secs(120);
/// After so long without another member in sync it is said where to look.
const STILL_MAX: Duration = Duration::from_secs(300);
pub(super) const PAUSE: Duration = Duration::from_secs(1);

pub(super) struct Waiting {
    bar: ProgressBar,
    /// Signs of life at the last look.
    seen: BTreeMap<String, i64>,
    seen_at: Instant,
    heard: Instant,
    begun: Instant,
    /// How many are in sync, and since when, or since that was told.
    still: (usize, Instant),
    /// Since when all is in sync, and proxies have left something.
    left_since: Option<Instant>,
}

impl Waiting {
    pub(super) async fn begin(cluster: &Cluster) -> Result<Waiting> {
        Ok(Waiting {
            bar: spinner(""),
            seen: beats(cluster).await?,
            seen_at: Instant::now(),
            heard: Instant::now(),
            begun: Instant::now(),
            still: (0, Instant::now()),
            left_since: None,
        })
    }

    /// Whether these members are in sync in all lists. It shows how far they are.
    pub(super) async fn look(
        &mut self,
        cluster: &Cluster,
        (name, rows): (&TableName, &[CopiesRow]),
        (members, what): (&[usize], &str),
    ) -> Result<bool> {
        if rows.is_empty() {
            bail!(
                "another command has taken the lists of copies of {name} away, and {what} does not come in sync: see \
                 `helenus layouts status {name}`"
            );
        }
        let all = rows.len() * members.len();
        let (in_sync, joining) = (
            count(rows, members, State::InSync),
            count(rows, members, State::Joining),
        );
        if self.still.0 != in_sync {
            self.still = (in_sync, Instant::now());
        }
        if in_sync == all {
            return Ok(true);
        }
        self.left_since = None;
        let now = beats(cluster).await?;
        self.hear(now);
        self.check_heard(what)?;
        if self.is_still() {
            eprintln!(
                "helenus: for {} s {what} has not come in sync in another group of ranges: unless the table is large, the logs \
                 of the proxies tell what is in the way",
                STILL_MAX.as_secs()
            );
        }
        // It says how long what is left takes if it goes on like that.
        let left = match in_sync {
            0 => String::new(),
            done => {
                let left = self.begun.elapsed().as_secs_f64() / done as f64 * (all - done) as f64;
                format!(", about {left:.0} s left")
            }
        };
        self.bar.set_message(format!(
            "proxies bring {what} in sync: {in_sync} of {all} (groups of ranges of each), joining {joining}{left}"
        ));
        Ok(false)
    }

    /// Once all is in sync: whether nothing else is in the way of taking the others out. If something is, it is shown.
    pub(super) async fn is_over(
        &mut self,
        cluster: &Cluster,
        (name, entries): (&TableName, &[Entry]),
        lists: &[CopiesRow],
    ) -> Result<bool> {
        if !self.is_made_good(cluster).await? {
            return Ok(false);
        }
        match ring::is_whole(cluster, (name, entries), lists).await {
            Ok(true) => return Ok(true),
            Ok(false) => {
                self.check_heard("what has new owners")?;
                self.goes_on("groups of ranges have new owners, and proxies make their lists");
            }
            Err(why) => self.goes_on(&format!("{why:#}")),
        }
        Ok(false)
    }

    /// All is in sync, and this is waited for.
    pub(super) fn goes_on(&mut self, what: &str) {
        self.bar
            .set_message(format!("all is in sync; waiting: {what}"));
        if self.is_still() {
            eprintln!(
                "helenus: for {} s all is in sync, but this is in the way: {what}",
                STILL_MAX.as_secs()
            );
        }
    }

    /// Signs of life of proxies.
    fn hear(&mut self, now: BTreeMap<String, i64>) {
        if gives_sign(&self.seen, &now) {
            self.heard = Instant::now();
        }
        (self.seen, self.seen_at) = (now, Instant::now());
    }

    fn check_heard(&self, what: &str) -> Result<()> {
        if self.heard.elapsed() > SILENCE_MAX {
            bail!(
                "no proxy gives signs of life any more: {what} comes in sync when one does. Then run this again"
            );
        }
        Ok(())
    }

    /// Whether nothing has come in sync for so long that it is told again.
    fn is_still(&mut self) -> bool {
        let is_still = self.still.1.elapsed() > STILL_MAX;
        if is_still {
            self.still.1 = Instant::now();
        }
        is_still
    }

    /// Whether proxies that are gone have left nothing that others have not made equal in all members: who is taken out
    /// before that may have a write that no other one has, and that somebody has read. Not for ever: that write was not
    /// acknowledged.
    pub(super) async fn is_made_good(&mut self, cluster: &Cluster) -> Result<bool> {
        if self.seen_at.elapsed() < SIGN_OF_LIFE {
            return Ok(false);
        }
        // Those that have just been killed are still in the list.
        let now = beats(cluster).await?;
        let silent = silent(&self.seen, &now);
        self.hear(now);
        let left = left_by_others(cluster, &silent).await?;
        if left == 0 {
            return Ok(true);
        }
        let since = *self.left_since.get_or_insert_with(Instant::now);
        self.bar.set_message(format!(
            "proxies make good what others have left in {left} buckets of the ring"
        ));
        Ok(since.elapsed() > LEFT_MAX)
    }

    pub(super) fn end(&self) {
        self.bar.finish_and_clear();
    }
}

fn count(rows: &[CopiesRow], members: &[usize], state: State) -> usize {
    let lists = rows.iter().filter_map(|row| row.list.as_ref().ok());
    let of = |list: &helenus_layout::insync::Copies| {
        let members = members.iter();
        members
            .filter(|member| list.state(**member) == state)
            .count()
    };
    lists.map(of).sum()
}

#[cfg(test)]
mod tests {
    use helenus_layout::insync::{Copies, LISTED_MAX, Members, TABLE};

    use super::*;

    #[test]
    fn members_are_counted_in_all_lists_that_can_be_so() {
        let row = |list| CopiesRow {
            table: "shop.orders".to_owned(),
            owners: Vec::new(),
            ranges: None,
            list,
            changed_ms: None,
        };
        let alone = Copies::new(Members::of(TABLE), [0; LISTED_MAX]);
        let joining = alone.join(0, 1).expect("it is out");
        let bad = Err(helenus_layout::insync::BadList::NoneInSync);
        let rows = [row(Ok(alone)), row(Ok(joining)), row(bad)];
        assert_eq!(count(&rows, &[TABLE], State::InSync), 2);
        assert_eq!(count(&rows, &[0, 1], State::InSync), 0);
        assert_eq!(count(&rows, &[0, 1], State::Joining), 1);
    }
}
