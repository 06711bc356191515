//! Brings copies back that are out, and resynchronises what proxies that are gone have left: one thing at a time, by one
//! of the proxies ([`helenus_layout::insync::is_caretaker`]), by the lists that this proxy knows.
//!
//! - A copy that is **out** and whose node answers is set to *joining*.
//! - One that is **joining** is compared with one in sync once all wait for it ([`helenus_layout::insync::Join`]), a few
//!   parts of its ranges at a time, and then set to *in sync*. What is compared stays equal: from then on every write is
//!   waited for in both. So a comparison that was interrupted goes on where it was, as long as both are what they were.
//! - The buckets in which a proxy that is **gone** has recorded intents are compared in all copies, and its intents
//!   cleared.
//! - What this proxy has **given up** itself, it makes good itself, whichever proxy does the rest.
//!
//! Lists change by compare-and-set, and nothing is assumed of one that was not answered: the next list that is read says
//! what is to be done.

mod catalogue;
mod comparing;
mod copies;
mod group;
mod node;
mod own;
mod returning;
mod status;
mod trouble;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::lists::{CopiesOf, Lists};
use helenus_layout::insync::{Comeback, JoinStep, State, is_caretaker};
use tokio::sync::watch;
use tokio::time::sleep;

use self::own::Own;
use self::returning::{Progress, Right};
use self::trouble::Trouble;
use super::asked::{CopyName, Start};
use super::member::TIMING;
use crate::boot_time::now_us;
use crate::process::Process;

pub(crate) use self::status::Status;

/// How often it is looked for something to do.
const TICK: Duration = Duration::from_millis(250);
/// What fails is tried again after this time at first, and after twice as long each time,
const RETRY_US: u64 = 1_000_000;
/// up to so long.
const RETRY_MAX_US: u64 = 60_000_000;
/// A copy whose comparison has failed so often in a row, and fails again, is out again.
const COMPARISONS_FAILED_MAX: u32 = 2;
/// How often it is looked for what proxies that are gone have left.
const LOOK_US: u64 = 5_000_000;

/// One thing to do.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Job {
    /// Let a copy join.
    Join(CopyName),
    /// Compare one that is joining.
    Compare(CopyName),
    /// Read what proxies have left.
    Look,
    /// Make a bucket equal that a start of a proxy has left.
    Resynchronise(Start, usize),
    /// The same where this proxy has given writes up.
    MakeGood(usize),
}

#[derive(Clone, Copy, Debug, Default)]
struct Wait {
    failures: u32,
    until_us: u64,
}

struct Upkeep {
    common: Arc<Process>,
    comebacks: BTreeMap<CopyName, Comeback>,
    progress: BTreeMap<CopyName, Progress>,
    /// Buckets that starts which are gone have left.
    left: Vec<(Start, usize)>,
    /// Buckets in which this proxy has given writes up.
    own: Own,
    waits: BTreeMap<Job, Wait>,
    /// The next one has its turn.
    last: Option<Job>,
    status: Status,
    /// Why jobs do not succeed.
    problems: BTreeMap<Job, String>,
}

/// Until the proxy stops.
pub(super) async fn run(common: Arc<Process>, mut stopping: watch::Receiver<bool>) {
    let mut upkeep = Upkeep {
        common,
        comebacks: BTreeMap::new(),
        progress: BTreeMap::new(),
        left: Vec::new(),
        own: Own::default(),
        waits: BTreeMap::new(),
        last: None,
        status: Status::default(),
        problems: BTreeMap::new(),
    };
    let turns = async {
        loop {
            upkeep.turn().await;
            upkeep.publish();
        }
    };
    tokio::select! {
        () = turns => {}
        _ = stopping.changed() => {}
    }
}

