//! This proxy's part in the lists of copies in sync and of proxies ([`helenus_layout::insync`]), while the catalogue
//! has a table in mode `replace`. There is no way to make one yet, so this is idle: nothing is read, nor connected.
//!
//! `member` decides, `lane` speaks with nodes, `rows` knows the catalogue's tables. Two connections renew the leases
//! in turn, and one changes lists, which may take longer. Copies that are joining are followed and not compared, and so
//! they are never promoted here; nor are copies evicted, which is for those who write them.

mod lane;
mod member;
mod rows;

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use helenus_engine::insync::Lists;
use ring::rand::{SecureRandom, SystemRandom};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep};

use self::lane::{Answer, Lane, Question, Share, Told};
use self::member::{Action, Member, RENEWAL_US};
use crate::boot_time;
use crate::conn::ConnError;
use crate::process::Process;

/// How often it is looked whether there is a table in mode `replace`.
const LOOK: Duration = Duration::from_secs(1);
/// While one of the two renewing connections waits for so long, the other one renews at each tick.
const RENEWAL_PATIENCE: Duration = Duration::from_millis(600);
/// Longer than a node tries a compare-and-set.
const CHANGE_PATIENCE: Duration = Duration::from_secs(3);
/// For leaving the list when the proxy stops.
const LEAVING_MAX: Duration = Duration::from_secs(2);
/// How often the same failure is logged.
const SAME_FAILURE: Duration = Duration::from_secs(60);
/// The lane that changes lists comes behind those that renew.
const RENEWING: usize = 2;

/// Microseconds since the machine was started, the time that it slept included.
pub(crate) fn now_us() -> u64 {
    u64::try_from(boot_time::now().as_micros()).unwrap_or(u64::MAX)
}

/// The task that takes part.
pub(crate) struct Membership {
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl Membership {
    pub(crate) fn begin(common: Arc<Process>) -> Membership {
        let (stop, stopping) = watch::channel(false);
        let task = tokio::spawn(run(common, stopping));
        Membership { stop, task }
    }

    /// Leaves the list of proxies, so that nobody waits for this one. Takes [`LEAVING_MAX`] at most.
    pub(crate) async fn leave(self) {
        let _ = self.stop.send(true);
        let _ = self.task.await;
    }
}

/// Why a start of this proxy takes no part any more.
enum End {
    /// The proxy stops.
    Stopped,
    /// There is no table any more.
    Unneeded,
    /// It was evicted.
    Evicted,
}

async fn run(common: Arc<Process>, mut stopping: watch::Receiver<bool>) {
    loop {
        while !is_wanted(&common) {
            tokio::select! {
                () = sleep(LOOK) => {}
                _ = stopping.changed() => return,
            }
        }
        let end = match Part::begin(common.clone()) {
            Some(part) => part.take(&mut stopping).await,
            None => return,
        };
        common.lists.store(Arc::new(Lists::default()));
        match end {
            End::Stopped => return,
            End::Unneeded => tracing::info!("there is no table in mode `replace` any more"),
            End::Evicted => tracing::warn!(
                "this proxy was evicted from the list of proxies, because it gave no sign of life: it joins anew"
            ),
        }
    }
}

fn is_wanted(common: &Process) -> bool {
    !common.catalogue.load().layouts.replaced.is_empty()
}

/// One start of this proxy, with its connections.
struct Part {
    common: Arc<Process>,
    member: Member,
    /// Two that renew, and one that changes.
    lanes: Vec<Lane>,
    answers: mpsc::Receiver<Answer>,
    beat: i64,
    /// What is asked of the last lane, or was asked last.
    action: Option<Action>,
    /// Nothing more is asked of it before the next tick.
    is_resting: bool,
    /// What was logged last, and when.
    told: Option<(String, Instant)>,
}

impl Part {
    /// None if the operating system gives no random number.
    fn begin(common: Arc<Process>) -> Option<Part> {
        let mut start = [0; 16];
        if SystemRandom::new().fill(&mut start).is_err() {
            tracing::error!(
                "the operating system gives no random number: this proxy stays out of the list"
            );
            return None;
        }
        // A random UUID, version 4.
        start[6] = start[6] & 0x0f | 0x40;
        start[8] = start[8] & 0x3f | 0x80;
        let (sender, answers) = mpsc::channel(8);
        let lanes = (0..=RENEWING).map(|number| {
            let all = Share { from: 0, of: 1 };
            let half = Share {
                from: number,
                of: RENEWING,
            };
            let (share, patience) = match number < RENEWING {
                true => (half, RENEWAL_PATIENCE),
                false => (all, CHANGE_PATIENCE),
            };
            Lane::open(common.clone(), (number, share), patience, sender.clone())
        });
        Some(Part {
            member: Member::new(start),
            lanes: lanes.collect(),
            common,
            answers,
            beat: 0,
            action: None,
            is_resting: false,
            told: None,
        })
    }

