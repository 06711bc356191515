//! This proxy's part in the lists of copies in sync and of proxies ([`helenus_layout::insync`]), while the catalogue
//! has a table in mode `replace`. Without one this is idle: nothing is read, nor connected.
//!
//! `member` decides, `lane` speaks with nodes, `rows` knows the catalogue's tables. Two connections renew the lease of
//! the list of proxies in turn and give signs of life, two renew those of the lists of copies, one changes lists,
//! which may take longer, and one records write intents. What is known is published to the workers
//! ([`helenus_engine::copies`]) whenever something has been read, at each tick, and when there is another snapshot: the
//! ring may have changed, or the catalogue. What they want is carried out: copies are evicted, intents recorded (`own`,
//! `recording`). `upkeep` brings copies back that are out, and makes good what proxies have left that are gone.

mod asked;
mod lane;
mod member;
mod own;
mod recording;
mod rings;
mod rows;
mod upkeep;

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use helenus_engine::copies::Eviction;
use helenus_engine::shared::WorkerMessage;
use helenus_policy::ring::NodeIndex;
use ring::rand::{SecureRandom, SystemRandom};
use rustc_hash::FxHashMap;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, sleep_until};

use self::asked::{Action, CopyName, ListName};
use self::lane::{Answer, Lane, Question, Share, Told};
use self::member::{Member, RENEWAL_US};
use self::own::Own;
use self::rings::Rings;
use crate::boot_time::now_us;
use crate::conn::ConnError;
use crate::lists::Lists;
use crate::process::{Intent, Process};
use crate::two_clocks::Behind;
use crate::wall_clock::now_ms;

pub(crate) use self::upkeep::{Status as UpkeepStatus, Unreachable};

/// How often it is looked whether there is a table in mode `replace`, or one that is to be.
const LOOK: Duration = Duration::from_secs(1);
/// While one of two renewing connections waits for so long, the other one renews at each tick.
const RENEWAL_PATIENCE: Duration = Duration::from_millis(600);
/// Longer than a node tries a compare-and-set.
const CHANGE_PATIENCE: Duration = Duration::from_secs(3);
/// For leaving the list when the proxy stops.
const LEAVING_MAX: Duration = Duration::from_secs(2);
/// How often a failure of one kind is logged.
const SAME_FAILURE: Duration = Duration::from_secs(60);
/// After an eviction the proxy joins again after this time, and after twice as long each time,
const ANEW: Duration = Duration::from_secs(1);
/// up to so long,
const ANEW_MAX: Duration = Duration::from_secs(30);
/// unless it has stayed for so long.
const STAYED: Duration = Duration::from_secs(60);
/// The upkeep begins anew after so long.
const UPKEEP_ANEW: Duration = Duration::from_secs(10);
/// Lanes that renew in turn: those of proxies, and those of copies.
const OF_PROXIES: [usize; 2] = [0, 1];
const OF_COPIES: [usize; 2] = [2, 3];
/// The lane that reads and changes lists.
const CHANGING: usize = 4;
/// The lane that records write intents.
const RECORDING: usize = 5;
/// Evictions that wait to be looked at.
pub(crate) const EVICTIONS_MAX: usize = 256;
/// What a node answers whose role may not do what was asked.
const UNAUTHORIZED: i32 = 0x2100;

/// What workers want for copies in sync.
pub(crate) struct Wanted {
    pub intents: mpsc::UnboundedReceiver<Intent>,
    pub evictions: mpsc::Receiver<Eviction>,
}