impl Upkeep {
    async fn turn(&mut self) {
        let (lists, now_us) = (self.common.lists.load_full(), now_us());
        self.status.is_caretaker = self.is_caretaker(&lists, now_us);
        self.look_at_own(now_us);
        let mut jobs: Vec<Job> = self.own.due(now_us).map(Job::MakeGood).collect();
        match self.status.is_caretaker {
            true => {
                self.note_states(&lists, now_us);
                jobs.extend(self.jobs(&lists, now_us));
            }
            false => self.forget(),
        }
        jobs.sort_unstable();
        let is_there = |job: &Job| jobs.binary_search(job).is_ok();
        self.waits.retain(|job, _| is_there(job));
        self.problems.retain(|job, _| is_there(job));
        let due = jobs.iter().filter(|job| {
            let wait = self.waits.get(job);
            wait.is_none_or(|wait| now_us >= wait.until_us)
        });
        let later = due.clone().find(|job| Some(*job) > self.last.as_ref());
        let Some(job) = later.or(due.clone().next()).cloned() else {
            return sleep(TICK).await;
        };
        let done = self.carry_out(&job).await;
        self.note_end(&job, done);
        self.last = Some(job);
    }

    fn is_caretaker(&self, lists: &Lists, now_us: u64) -> bool {
        let known = lists.me.zip(lists.proxies.as_ref());
        known.is_some_and(|(me, proxies)| is_caretaker(proxies, me, now_us))
    }

    /// Another proxy does it.
    fn forget(&mut self) {
        self.comebacks.clear();
        self.progress.clear();
        self.left.clear();
    }

    fn look_at_own(&mut self, now_us: u64) {
        // Before the intents are looked at: what is given up afterwards is news for the next look.
        let is_news = self.common.has_given_up.swap(false, Ordering::AcqRel);
        let lists = self.common.copies.lists();
        let member = lists.membership.as_ref().map(|of| of.member.clone());
        let times_us = (now_us, TIMING.late_outlast_us());
        self.own.look(member, is_news, times_us);
    }

    fn note_states(&mut self, lists: &Lists, now_us: u64) {
        let mut states = BTreeMap::new();
        for of in &lists.copies {
            let Some(list) = of.known.last_read() else {
                continue;
            };
            for copy in 0..of.owners.len() {
                states.insert(name(of, copy), list.state(copy));
            }
        }
        self.comebacks.retain(|name, _| states.contains_key(name));
        let is_joining = |name: &CopyName| states.get(name) == Some(&State::Joining);
        self.progress.retain(|name, _| is_joining(name));
        for (name, state) in states {
            self.comebacks
                .entry(name)
                .or_default()
                .on_state(state, now_us);
        }
    }

    /// All that is to be done for all proxies.
    fn jobs(&self, lists: &Lists, now_us: u64) -> Vec<Job> {
        let mut jobs = Vec::new();
        for of in &lists.copies {
            let Some(list) = of.known.list(now_us) else {
                continue;
            };
            for copy in 0..of.owners.len() {
                let name = name(of, copy);
                match list.state(copy) {
                    State::Out if self.comebacks.get(&name).is_some_and(|c| c.is_due(now_us)) => {
                        jobs.push(Job::Join(name));
                    }
                    State::Joining if is_to_be_compared(of, copy, now_us) => {
                        jobs.push(Job::Compare(name));
                    }
                    _ => {}
                }
            }
        }
        jobs.push(Job::Look);
        let left = self.left.iter();
        jobs.extend(left.map(|(start, bucket)| Job::Resynchronise(*start, *bucket)));
        jobs
    }

    async fn carry_out(&mut self, job: &Job) -> Result<(), Trouble> {
        match job {
            Job::Join(name) => {
                if let Some(comeback) = self.comebacks.get_mut(name) {
                    comeback.on_attempt(now_us());
                }
                returning::join(&self.common, name).await
            }
            Job::Compare(name) => {
                let progress = self.progress.entry(name.clone()).or_default();
                let before = progress.counts;
                let end = returning::compare(&self.common, name, progress).await;
                let after = progress.counts;
                self.status.rows_repaired += after.repaired - before.repaired;
                self.status.rows_given_up += after.given_up - before.given_up;
                let failures = self.waits.get(job).map_or(0, |wait| wait.failures);
                if matches!(end, Err(Trouble::Node(..))) && failures >= COMPARISONS_FAILED_MAX {
                    returning::give_up(&self.common, name).await?;
                }
                if end? {
                    self.status.copies_returned += 1;
                    self.progress.remove(name);
                }
                Ok(())
            }
            Job::Look => {
                self.left = catalogue::left(&self.common).await?;
                Ok(())
            }
            Job::Resynchronise(start, bucket) => {
                self.resynchronise(*bucket, Right::Caretaker).await?;
                catalogue::clear(&self.common, *start, *bucket).await?;
                self.left.retain(|of| *of != (*start, *bucket));
                self.status.buckets_resynchronised += 1;
                Ok(())
            }
            Job::MakeGood(bucket) => {
                self.resynchronise(*bucket, Right::Own).await?;
                let copies = &self.common.copies;
                let by_writes_us = copies.us(Instant::now());
                self.own.on_resynchronised(*bucket, by_writes_us);
                // More may have been given up there meanwhile.
                self.common.note_given_up();
                self.status.buckets_resynchronised += 1;
                Ok(())
            }
        }
    }

