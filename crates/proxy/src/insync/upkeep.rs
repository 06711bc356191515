//! Brings copies back that are out, and resynchronises what proxies that are gone have left: one thing at a time, by one
//! of the proxies ([`helenus_layout::insync::is_caretaker`]), by the lists that this proxy knows.
//!
//! - Where ranges have **other owners** than their lists say, the lists are made anew from those that they had
//!   ([`helenus_layout::insync::regroup()`]).
//! - A copy that is **out** and whose node answers is set to *joining*.
//! - One that is **joining** is compared with one in sync once all wait for it ([`helenus_layout::insync::Join`]), a few
//!   parts of its ranges at a time, and then set to *in sync*. What is compared stays equal: from then on every write is
//!   waited for in both, or given up and made good. So a comparison that was interrupted goes on where it was, as long as
//!   both are what they were.
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
mod held;
mod intended;
mod job;
mod node;
mod own;
mod progress;
mod regrouping;
mod resting;
mod resynchronising;
mod returning;
mod status;
mod trouble;
mod unreachable;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::lists::{CopiesOf, Lists};
use helenus_engine::snapshot::HostId;
use helenus_layout::insync::{Comeback, JoinStep, State, TABLE, is_caretaker};
use helenus_rows::PAGE_ROWS;
use tokio::sync::watch;
use tokio::time::sleep;

use self::comparing::Counts;
use self::job::Job;
use self::own::Own;
use self::progress::{EXPIRING_LOOKS_MAX, Progress};
use self::regrouping::Regrouping;
use self::returning::{EXPIRED_US, GIVEN_UP_US, Right, Stint, may_join};
use self::trouble::Trouble;
use super::asked::{CopyName, Start, TableName};
use super::member::TIMING;
use super::rings::{OwnedOfTables, Rings};
use crate::boot_time::now_us;
use crate::process::Process;

pub(crate) use self::status::Status;
pub(crate) use self::unreachable::Unreachable;

/// How often it is looked for something to do.
const TICK: Duration = Duration::from_millis(250);
/// What fails is tried again after this time at first, and after twice as long each time,
const RETRY_US: u64 = 1_000_000;
/// up to so long.
const RETRY_MAX_US: u64 = 60_000_000;
/// Lists that clients wait for, and that somebody else has changed meanwhile, or a node did not let change.
const REGROUP_RETRY_MAX_US: u64 = 2_000_000;
/// A copy whose node has failed so often in a row while one is joining, and fails again, is out.
const COMPARISONS_FAILED_MAX: u32 = 2;
/// How often it is looked for what proxies that are gone have left.
const LOOK_US: u64 = 5_000_000;
/// How often it is looked whether nodes were restarted that have the only copies in sync.
const LOOK_AT_LAST_US: u64 = 10_000_000;
/// After each failure in a row so many times fewer rows are asked for at a time: they may be too large.
const FEWER_ROWS: i32 = 32;

#[derive(Clone, Copy, Debug, Default)]
struct Wait {
    failures: u32,
    /// Those of them in which a node has failed.
    of_nodes: u32,
    until_us: u64,
}

struct Upkeep {
    common: Arc<Process>,
    rings: Rings,
    regrouping: Regrouping,
    comebacks: BTreeMap<CopyName, Comeback>,
    progress: BTreeMap<CopyName, Progress>,
    /// Buckets that starts which are gone have left, and those of them that are equal by now.
    left: Vec<(Start, usize)>,
    equal: BTreeSet<(Start, usize)>,
    /// Numbers of starts that have left none, with since when they are out.
    clean: BTreeSet<(usize, u64)>,
    /// Buckets in which this proxy has given writes up.
    own: Own,
    waits: BTreeMap<Job, Wait>,
    /// How often buckets were looked at in which values were about to expire.
    expiring: BTreeMap<Job, u32>,
    /// What had the last turns, of buckets and of copies that come back: the next one has its turn, of each in turn.
    last: [Option<Job>; 2],
    was_comeback: bool,
    /// The last turn was that of lists that are missing, and could not be made.
    has_not_regrouped: bool,
    status: Status,
    /// Why jobs do not succeed, and what of that was logged last.
    problems: BTreeMap<Job, String>,
    logged: BTreeMap<Job, String>,
}