    async fn take(mut self, stopping: &mut watch::Receiver<bool>) -> End {
        let mut ticks = interval(Duration::from_micros(RENEWAL_US));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut leaving: Option<(Instant, End)> = None;
        let mut is_stopping = *stopping.borrow();
        loop {
            if leaving.is_none() && (is_stopping || !is_wanted(&self.common)) {
                let end = if is_stopping {
                    End::Stopped
                } else {
                    End::Unneeded
                };
                self.member.leave();
                leaving = Some((Instant::now() + LEAVING_MAX, end));
            }
            if let Some(End::Evicted) = self.act() {
                return leaving.map_or(End::Evicted, |(_, end)| end);
            }
            self.common.lists.store(Arc::new(self.member.published()));
            if let Some((until, _)) = &leaving
                && (self.member.has_left() || Instant::now() >= *until)
            {
                return leaving.map_or(End::Stopped, |(_, end)| end);
            }
            tokio::select! {
                _ = ticks.tick() => self.on_tick(),
                Some(answer) = self.answers.recv() => self.on_answer(answer),
                changed = stopping.changed(), if !is_stopping => {
                    is_stopping = changed.is_err() || *stopping.borrow();
                }
            }
        }
    }

    /// Renews, by the lane whose turn it is, or by the other one.
    fn on_tick(&mut self) {
        self.is_resting = false;
        let known = self.common.catalogue.load_full();
        self.member.set_tables(&known.layouts.replaced);
        self.beat += 1;
        let start = self.member.start();
        let renew = Question::Renew {
            tables: self.member.tables().cloned().collect(),
            beat: self.member.is_listed().then_some((start, self.beat)),
        };
        let turn = usize::from(self.beat % 2 == 0);
        let is_asked = self.lanes[turn].ask(renew.clone());
        if !is_asked {
            self.lanes[1 - turn].ask(renew);
        }
    }

    /// Asks what is to be asked next, if the last answer has come.
    fn act(&mut self) -> Option<End> {
        if self.is_resting || self.lanes[RENEWING].is_busy() {
            return None;
        }
        let Some(action) = self.member.next(now_us()) else {
            self.action = None;
            return None;
        };
        let question = match &action {
            Action::StartAnew => return Some(End::Evicted),
            Action::Read(list) => Question::Read(list.clone()),
            Action::ReadIntents => Question::ReadIntents,
            Action::Change(change) => {
                tracing::info!(
                    number = change.number,
                    version = change.version,
                    "the list of proxies is to say: {}",
                    change.state.name()
                );
                let address = self.common.settings.load().advertised().to_string();
                let release = env!("CARGO_PKG_VERSION");
                Question::Change(rows::change(change, &address, release, now_ms()))
            }
        };
        // The same again is not asked before the next tick.
        if self.action.as_ref() == Some(&action) {
            self.is_resting = true;
            self.action = None;
            return None;
        }
        self.action = Some(action);
        self.lanes[RENEWING].ask(question);
        None
    }

    fn on_answer(&mut self, answer: Answer) {
        let now_us = now_us();
        self.lanes[answer.lane].on_answer();
        if answer.lane == RENEWING && matches!(self.action, Some(Action::Change(_))) {
            self.member.on_attempted();
        }
        let told = match answer.told {
            Ok(told) => told,
            Err(why) => {
                if answer.lane == RENEWING {
                    self.on_failed(now_us);
                }
                return self.on_failure(&why);
            }
        };
        match told {
            Told::Renewed { proxies, copies } => {
                let (beats, sent_us) = proxies;
                self.member.on_beats(&beats, sent_us, now_us);
                for (table, versions, sent_us) in copies {
                    self.member.on_versions(&table, &versions, sent_us, now_us);
                }
            }
            Told::Proxies {
                version,
                rows,
                sent_us,
            } => self.member.on_proxies(version, rows, sent_us, now_us),
            Told::Copies {
                table,
                rows,
                sent_us,
            } => self.member.on_copies(&table, &rows, sent_us, now_us),
            Told::Intents { left, sent_us } => self.member.on_intents(left, sent_us),
            Told::Changed { is_applied: true } => self.member.on_changed(),
            Told::Changed { is_applied: false } => self.on_failed(now_us),
        }
    }

    /// What was asked of the last lane is put off.
    fn on_failed(&mut self, now_us: u64) {
        if let Some(action) = &self.action {
            self.member.on_failed(action, now_us);
        }
    }

    /// The same again is logged now and then only.
    fn on_failure(&mut self, why: &ConnError) {
        let why = why.to_string();
        let now = Instant::now();
        let is_known = self
            .told
            .as_ref()
            .is_some_and(|(told, at)| *told == why && now < *at + SAME_FAILURE);
        if is_known {
            return tracing::debug!("the lists of copies and proxies: {why}");
        }
        tracing::warn!(
            "the lists of copies and proxies cannot be read or changed: {why}. The role of cluster.username needs \
             SELECT on the keyspace helenus and MODIFY on helenus.proxies"
        );
        self.told = Some((why, now));
    }
}

fn now_ms() -> i64 {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH);
    since_1970.map_or(0, |since| since.as_millis() as i64)
}
