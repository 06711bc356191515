//! A table that is created or dropped in mode `replace` while clients use it: the table itself is a member of its lists
//! for a while, and a command changes hands.
//!
//! - **The table** has three replicas, and promises what QUORUM promises of them: reads repair what they find.
//! - **The command** goes by what the catalogue says, waits as that of the product, and is killed and begun again. Its
//!   clock is that of the world.
//! - **Proxies** read the stage under a lease of its own, longer than that of the lists.

use super::super::list::{COPIES_MAX, Copies, Refused, State, TABLE};
use super::super::members::Members;
use super::super::timing::Timing;
use super::{Cell, KEYS, SECOND};
use crate::rng::Rng;

/// For how long a proxy relies on the stage that it has read, by its own clock. Much longer than a lease on the lists, as
/// in the product: by then copies have joined, or the table is out.
pub(super) const STAGE_LEASE_US: u64 = 4 * SECOND;
pub(super) const STAGE_RENEWAL_US: u64 = 400_000;
const REPLICAS: usize = 3;

/// What the command is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Task {
    Create,
    Drop,
    CreateAndDrop,
}

/// How far it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Stage {
    /// There are no lists.
    Table,
    /// There are, and nobody goes by them.
    Listed,
    /// Proxies go by the lists, and let no copy join.
    Joining,
    MayJoin,
    /// The table is out, and to be emptied.
    Open,
    InUse,
    /// The table is filled, and joins.
    Returning,
    /// No copy may join any more.
    Closing,
    /// The copies are out.
    Alone,
    /// No proxy is to go by the lists.
    Forgotten,
    /// Lists and copies are gone.
    Dropped,
}

impl Stage {
    pub(super) fn is_by_lists(self) -> bool {
        (Stage::Joining..=Stage::Alone).contains(&self)
    }

    pub(super) fn lets_copies_join(self) -> bool {
        (Stage::MayJoin..=Stage::Returning).contains(&self)
    }

    pub(super) fn has_lists(self) -> bool {
        (Stage::Listed..=Stage::Forgotten).contains(&self)
    }
}

/// A row that changes by compare-and-set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Standing {
    pub(super) version: u64,
    pub(super) stage: Stage,
}

/// What the command writes, if stage and list are still what it has read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Switch {
    pub(super) from: (u64, u64),
    pub(super) stage: Stage,
    pub(super) list: Copies,
}

/// What it does next.
#[derive(Clone, Copy, Debug)]
pub(super) enum Deed {
    Switch(Switch),
    /// TRUNCATE, and then the switch.
    Empty(Switch),
    Fill(Switch),
    DropCopies(Switch),
}

/// What it has read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    pub(super) standing: Standing,
    pub(super) list: Copies,
    /// Copies in sync whose nodes are on another start than the list knows, and those whose nodes are down.
    pub(super) restarted: Members,
    pub(super) away: Members,
    pub(super) copies: usize,
    /// Proxies that are gone have left writes that are not made good.
    pub(super) has_leftovers: bool,
}

/// One start of the command.
#[derive(Clone, Debug, Default)]
pub(super) struct Command {
    /// Since when it has seen this version of the row.
    since: Option<(u64, u64)>,
    pub(super) down_until: u64,
    pub(super) asked_at: Option<u64>,
}

/// What the command waits for before it does this.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wait {
    CopiesJoin,
    TableIsEmptied,
    CopiesLeave,
    CopiesAreForgotten,
}

impl Command {
    pub(super) fn kill(&mut self, until: u64) {
        *self = Command {
            down_until: until,
            ..Command::default()
        };
    }

    pub(super) fn next(
        &mut self,
        task: Task,
        seen: &Seen,
        timing: &Timing,
        left_out: impl Fn(Wait) -> bool,
        is_hasty: bool,
        now: u64,
    ) -> Option<Deed> {
        let Seen { standing, list, .. } = *seen;
        let since = match self.since {
            Some((version, since)) if version == standing.version => since,
            _ => {
                self.since = Some((standing.version, now));
                now
            }
        };
        // By the slowest clock.
        let slowest = |us: u64| us * 1_000_000 / (1_000_000 - timing.drift_ppm);
        let stage_us = slowest(STAGE_LEASE_US) + timing.late_us;
        let list_us = slowest(timing.lease_us);
        let has_waited = |us: u64, wait: Wait| left_out(wait) || now >= since + us;
        let to = |stage: Stage, list: Copies| Switch {
            from: (standing.version, seen.list.version()),
            stage,
            list,
        };
        let copies = Members::first(seen.copies);
        match standing.stage {
            Stage::Table => Some(Deed::Switch(to(Stage::Listed, list))),
            Stage::Listed => Some(Deed::Switch(to(Stage::Joining, list))),
            Stage::Joining => has_waited(stage_us, Wait::CopiesJoin)
                .then(|| Deed::Switch(to(Stage::MayJoin, list))),
            Stage::MayJoin => {
                let is_taken = list.state(TABLE) == State::InSync;
                if is_hasty && !list.joining().is_empty() && is_taken {
                    return Some(Deed::Switch(to(Stage::Open, with_all_in_sync(&list))));
                }
                let are_in_sync = list.in_sync().intersection(copies) == copies;
                if !are_in_sync || !seen.away.is_empty() {
                    return None;
                }
                match seen.restarted.is_empty() {
                    true if seen.has_leftovers => None,
                    true => without(&list, Members::of(TABLE))
                        .ok()
                        .map(|list| Deed::Switch(to(Stage::Open, list))),
                    false => without(&list, seen.restarted)
                        .ok()
                        .map(|list| Deed::Switch(to(Stage::MayJoin, list))),
                }
            }
            Stage::Open => has_waited(list_us + timing.late_us, Wait::TableIsEmptied)
                .then(|| Deed::Empty(to(Stage::InUse, list))),
            Stage::InUse if task == Task::Create => None,
            Stage::InUse => Some(Deed::Fill(to(Stage::Returning, list))),
            Stage::Returning => match list.state(TABLE) {
                State::Out => list
                    .join(TABLE, 0)
                    .ok()
                    .map(|list| Deed::Switch(to(Stage::Returning, list))),
                State::Joining => None,
                State::InSync => Some(Deed::Switch(to(Stage::Closing, list))),
            },
            Stage::Closing if seen.has_leftovers => None,
            Stage::Closing => {
                if !has_waited(stage_us, Wait::CopiesLeave) {
                    return None;
                }
                let alone = without(&list, copies).ok()?;
                Some(Deed::Switch(to(Stage::Alone, alone)))
            }
            Stage::Alone => has_waited(list_us, Wait::CopiesAreForgotten)
                .then(|| Deed::Switch(to(Stage::Forgotten, list))),
            Stage::Forgotten => {
                (now >= since + stage_us).then(|| Deed::DropCopies(to(Stage::Dropped, list)))
            }
            Stage::Dropped => None,
        }
    }
}

