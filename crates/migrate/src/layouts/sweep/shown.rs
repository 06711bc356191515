//! How far sweeps have come, as `status` shows it.

use std::time::Duration;

use anyhow::Result;
use helenus_catalogue::{Layout, LayoutState};
use helenus_rows::{Table, TableName, split};
use serde_json::{Value, json};

use super::doubts::{self, DOUBTS_MAX};
use super::round::{Note, notes};
use crate::catalogue::now_ms;
use crate::catalogue::settle::duration;
use crate::nodes::cluster::Cluster;
use crate::nodes::table;

/// Partitions are compared sooner, if a sweep runs and all nodes are up.
const IN_DOUBT_MAX: Duration = Duration::from_secs(60);
const HINT_WINDOW_DEFAULT: Duration = Duration::from_secs(3 * 3600);

/// Of a table with derived layouts.
#[derive(Debug, Default)]
pub(in crate::layouts) struct Swept {
    now_ms: i64,
    /// Partitions in doubt, up to as many as are read at a time.
    doubts: usize,
    /// When the first of them was last put in.
    doubted_ms: Option<i64>,
    /// When the range was last compared that was compared longest ago.
    oldest_ms: i64,
    /// When any range was last compared.
    last_ms: i64,
    /// A sweep is not doing what it should if no range was compared for so long.
    last_max: Duration,
}

impl Swept {
    /// None if no layout of the table is derived, and read.
    pub(in crate::layouts) async fn of(
        cluster: &Cluster,
        name: &TableName,
        layouts: &[Layout],
    ) -> Result<Option<Swept>> {
        let is_read = |of: &&Layout| of.is_derived() && of.state() == Some(LayoutState::Ready);
        let read: Vec<&Layout> = layouts.iter().filter(is_read).collect();
        if read.is_empty() {
            return Ok(None);
        }
        let doubts = doubts::read(cluster, name).await?;
        let (notes, _) = notes(cluster, name).await?;
        // It may have been dropped.
        let table = table::load(cluster, name).await.ok();
        let doubted_us = doubts.iter().map(|(_, us)| *us).min();
        Ok(Some(Swept {
            now_ms: now_ms(),
            doubts: doubts.len(),
            doubted_ms: doubted_us.map(|us| us / 1_000),
            oldest_ms: oldest_ms(&read, &notes),
            last_ms: last_ms(&read, &notes),
            last_max: last_max(table.as_ref(), hint_window(cluster).await),
        }))
    }

    pub(in crate::layouts) fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        let in_doubt = self.doubted_ms.map(|ms| self.since(ms));
        if in_doubt.is_some_and(|age| age > IN_DOUBT_MAX) {
            problems.push(format!(
                "partitions have been in doubt for more than {}, and are read from the table: `helenus layouts sweep` must \
                 run, with all nodes up; if it does, and says nothing, `helenus layouts rebuild` fills the layouts anew",
                told(IN_DOUBT_MAX)
            ));
        }
        if self.since(self.last_ms) > self.last_max {
            problems.push(format!(
                "no range was compared for {}, which is more than the smaller of max_hint_window and gc_grace_seconds: \
                 `helenus layouts sweep` must run, with all nodes up",
                told(self.since(self.last_ms))
            ));
        }
        problems
    }

    fn since(&self, ms: i64) -> Duration {
        Duration::from_millis(u64::try_from(self.now_ms - ms).unwrap_or(0))
    }

    pub(in crate::layouts) fn as_json(&self) -> Value {
        json!({
            "partitions_in_doubt": self.doubts,
            "in_doubt_since_ms": self.doubted_ms,
            "oldest_compared_ms": self.oldest_ms,
            "last_compared_ms": self.last_ms,
            "problems": self.problems(),
        })
    }

    pub(in crate::layouts) fn line(&self) -> String {
        let doubts = match (self.doubts, self.doubted_ms) {
            (0, _) | (_, None) => "no partition in doubt".to_owned(),
            (count, Some(since)) => {
                let more = if count == DOUBTS_MAX { "or more " } else { "" };
                format!(
                    "{count} {more}partitions in doubt, for {}",
                    told(self.since(since))
                )
            }
        };
        format!(
            "{doubts}; each range was compared in the last {}, the last one {} ago",
            told(self.since(self.oldest_ms)),
            told(self.since(self.last_ms))
        )
    }
}