/// How a turn of a job ends that has not failed.
#[derive(Clone, Debug, PartialEq, Eq)]
enum End {
    Done,
    /// It goes on when others have had their turn. Whether it has come further.
    Goes {
        has_advanced: bool,
    },
    /// It goes on after so many microseconds; why, if that is a problem.
    Later(u64, Option<String>),
}

/// Until the proxy stops.
pub(super) async fn run(common: Arc<Process>, mut stopping: watch::Receiver<bool>) {
    let mut upkeep = Upkeep::new(common);
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
    fn new(common: Arc<Process>) -> Upkeep {
        Upkeep {
            common,
            rings: Rings::default(),
            regrouping: Regrouping::default(),
            comebacks: BTreeMap::new(),
            progress: BTreeMap::new(),
            left: Vec::new(),
            equal: BTreeSet::new(),
            clean: BTreeSet::new(),
            own: Own::default(),
            waits: BTreeMap::new(),
            expiring: BTreeMap::new(),
            last: [None, None],
            was_comeback: false,
            has_not_regrouped: false,
            status: Status::default(),
            problems: BTreeMap::new(),
            logged: BTreeMap::new(),
        }
    }

    async fn turn(&mut self) {
        let (lists, now_us) = (self.common.lists.load_full(), now_us());
        self.status.is_caretaker = self.is_caretaker(&lists, now_us);
        self.look_at_own();
        let mut jobs: Vec<Job> = self.own.due(now_us).map(Job::MakeGood).collect();
        match self.status.is_caretaker {
            true => {
                self.note_states(&lists, now_us);
                let snapshot = self.common.snapshot.load_full();
                let rings = self.rings.of(&snapshot);
                jobs.extend(self.jobs(&lists, &rings));
                let due = self.regrouping.due(&lists, &rings, now_us);
                jobs.extend(due.into_iter().map(|(name, ring)| Job::Regroup(name, ring)));
            }
            // Another proxy does it, or this one has no lease at this moment: what is compared stays equal.
            false => self.left.clear(),
        }
        jobs.sort_unstable();
        self.retain(&jobs);
        let is_due = |job: &Job| {
            let wait = self.waits.get(job);
            wait.is_none_or(|wait| now_us >= wait.until_us) && self.is_ready(job, &lists, now_us)
        };
        jobs.retain(is_due);
        let Some(job) = self.next(&jobs) else {
            return sleep(TICK).await;
        };
        let done = self.carry_out(&job).await;
        self.has_not_regrouped = job.is_regroup() && done.is_err();
        self.note_end(&job, done);
        // It is nobody else's turn that it has had.
        if job.is_regroup() {
            return;
        }
        self.was_comeback = job.is_comeback();
        if let Some(last) = self.last.get_mut(usize::from(self.was_comeback)) {
            *last = Some(job);
        }
    }

    /// Forgets what was about other jobs. What is for all proxies goes on where it was, when this one does it again.
    fn retain(&mut self, jobs: &[Job]) {
        let is_there = |job: &Job| jobs.binary_search(job).is_ok();
        let is_caretaker = self.status.is_caretaker;
        let is_kept =
            |job: &Job| is_there(job) || !is_caretaker && !matches!(job, Job::MakeGood(_));
        self.waits.retain(|job, _| is_kept(job));
        self.expiring.retain(|job, _| is_kept(job));
        self.logged.retain(|job, _| is_kept(job));
        self.problems.retain(|job, _| is_there(job));
    }

    /// Whether it can be done now.
    fn is_ready(&self, job: &Job, lists: &Lists, now_us: u64) -> bool {
        match job {
            // While a command does not let it join, no attempt is made that would put off the next one.
            Job::Join(name) => {
                let is_due = |comeback: &Comeback| comeback.is_due(now_us);
                self.comebacks.get(name).is_some_and(is_due) && may_join(&self.common, name)
            }
            Job::Compare(name) => {
                let is_it = |of: &&CopiesOf| self::name(of, name.copy) == *name;
                let mut of = lists.copies.iter().filter(is_it);
                of.any(|of| is_to_be_compared(of, name.copy, now_us))
            }
            _ => true,
        }
    }

    /// Lists that are missing come first, because clients wait for them, but for one turn after such a try has failed.
    /// Every second other turn is for a copy that comes back, however many buckets there are.
    fn next(&self, due: &[Job]) -> Option<Job> {
        let regroup = || due.iter().find(|job| job.is_regroup()).cloned();
        if let Some(job) = regroup().filter(|_| !self.has_not_regrouped) {
            return Some(job);
        }
        let of = |is_comeback: bool| {
            let is_of = |job: &&Job| !job.is_regroup() && job.is_comeback() == is_comeback;
            let mut jobs = due.iter().filter(is_of);
            let last = self.last.get(usize::from(is_comeback));
            let last = last.and_then(Option::as_ref);
            let later = jobs.clone().find(|job| Some(*job) > last);
            later.or_else(|| jobs.next()).cloned()
        };
        let other = of(!self.was_comeback).or_else(|| of(self.was_comeback));
        other.or_else(regroup)
    }

    fn is_caretaker(&self, lists: &Lists, now_us: u64) -> bool {
        let known = lists.me.zip(lists.proxies.as_ref());
        known.is_some_and(|(me, proxies)| is_caretaker(proxies, me, now_us))
    }

    fn look_at_own(&mut self) {
        // Before the intents are looked at: what is given up afterwards is news for the next look.
        let is_news = self.common.has_given_up.swap(false, Ordering::AcqRel);
        let lists = self.common.copies.lists();
        let member = lists.membership.as_ref().map(|of| of.member.clone());
        let late_us = TIMING.late_outlast_us();
        self.own.look(member, is_news, (now_us, late_us));
    }

    fn note_states(&mut self, lists: &Lists, now_us: u64) {
        let mut states = BTreeMap::new();
        for of in &lists.copies {
            let Some(list) = of.known.last_read() else {
                continue;
            };
            for member in of.members(list) {
                states.insert(name(of, member), list.state(member));
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

    /// All that is to be done for all proxies, by the lists that were read last.
    fn jobs(&self, lists: &Lists, rings: &OwnedOfTables) -> Vec<Job> {
        let mut jobs = Vec::new();
        for of in &lists.copies {
            // One that is about other ranges than its owners have is replaced first.
            let is_it = regrouping::is_of_ring(of, rings);
            let Some(list) = of.known.last_read().filter(|_| is_it) else {
                continue;
            };
            for member in of.members(list) {
                let name = name(of, member);
                match list.state(member) {
                    // Commands alone let the table itself join.
                    State::Out if member == TABLE => {}
                    State::Out => jobs.push(Job::Join(name)),
                    State::Joining => jobs.push(Job::Compare(name)),
                    State::InSync => {}
                }
            }
        }
        let alone = returning::nodes_alone(lists);
        jobs.extend(alone.into_iter().map(Job::LookAtLast));
        jobs.push(Job::Look);
        let left = self.left.iter();
        jobs.extend(left.map(|(start, bucket)| Job::Resynchronise(*start, *bucket)));
        jobs
    }

    async fn carry_out(&mut self, job: &Job) -> Result<End, Trouble> {
        let failures = self.waits.get(job).map_or(0, |wait| wait.of_nodes);
        let page_rows_max = page_rows_max(failures);
        match job {
            Job::Regroup(name, ring) => {
                regrouping::regroup(&self.common, (name, *ring)).await?;
                // Until the lists say so, too.
                Ok(End::Later(RETRY_US, None))
            }
            Job::Join(name) => {
                if let Some(comeback) = self.comebacks.get_mut(name) {
                    comeback.on_attempt(now_us());
                }
                returning::join(&self.common, name).await?;
                Ok(End::Done)
            }
            Job::Compare(name) => {
                let progress = self.progress.entry(name.clone()).or_default();
                let (before, steps) = (progress.counts, progress.steps());
                let how = (&mut *progress, page_rows_max);
                let end = returning::compare(&self.common, name, how).await;
                let (after, has_advanced) = (progress.counts, progress.steps() > steps);
                self.status.rows_repaired += after.repaired - before.repaired;
                self.status.rows_given_up += after.given_up - before.given_up;
                if has_advanced {
                    // What fails now is something else.
                    self.waits.remove(job);
                }
                match end {
                    Ok(Stint::InSync) => {
                        self.status.copies_returned += 1;
                        self.progress.remove(name);
                        // Until the lists say so, too.
                        Ok(End::Later(RETRY_US, None))
                    }
                    Ok(Stint::Goes) => Ok(End::Goes { has_advanced }),
                    Ok(Stint::Later(us, why)) => Ok(End::Later(us, why)),
                    Err(why) => {
                        let failures = if has_advanced { 0 } else { failures };
                        self.give_up_failing(name, &why, failures).await?;
                        Err(why)
                    }
                }
            }
            Job::LookAtLast(node) => {
                returning::look_at_last(&self.common, *node).await?;
                Ok(End::Later(LOOK_AT_LAST_US, None))
            }
            Job::Look => {
                let left = catalogue::left(&self.common, &mut self.clean).await?;
                self.left = left;
                self.left.retain(|of| !self.equal.contains(of));
                let starts: BTreeSet<Start> = self.left.iter().map(|of| of.0).collect();
                self.equal.retain(|of| starts.contains(&of.0));
                Ok(End::Later(LOOK_US, None))
            }
            Job::Resynchronise(start, bucket) => {
                let how = (Right::Caretaker, page_rows_max);
                let counts = self.resynchronise(*bucket, how).await?;
                if self.is_to_be_looked_at_again(job, counts) {
                    return Ok(End::Later(EXPIRED_US, None));
                }
                // All at once, when the last one is equal: what is done twice is harmless.
                let is_other = |of: &(Start, usize)| of.0 == *start && of.1 != *bucket;
                if !self.left.iter().any(is_other) {
                    catalogue::forget(&self.common, *start).await?;
                }
                self.left.retain(|of| *of != (*start, *bucket));
                self.equal.insert((*start, *bucket));
                self.status.buckets_resynchronised += 1;
                Ok(End::Done)
            }
            Job::MakeGood(bucket) => {
                let how = (Right::Own, page_rows_max);
                let counts = self.resynchronise(*bucket, how).await?;
                if self.is_to_be_looked_at_again(job, counts) {
                    return Ok(End::Later(EXPIRED_US, None));
                }
                let copies = &self.common.copies;
                let by_writes_us = copies.us(Instant::now());
                self.own.on_resynchronised(*bucket, by_writes_us);
                // More may have been given up there meanwhile.
                self.common.note_given_up();
                self.status.buckets_resynchronised += 1;
                Ok(End::Done)
            }
        }
    }

    /// Makes a bucket equal in the copies of all tables. What fails in one of them holds up no other.
    async fn resynchronise(&mut self, bucket: usize, how: (Right, i32)) -> Result<Counts, Trouble> {
        let mut all = Counts::default();
        let mut failure = None;
        for name in &self.common.catalogue.load_full().layouts.replaced {
            let (counts, end) =
                resynchronising::resynchronise(&self.common, name, bucket, how).await;
            self.status.rows_repaired += counts.repaired;
            all.expiring += counts.expiring;
            failure = failure.or(end.err());
        }
        failure.map_or(Ok(all), Err)
    }

    /// Whether values in a bucket were about to expire, which may hide that rows differ: a few times.
    fn is_to_be_looked_at_again(&mut self, job: &Job, counts: Counts) -> bool {
        if counts.expiring == 0 {
            return false;
        }
        let looks = self.expiring.entry(job.clone()).or_default();
        *looks += 1;
        *looks <= EXPIRING_LOOKS_MAX
    }

    /// A copy is out whose node fails again and again while one is joining: writes wait for both.
    async fn give_up_failing(
        &self,
        name: &CopyName,
        why: &Trouble,
        failures: u32,
    ) -> Result<(), Trouble> {
        let snapshot = self.common.snapshot.load_full();
        let node = match why {
            Trouble::Node(address, _) => snapshot.nodes.iter().find(|of| of.address == *address),
            Trouble::Unreachable(host) => snapshot.nodes.iter().find(|of| of.host_id == *host),
            _ => return Ok(()),
        };
        let node = node.map(|node| node.host_id);
        let of_node = node.map_or(0, |node| self.common.unreachable.failures(node));
        // A node that can be connected to and fails is asked for too much. One that clients' requests reach is not lost.
        let has_links = node.is_some_and(|node| has_links(&self.common, node));
        let is_lost = of_node > COMPARISONS_FAILED_MAX;
        if !is_lost && failures < COMPARISONS_FAILED_MAX {
            return Ok(());
        }
        returning::give_up(&self.common, name, node.filter(|_| is_lost && !has_links)).await
    }

    fn note_end(&mut self, job: &Job, end: Result<End, Trouble>) {
        let now_us = now_us();
        match end {
            Ok(End::Done) => {
                self.problems.remove(job);
                self.logged.remove(job);
                self.waits.remove(job);
                self.expiring.remove(job);
            }
            Ok(End::Goes { has_advanced }) => {
                if has_advanced {
                    self.problems.remove(job);
                    self.waits.remove(job);
                }
            }
            Ok(End::Later(us, why)) => {
                let wait = Wait {
                    until_us: now_us.saturating_add(us),
                    ..Wait::default()
                };
                self.waits.insert(job.clone(), wait);
                match why {
                    Some(why) => self.note_problem(job, &why, false),
                    None => {
                        self.problems.remove(job);
                    }
                }
            }
            Err(why) => {
                self.put_off(job, &why, now_us);
                let is_usual = matches!(
                    why,
                    Trouble::Changed | Trouble::Unreachable(_) | Trouble::NoList(..)
                );
                self.note_problem(job, &why.to_string(), is_usual);
            }
        }
    }

    /// What has failed is tried again later, and later each time.
    fn put_off(&mut self, job: &Job, why: &Trouble, now_us: u64) {
        let wait = self.waits.entry(job.clone()).or_default();
        let time_us = match (job, why) {
            // Only an operator can help, or time.
            (Job::Resynchronise(..) | Job::MakeGood(_), Trouble::Unfit(_)) => GIVEN_UP_US,
            (Job::LookAtLast(_), Trouble::Unfit(_)) => LOOK_AT_LAST_US,
            (Job::Regroup(..), Trouble::Changed | Trouble::Catalogue(_)) => {
                (RETRY_US << wait.failures.min(16)).min(REGROUP_RETRY_MAX_US)
            }
            _ => (RETRY_US << wait.failures.min(16)).min(RETRY_MAX_US),
        };
        // It has not been tried.
        if !matches!(why, Trouble::Unreachable(_)) {
            wait.failures = wait.failures.saturating_add(1);
        }
        let is_of_node = matches!(why, Trouble::Node(..));
        wait.of_nodes = wait.of_nodes.saturating_add(u32::from(is_of_node));
        wait.until_us = now_us.saturating_add(time_us);
    }

    /// Logs a problem once, as long as it is the same.
    fn note_problem(&mut self, job: &Job, why: &str, is_usual: bool) {
        let why = format!("{}: {why}", job.described());
        let is_known = self.logged.get(job) == Some(&why);
        match is_usual || is_known {
            true => tracing::debug!("{why}"),
            false => {
                tracing::warn!("{why}; it is tried again");
                self.logged.insert(job.clone(), why.clone());
            }
        }
        self.problems.insert(job.clone(), why);
    }

    fn publish(&mut self) {
        // Another proxy may compare them now.
        let is_caretaker = self.status.is_caretaker;
        let progress = self.progress.iter().filter(|_| is_caretaker);
        let comparing = progress.map(|(name, progress)| status::Comparing {
            keyspace: name.table.0.clone(),
            table: name.table.1.clone(),
            copy: Some(name.copy).filter(|copy| *copy != TABLE),
            parts_compared: progress.done(),
            parts: progress.parts(),
        });
        self.status.comparing = comparing.collect();
        self.status.buckets_left = self.left.len();
        self.status.buckets_given_up = self.own.len();
        let is_told = |name: &TableName, ring| {
            let job = Job::Regroup(name.clone(), ring);
            self.problems.contains_key(&job)
        };
        let missing = match is_caretaker {
            true => self.regrouping.missing(is_told),
            false => Vec::new(),
        };
        self.status.problems = self.problems.values().cloned().chain(missing).collect();
        if **self.common.upkeep.load() != self.status {
            self.common.upkeep.store(Arc::new(self.status.clone()));
        }
    }
}

/// Whether workers have connections to a node.
fn has_links(common: &Process, node: HostId) -> bool {
    let snapshot = common.snapshot.load();
    let mut nodes = snapshot.nodes.iter();
    let at = nodes.position(|of| of.host_id == node && !of.gone);
    let stats = common.stats.nodes();
    let stats = at.and_then(|at| stats.get(at));
    stats.is_some_and(|stats| stats.links_up.load(Ordering::Relaxed) > 0)
}

/// Rows to ask for at a time after a node has failed so many times in a row.
fn page_rows_max(failures: u32) -> i32 {
    let times = FEWER_ROWS.checked_pow(failures).unwrap_or(i32::MAX);
    (PAGE_ROWS / times).max(1)
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

#[cfg(test)]
mod tests;