/// The task that takes part.
pub(crate) struct Membership {
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl Membership {
    pub(crate) fn begin(common: Arc<Process>, wanted: Wanted) -> Membership {
        let (stop, stopping) = watch::channel(false);
        tokio::spawn(keep_up(common.clone(), stopping.clone()));
        let task = tokio::spawn(run(common, stopping, wanted));
        Membership { stop, task }
    }

    /// Leaves the list of proxies, so that nobody waits for this one. Takes [`LEAVING_MAX`] at most.
    pub(crate) async fn leave(self) {
        let _ = self.stop.send(true);
        let _ = self.task.await;
    }
}

/// The upkeep until the proxy stops, also after a fault of its own: nobody else does it as long as this proxy gives
/// signs of life.
async fn keep_up(common: Arc<Process>, stopping: watch::Receiver<bool>) {
    loop {
        let task = tokio::spawn(upkeep::run(common.clone(), stopping.clone()));
        match task.await {
            Err(why) if why.is_panic() => {
                tracing::error!(
                    "the upkeep of copies has failed and begins anew in {UPKEEP_ANEW:?}: {why}"
                );
            }
            _ => return,
        }
        sleep(UPKEEP_ANEW).await;
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

async fn run(common: Arc<Process>, mut stopping: watch::Receiver<bool>, mut wanted: Wanted) {
    let mut pause = ANEW;
    let mut floor = 0;
    loop {
        while !is_wanted(&common) {
            tokio::select! {
                () = sleep(LOOK) => {}
                _ = stopping.changed() => return,
            }
        }
        let begun = Instant::now();
        let end = match Part::begin(common.clone(), floor) {
            Some(part) => part.take(&mut stopping, &mut wanted, &mut floor).await,
            None => return,
        };
        common.lists.store(Arc::new(Lists::default()));
        common.awake.withdraw(&common.copies);
        common.tell_workers(&WorkerMessage::InSync);
        match end {
            End::Stopped => return,
            End::Unneeded => tracing::info!("there is no table in mode `replace` any more"),
            End::Evicted => {
                if begun.elapsed() >= STAYED {
                    pause = ANEW;
                }
                tracing::warn!(
                    "this proxy was evicted from the list of proxies, because it gave no sign of life: it joins anew \
                     in {pause:?}"
                );
                tokio::select! {
                    () = sleep(pause) => {}
                    _ = stopping.changed() => return,
                }
                pause = (pause * 2).min(ANEW_MAX);
            }
        }
    }
}

/// Also for tables that are to be in mode `replace` soon: who takes part by then goes on without a break.
fn is_wanted(common: &Process) -> bool {
    let known = common.catalogue.load();
    let (replaced, announced) = (&known.layouts.replaced, &known.layouts.announced);
    !replaced.is_empty() || !announced.is_empty()
}

/// One start of this proxy, with its connections.
struct Part {
    common: Arc<Process>,
    member: Member,
    own: Own,
    rings: Rings,
    /// [`OF_PROXIES`], [`OF_COPIES`], [`CHANGING`] and [`RECORDING`].
    lanes: Vec<Lane>,
    answers: mpsc::Receiver<Answer>,
    beat: i64,
    /// What is asked of the last lane, or was asked last.
    action: Option<Action>,
    /// Nothing more is asked of it before the next tick.
    is_resting: bool,
    /// When a failure of a lane was logged, and whether it was one of missing rights.
    told: BTreeMap<(usize, bool), Instant>,
}

impl Part {
    /// None if the operating system gives no random number. The list of proxies had version `floor` before.
    fn begin(common: Arc<Process>, floor: u64) -> Option<Part> {
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
        let lanes = (0..=RECORDING).map(|number| {
            let all = Share { from: 0, of: 1 };
            let half = Share {
                from: number % 2,
                of: 2,
            };
            let (share, patience) = match number {
                CHANGING => (all, CHANGE_PATIENCE),
                RECORDING => (all, RENEWAL_PATIENCE),
                _ => (half, RENEWAL_PATIENCE),
            };
            Lane::open(common.clone(), (number, share), patience, sender.clone())
        });
        Some(Part {
            member: Member::new(start, floor),
            own: Own::default(),
            rings: Rings::default(),
            lanes: lanes.collect(),
            common,
            answers,
            beat: 0,
            action: None,
            is_resting: false,
            told: BTreeMap::new(),
        })
    }

    async fn take(
        mut self,
        stopping: &mut watch::Receiver<bool>,
        wanted: &mut Wanted,
        floor: &mut u64,
    ) -> End {
        let mut ticks = interval(Duration::from_micros(RENEWAL_US));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut leaving: Option<(Instant, End)> = None;
        let mut is_stopping = *stopping.borrow();
        let common = self.common.clone();
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
            *floor = self.member.floor();
            self.record();
            if let Some((until, _)) = &leaving
                && (self.member.has_left() || Instant::now() >= *until)
            {
                let (until, end) = leaving.unwrap_or((Instant::now(), End::Stopped));
                if matches!(end, End::Stopped) {
                    self.forget(until).await;
                }
                return end;
            }
            tokio::select! {
                _ = ticks.tick() => {
                    self.on_tick();
                    self.publish();
                }
                Some(answer) = self.answers.recv() => self.on_answers(answer),
                // Until then workers refuse requests for tables that have other copies by the new snapshot.
                () = common.lists_due.notified() => {
                    self.set_tables();
                    self.publish();
                }
                Some(intent) = wanted.intents.recv() => {
                    self.own.on_intent(intent);
                    // Bits that wait are recorded together.
                    while let Ok(intent) = wanted.intents.try_recv() {
                        self.own.on_intent(intent);
                    }
                }
                Some(eviction) = wanted.evictions.recv() => self.on_eviction(eviction),
                changed = stopping.changed(), if !is_stopping => {
                    is_stopping = changed.is_err() || *stopping.borrow();
                }
            }
        }
    }

    /// Puts what is known in force.
    fn publish(&mut self) {
        let lists = self.member.published();
        self.own.enter(lists.me);
        self.common.lists.store(Arc::new(lists));
        let snapshot = self.common.snapshot.load();
        let nodes = (0..=u16::MAX).map(NodeIndex).zip(&snapshot.nodes);
        let nodes = nodes.filter(|(_, node)| !node.gone);
        let nodes: FxHashMap<[u8; 16], NodeIndex> =
            nodes.map(|(at, node)| (node.host_id, at)).collect();
        let index_of = |host: &[u8; 16]| nodes.get(host).copied();
        let behind = Behind::read(&self.common.copies);
        let rings = self.rings.of(&snapshot);
        let ring = (&*rings, index_of);
        let lists = self
            .member
            .in_force(self.own.member(), ring, (now_us(), behind));
        self.common
            .awake
            .publish(&self.common.copies, lists, behind);
        self.common.tell_workers(&WorkerMessage::InSync);
    }

    /// Answers that have come together are published together.
    fn on_answers(&mut self, first: Answer) {
        let mut is_told = first.told.is_some();
        self.on_answer(first);
        while let Ok(answer) = self.answers.try_recv() {
            is_told |= answer.told.is_some();
            self.on_answer(answer);
        }
        if is_told {
            self.publish();
        }
    }

    /// Writes intents that wait.
    fn record(&mut self) {
        if self.lanes[RECORDING].is_busy() {
            return;
        }
        if let Some(changes) = self.own.next(now_us()) {
            let batch = rows::record(self.member.start(), changes);
            self.lanes[RECORDING].ask(Question::Record(batch));
        }
    }

    /// Takes away the intents of a start that has left nothing to others, before that time.
    async fn forget(&mut self, until: Instant) {
        if !self.own.has_left_nothing() {
            return;
        }
        let mut over = pin!(sleep_until(until));
        let mut is_asked = false;
        loop {
            let is_busy = self.lanes[RECORDING].is_busy();
            if !is_busy && std::mem::replace(&mut is_asked, true) {
                return;
            }
            if !is_busy {
                let delete = rows::forget(self.member.start());
                self.lanes[RECORDING].ask(Question::Record(delete));
            }
            tokio::select! {
                () = &mut over => return,
                Some(answer) = self.answers.recv() => {
                    if answer.told.is_none() {
                        self.lanes[answer.lane].on_answer();
                    }
                }
            }
        }
    }

    fn on_eviction(&mut self, eviction: Eviction) {
        let snapshot = self.common.snapshot.load();
        let host = |node: &NodeIndex| snapshot.nodes.get(node.as_usize()).map(|node| node.host_id);
        let owners: Option<Vec<_>> = eviction.owners.iter().map(host).collect();
        if let Some(owners) = owners {
            let name = CopyName {
                table: (eviction.keyspace, eviction.table),
                owners,
                copy: eviction.copy,
            };
            self.member.on_eviction(name, eviction.version);
        }
    }

    /// Renews, by the lanes whose turn it is, or by the other ones.
    fn on_tick(&mut self) {
        self.is_resting = false;
        let own_now_us = self.common.copies.us(std::time::Instant::now());
        self.own.clear_idle(own_now_us);
        self.set_tables();
        self.beat += 1;
        let start = self.member.start();
        let proxies = Question::RenewProxies {
            beat: self.member.is_listed().then_some((start, self.beat)),
        };
        self.ask_one_of(OF_PROXIES, &proxies);
        let mut tables: Vec<_> = self.member.tables().cloned().collect();
        if !tables.is_empty() {
            // Another one is the last each time.
            let first = self.beat.unsigned_abs() % tables.len() as u64;
            tables.rotate_left(first as usize);
            self.ask_one_of(OF_COPIES, &Question::RenewCopies(tables));
        }
    }

    fn set_tables(&mut self) {
        let known = self.common.catalogue.load_full();
        let (replaced, announced) = (&known.layouts.replaced, &known.layouts.announced);
        self.member.set_tables(replaced, announced);
    }

    fn ask_one_of(&mut self, lanes: [usize; 2], question: &Question) {
        let turn = usize::from(self.beat % 2 == 0);
        let is_asked = self.lanes[lanes[turn]].ask(question.clone());
        if !is_asked {
            self.lanes[lanes[1 - turn]].ask(question.clone());
        }
    }

    /// Asks what is to be asked next, if the last answer has come.
    fn act(&mut self) -> Option<End> {
        if self.is_resting || self.lanes[CHANGING].is_busy() {
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
                let address = self.common.settings.load().advertised().to_string();
                let release = env!("CARGO_PKG_VERSION");
                Question::Change(rows::change(change, &address, release, now_ms()))
            }
            Action::ChangeCopies(change) => Question::Change(rows::change_copies(change, now_ms())),
        };
        // The same again is not asked before the next tick.
        if self.action.as_ref() == Some(&action) {
            self.is_resting = true;
            self.action = None;
            return None;
        }
        // From now on a list that is changed is unknown: the answer may never come.
        match &action {
            Action::Change(_) => self.member.on_attempted(ListName::Proxies),
            Action::ChangeCopies(change) => {
                let list = ListName::Copies(change.table.clone());
                self.member.on_attempted(list);
            }
            Action::Read(_) | Action::ReadIntents | Action::StartAnew => {}
        }
        self.action = Some(action);
        self.lanes[CHANGING].ask(question);
        None
    }

    fn on_answer(&mut self, answer: Answer) {
        let now_us = now_us();
        let told = match answer.told {
            None => return self.lanes[answer.lane].on_answer(),
            Some(Ok(told)) => told,
            Some(Err(why)) => {
                match answer.lane {
                    CHANGING => self.on_failed(now_us),
                    RECORDING => self.own.on_failed(now_us),
                    _ => {}
                }
                return self.on_failure(answer.lane, &why);
            }
        };
        match told {
            Told::Beats { told, sent_us } => self.member.on_beats(&told, sent_us, now_us),
            Told::Versions {
                table,
                told,
                sent_us,
            } => self.member.on_versions(&table, &told, sent_us, now_us),
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
            Told::Changed { is_applied: true } => {
                if let Some(action) = &self.action {
                    self.member.on_changed(action);
                    log_change(action);
                }
            }
            Told::Recorded => self.own.on_recorded(),
            Told::Changed { is_applied: false } => self.on_failed(now_us),
        }
    }

    /// What was asked of the last lane is put off.
    fn on_failed(&mut self, now_us: u64) {
        if let Some(action) = &self.action {
            self.member.on_failed(action, now_us);
        }
    }

    /// Failures of one kind are logged now and then only.
    fn on_failure(&mut self, lane: usize, why: &ConnError) {
        let is_refused = matches!(why, ConnError::Node { code, .. } if *code == UNAUTHORIZED);
        let kind = (lane, is_refused);
        let now = Instant::now();
        let last = self.told.get(&kind);
        if last.is_some_and(|at| now < *at + SAME_FAILURE) {
            return tracing::debug!("the lists of copies and proxies: {why}");
        }
        let advice = match is_refused {
            true => {
                ". The role of cluster.username needs SELECT on the keyspace helenus, and MODIFY on \
                 helenus.proxies, helenus.copies and helenus.intents"
            }
            false => "; it is tried again",
        };
        tracing::warn!("the lists of copies and proxies cannot be read or changed: {why}{advice}");
        self.told.insert(kind, now);
    }
}

/// A list was changed by this proxy.
fn log_change(action: &Action) {
    match action {
        Action::Change(change) => tracing::info!(
            number = change.number,
            version = change.version,
            "the list of proxies says now: {}",
            change.state.name()
        ),
        Action::ChangeCopies(change) => tracing::warn!(
            table = format!("{}.{}", change.table.0, change.table.1),
            groups = change.groups.len(),
            "copies were evicted, because they do not have a write or their node was restarted"
        ),
        Action::Read(_) | Action::ReadIntents | Action::StartAnew => {}
    }
}