    /// Makes a bucket equal in the copies of all tables.
    async fn resynchronise(&mut self, bucket: usize, right: Right) -> Result<(), Trouble> {
        for name in &self.common.catalogue.load_full().layouts.replaced {
            let counts = returning::resynchronise(&self.common, name, bucket, right).await?;
            self.status.rows_repaired += counts.repaired;
        }
        Ok(())
    }

    /// Puts off what has failed. What is to be done again later waits as well.
    fn note_end(&mut self, job: &Job, done: Result<(), Trouble>) {
        let now_us = now_us();
        match done {
            Ok(()) => {
                self.problems.remove(job);
                match job {
                    Job::Look => {
                        let until_us = now_us + LOOK_US;
                        let failures = 0;
                        self.waits.insert(Job::Look, Wait { failures, until_us });
                    }
                    _ => {
                        self.waits.remove(job);
                    }
                }
            }
            Err(why) => {
                let wait = self.waits.entry(job.clone()).or_default();
                let time_us = (RETRY_US << wait.failures.min(16)).min(RETRY_MAX_US);
                wait.failures = wait.failures.saturating_add(1);
                wait.until_us = now_us + time_us;
                let is_usual = matches!(why, Trouble::Changed);
                let why = format!("{}: {why}", job.described());
                let is_known = self.problems.get(job) == Some(&why);
                match is_usual || is_known {
                    true => tracing::debug!("{why}"),
                    false => tracing::warn!("{why}; it is tried again"),
                }
                self.problems.insert(job.clone(), why);
            }
        }
    }

    fn publish(&mut self) {
        let comparing = self
            .progress
            .iter()
            .map(|(name, progress)| status::Comparing {
                keyspace: name.table.0.clone(),
                table: name.table.1.clone(),
                copy: name.copy,
                parts_compared: progress.done(),
                parts: progress.parts(),
            });
        self.status.comparing = comparing.collect();
        self.status.buckets_left = self.left.len();
        self.status.buckets_given_up = self.own.len();
        self.status.problems = self.problems.values().cloned().collect();
        if **self.common.upkeep.load() != self.status {
            self.common.upkeep.store(Arc::new(self.status.clone()));
        }
    }
}

impl Job {
    fn described(&self) -> String {
        let copy = |of: &CopyName| format!("copy {} of {}.{}", of.copy, of.table.0, of.table.1);
        match self {
            Job::Join(name) => format!("{} cannot join", copy(name)),
            Job::Compare(name) => format!("{} cannot be compared", copy(name)),
            Job::Look => "what proxies that are gone have left cannot be read".to_owned(),
            Job::MakeGood(bucket) => {
                format!(
                    "bucket {bucket}, in which this proxy has given writes up, cannot be made equal"
                )
            }
            Job::Resynchronise(_, bucket) => {
                format!("bucket {bucket} of a proxy that is gone cannot be resynchronised")
            }
        }
    }
}

fn name(of: &CopiesOf, copy: usize) -> CopyName {
    CopyName {
        table: (of.keyspace.clone(), of.table.clone()),
        owners: of.owners.clone(),
        copy,
    }
}

fn is_to_be_compared(of: &CopiesOf, copy: usize, now_us: u64) -> bool {
    let join = of.joins.iter().find(|join| join.member() == copy);
    join.is_some_and(|join| join.next(&of.known, now_us) == JoinStep::Compare)
}