/// A layout was compared as a whole when it was filled.
fn oldest_ms(read: &[&Layout], notes: &[Note]) -> i64 {
    let of_layout = |layout: &&Layout| {
        let of_it = notes.iter().filter(|note| note.layout == layout.name);
        let compared = of_it.filter(|note| note.compared_ms > layout.created);
        let count = compared.clone().map(|note| note.ranges).max().unwrap_or(0);
        let compared = compared.filter(|note| note.ranges == count);
        let is_whole = count > 0 && compared.clone().count() == split(count).len();
        let oldest = compared.map(|note| note.compared_ms).min();
        oldest.filter(|_| is_whole).unwrap_or(layout.created)
    };
    read.iter().map(of_layout).min().unwrap_or(0)
}

fn last_ms(read: &[&Layout], notes: &[Note]) -> i64 {
    let noted = notes.iter().map(|note| note.compared_ms);
    noted
        .chain(read.iter().map(|of| of.created))
        .max()
        .unwrap_or(0)
}

fn last_max(table: Option<&Table>, hint_window: Duration) -> Duration {
    let grace = table.and_then(|table| u64::try_from(table.gc_grace_seconds).ok());
    grace.map_or(hint_window, |s| Duration::from_secs(s).min(hint_window))
}

/// For how long nodes write hints for one that is down.
async fn hint_window(cluster: &Cluster) -> Duration {
    let told: Result<Vec<(Option<String>,)>> = cluster
        .rows(
            "SELECT value FROM system_views.settings WHERE name IN ('max_hint_window', 'max_hint_window_in_ms')",
        )
        .await;
    let told = told.unwrap_or_default().into_iter();
    let told = told.filter_map(|(value,)| duration(&value?)).max();
    told.unwrap_or(HINT_WINDOW_DEFAULT)
}

fn told(time: Duration) -> String {
    match time.as_secs() {
        seconds @ 0..120 => format!("{seconds} s"),
        seconds @ 120..7_200 => format!("{} min", seconds / 60),
        seconds => format!("{} h", seconds / 3_600),
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::testing::layout;
    use super::*;

    #[test]
    fn a_range_that_no_sweep_has_compared_is_as_old_as_the_filling() {
        let (a, b) = (layout("a", 1_000), layout("b", 2_000));
        let note = |layout: &str, at: usize, compared_ms| Note {
            layout: layout.to_owned(),
            end: split(16)[at].end,
            ranges: 16,
            compared_ms,
        };
        let all = |layout: &str, ms: i64| -> Vec<Note> {
            (0..16).map(|at| note(layout, at, ms + at as i64)).collect()
        };
        assert_eq!(oldest_ms(&[&a, &b], &[]), 1_000);
        assert_eq!(last_ms(&[&a, &b], &[]), 2_000);
        let mut notes = all("a", 5_000);
        assert_eq!(oldest_ms(&[&a], &notes), 5_000);
        assert_eq!(oldest_ms(&[&a, &b], &notes), 2_000);
        notes.extend(all("b", 4_000));
        assert_eq!(oldest_ms(&[&a, &b], &notes), 4_000);
        assert_eq!(last_ms(&[&a, &b], &notes), 5_015);
        notes.retain(|note| note.end != split(16)[3].end);
        assert_eq!(oldest_ms(&[&a, &b], &notes), 1_000, "one is missing");
        let anew = layout("a", 9_000);
        assert_eq!(oldest_ms(&[&anew], &notes), 9_000);
    }

    #[test]
    fn it_is_a_problem_if_no_sweep_runs() {
        let swept = |doubted_ms, last_ms| Swept {
            now_ms: 10_000_000,
            doubts: usize::from(Option::<i64>::is_some(&doubted_ms)),
            doubted_ms,
            oldest_ms: 0,
            last_ms,
            last_max: Duration::from_secs(3_600),
        };
        for (doubted_ms, last_ms, problems) in [
            (None, 6_500_000, 0),
            (None, 6_300_000, 1),
            (Some(9_950_000), 9_000_000, 0),
            (Some(9_930_000), 9_000_000, 1),
            (Some(9_000_000), 0, 2),
        ] {
            let swept = swept(doubted_ms, last_ms);
            assert_eq!(swept.problems().len(), problems, "{swept:?}");
        }
        let line = swept(Some(9_950_000), 9_000_000).line();
        assert!(
            line.starts_with("1 partitions in doubt, for 50 s; "),
            "{line}"
        );
        assert!(
            line.ends_with("in the last 2 h, the last one 16 min ago"),
            "{line}"
        );
    }
}