fn without(list: &Copies, members: Members) -> Result<Copies, Refused> {
    let listed = members.intersection(list.listed());
    listed
        .iter()
        .try_fold(*list, |list, member| list.evict(member))
}

/// Who joins is taken as it is: for a bug.
fn with_all_in_sync(list: &Copies) -> Copies {
    let joining = list.joining().iter();
    let all = joining.fold(*list, |list, copy| {
        list.promote(copy, list.since(copy)).unwrap_or(list)
    });
    without(&all, Members::of(TABLE)).unwrap_or(*list)
}

/// Of how many replicas it is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Level {
    Quorum,
    All,
}

/// The table itself.
#[derive(Clone, Debug, Default)]
pub(super) struct Table {
    replicas: [[Cell; KEYS]; REPLICAS],
    down_until: [u64; REPLICAS],
}

impl Table {
    pub(super) fn lose(&mut self, replica: usize, until: u64) {
        self.down_until[replica % REPLICAS] = until;
    }

    fn up(&self, level: Level, now: u64) -> Option<Vec<usize>> {
        let is_up = |replica: &usize| self.down_until[*replica] <= now;
        let up: Vec<usize> = (0..REPLICAS).filter(is_up).collect();
        (up.len() >= level.needed()).then_some(up)
    }

    /// None if too few replicas are up. What is found is on all that were asked.
    pub(super) fn read(
        &mut self,
        key: usize,
        level: Level,
        now: u64,
        rng: &mut Rng,
    ) -> Option<Cell> {
        let mut up = self.up(level, now)?;
        while up.len() > level.needed() {
            up.swap_remove(rng.below(up.len()));
        }
        let found = up
            .iter()
            .map(|replica| self.replicas[*replica][key])
            .max()?;
        up.iter()
            .for_each(|replica| self.write(*replica, key, found));
        Some(found)
    }

    /// The replicas that take a write at once, and whether these are enough.
    pub(super) fn takers(&self, level: Level, now: u64, rng: &mut Rng) -> (Vec<usize>, bool) {
        let is_up = |replica: &usize| self.down_until[*replica] <= now;
        let takers = (0..REPLICAS).filter(is_up).filter(|_| rng.below(8) > 0);
        let takers: Vec<usize> = takers.collect();
        let is_enough = takers.len() >= level.needed();
        (takers, is_enough)
    }

    pub(super) fn others(takers: &[usize]) -> impl Iterator<Item = usize> {
        (0..REPLICAS).filter(|replica| !takers.contains(replica))
    }

    pub(super) fn write(&mut self, replica: usize, key: usize, cell: Cell) {
        let held = &mut self.replicas[replica][key];
        *held = cell.max(*held);
    }

    pub(super) fn fill(&mut self, cells: &[Cell; KEYS]) {
        for replica in 0..REPLICAS {
            (0..KEYS).for_each(|key| self.write(replica, key, cells[key]));
        }
    }

    pub(super) fn empty(&mut self) {
        self.replicas = Default::default();
    }

    /// What any read at QUORUM gives at least.
    pub(super) fn certain(&self) -> [Cell; KEYS] {
        std::array::from_fn(|key| {
            let mut held = self.replicas.map(|cells| cells[key]);
            held.sort_unstable();
            held[REPLICAS - Level::Quorum.needed()]
        })
    }
}

impl Level {
    fn needed(self) -> usize {
        match self {
            Level::Quorum => REPLICAS / 2 + 1,
            Level::All => REPLICAS,
        }
    }
}

/// The table alone, and copies that are out.
pub(super) fn alone(copies: usize) -> Copies {
    let mut since = [0; COPIES_MAX + 1];
    since[..copies].fill(1);
    since[TABLE] = 1;
    Copies::from_parts(1, Members::of(TABLE), Members::EMPTY, since, first_boots())
}

/// The starts of nodes. The table itself has none.
pub(super) fn first_boots() -> [u32; COPIES_MAX + 1] {
    std::array::from_fn(|member| u32::from(member != TABLE))
}
