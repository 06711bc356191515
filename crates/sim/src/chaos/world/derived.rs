//! Derived layouts: what proxies tell of partitions in doubt and hear of them, and what must hold of reads and writes.

pub(super) mod behind;
pub(super) mod sweep;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use helenus_catalogue::change;
use helenus_engine::features::Output as OfFeature;
use helenus_engine::features::layouts::{Doubted, Output, Told};
use helenus_policy::ring::Replication;
use helenus_policy::token::murmur3_token;
use helenus_wire::{BatchView, ExecuteView, Header, Opcode, Options, QueryView, Version, code};

use self::behind::{Behind, WINDOW, stays_away};
use self::sweep::Sweep;
use super::growth::grows;
use super::layouts::{LONG_TROUBLE_US, dice_of_layouts};
use super::{Event, World, aggressors};
use crate::chaos::bounds::Cause;
use crate::chaos::cassandra::{Derived as OfCluster, Owners, asked_of, tables};
use crate::chaos::catalogue::{Catalogue, OfLayout, Step};
use crate::chaos::client::{Answer, Copied, InFlight, Purpose, RowWrite};
use crate::chaos::coverage::{self, Check};
use crate::chaos::cql::Asked;
use crate::chaos::doubts::{Doubts, key};
use crate::chaos::proxy::At;
use crate::chaos::wide::{Action, KEYSPACE, TABLE, all_rows};
use crate::dice::Dice;

/// Before what workers have told goes out, as there may be more.
const TOLD_AFTER_US: u64 = 200_000;
/// A worker tells of what it has noted within this time.
const TOLD_WITHIN: Duration = Duration::from_secs(1);
/// Nodes deliver hints so often, those that are due.
const HINTS_EVERY_US: u64 = 500_000;
/// Nothing that a proxy has sent is carried out later than this after its client has asked for it.
const CARRIED_OUT_WITHIN_US: u64 = 14_000_000;
/// What has left a proxy that was killed has mostly arrived after this time.
const ARRIVED_AFTER_US: u64 = 3_000_000;

/// What is in doubt, where, and since when.
pub(super) struct Derived {
    pub stored: Doubts,
    pub sweep: Sweep,
    pub behind: Behind,
    /// Nodes stay away for minutes, and proxies know for how long hints are kept.
    pub knows_window: bool,
    /// What proxies have been told by their workers and not told others, and those that are just doing so.
    told: BTreeMap<usize, BTreeSet<i64>>,
    telling: BTreeSet<usize>,
    /// Writes, by proxy and partition, of which their clients have heard that nobody knows.
    heard: BTreeMap<(usize, i64), Heard>,
    /// Writes of proxies that were killed: when they have arrived, partition and time.
    cut_short: Vec<(u64, i64, i64)>,
    partitions: BTreeMap<i64, i64>,
}

#[derive(Clone, Copy, Debug)]
struct Heard {
    begun_us: u64,
    heard_us: u64,
}

pub(super) fn token_of(partition: i64) -> i64 {
    murmur3_token(&partition.to_be_bytes())
}

/// What decides on the derived layouts of a run, if it has any: it has no others then, and its ring stays.
pub(super) fn dice_of_derived(seed: u64) -> Option<Dice> {
    let is_free = dice_of_layouts(seed).is_none() && grows(seed).is_none();
    let mut dice = Dice::of(seed, 11, 0);
    let has_some = dice.below(3) == 0 && is_free && aggressors::kind_of(seed).is_none();
    has_some.then_some(dice)
}

impl Derived {
    /// The partition of a token.
    pub(super) fn partition_of(&self, token: i64) -> i64 {
        self.partitions
            .get(&token)
            .copied()
            .expect("a partition's token")
    }

    /// The partitions, in the order of their tokens.
    pub(super) fn all_partitions(&self) -> Vec<i64> {
        self.partitions.values().copied().collect()
    }

    /// Whether any is beside these.
    pub(super) fn has_doubts_beside(&self, partitions: &BTreeSet<i64>) -> bool {
        let mut stored = self.stored.timed().into_iter();
        stored.any(|(token, _)| !partitions.contains(&self.partition_of(token)))
            || self.told.values().any(|of| !of.is_empty())
    }

    /// What is in doubt, as it is stored, and as proxies have not told it yet.
    pub(super) fn doubts(&self) -> String {
        format!("{:?}, {:?}", self.stored.timed(), self.told)
    }

    /// Whether any partition is in doubt, and somebody knows of it.
    pub(super) fn has_doubts(&self) -> bool {
        !self.stored.timed().is_empty() || self.told.values().any(|of| !of.is_empty())
    }
}

impl World {
    pub(super) fn set_up_derived(&mut self, seed: u64) {
        let Some(mut dice) = dice_of_derived(seed) else {
            return;
        };
        self.cluster.tables = tables(&mut dice);
        self.cluster
            .tables
            .iter_mut()
            .for_each(|table| table.exists = true);
        let layouts = self.cluster.tables[1..].iter().map(|_| OfLayout {
            step: Step::Ready,
            known_since_us: 0,
        });
        let partitions = 1 + dice.below(6) as i64;
        self.catalogue = Some(Catalogue {
            layouts: layouts.collect(),
            changes: false,
            derived: true,
            partitions,
        });
        let nodes = self.cluster.nodes.len();
        let rf = (1 + dice.below(2) as usize).min(nodes);
        let replication = Replication::Simple { rf };
        let owners = Owners::new((0..nodes).collect(), &replication);
        let window_us = [2_000_000, u64::MAX][dice.below(2) as usize];
        let own = Dice::new(dice.draw());
        let knows_window = stays_away(seed);
        if let Some(only) = self.only.as_mut().filter(|_| knows_window) {
            only.insert(Cause::Away);
        }
        let (window_us, trouble_us, more) = match knows_window {
            true => (WINDOW.as_micros() as u64, behind::TROUBLE_US, 10),
            false => (window_us, LONG_TROUBLE_US, 4),
        };
        self.cluster.derived = Some(OfCluster::new(owners, window_us, knows_window, own));
        for proxy in &mut self.proxies {
            proxy.layouts_replication = Some(replication.clone());
            if knows_window {
                proxy.members = (0..nodes).collect();
            }
        }
        self.trouble_us = trouble_us;
        self.clients
            .iter_mut()
            .for_each(|client| client.left *= more);
        self.derived = Some(Derived {
            stored: Doubts::default(),
            sweep: Sweep::new(nodes),
            behind: Behind::new(seed),
            knows_window,
            told: BTreeMap::new(),
            telling: BTreeSet::new(),
            heard: BTreeMap::new(),
            cut_short: Vec::new(),
            partitions: (0..partitions).map(|of| (token_of(of), of)).collect(),
        });
        for proxy in 0..self.proxies.len() {
            let known = self.proxies[proxy].members.clone();
            self.store_snapshot(proxy, known);
        }
    }

    pub(super) fn begin_derived(&mut self) {
        if self.derived.is_some() {
            self.events.plan(HINTS_EVERY_US, Event::DeliverHints);
            self.events.plan(1_000_000, Event::Sweep);
        }
    }

    pub(super) fn deliver_hints(&mut self) {
        let now_us = self.now_us();
        self.cluster.deliver_hints(now_us);
        self.events.plan(HINTS_EVERY_US, Event::DeliverHints);
    }

    /// A worker has news for the control side of its proxy.
    pub(super) fn take_news(&mut self, at: At, news: OfFeature) {
        let OfFeature::Layouts(news) = news else {
            return;
        };
        match news {
            Output::Doubted(doubted) => self.take_doubted(at, &doubted),
            // No layout here is ever gone, and nobody truncates.
            news @ (Output::Missed(_) | Output::Truncated(..)) => {
                self.violate(format!("{at:?} tells of {news:?}"));
            }
        }
    }

    fn take_doubted(&mut self, at: At, doubted: &Doubted) {
        let tokens: Option<BTreeSet<i64>> = doubted.tokens.iter().copied().collect();
        let (Some(tokens), Some(derived)) = (tokens, &mut self.derived) else {
            return self.violate(format!("{at:?} tells of {doubted:?}"));
        };
        derived.told.entry(at.proxy).or_default().extend(tokens);
        self.note(|| format!("{at:?} doubts {doubted:?}"));
        self.count(coverage::DOUBTED);
        self.events.plan(TOLD_AFTER_US, Event::TellDoubts(at.proxy));
    }

    /// A proxy tells others what it doubts, then hears what they have told. One such turn after the other; what is not
    /// told in this one is in the next, with the next reading of the catalogue.
    pub(super) fn tell_doubts(&mut self, proxy: usize) {
        let Some(derived) = &mut self.derived else {
            return;
        };
        if !derived.telling.insert(proxy) {
            return;
        }
        let tokens = derived.told.remove(&proxy).unwrap_or_default();
        let delay = self.dice.below(20_000);
        self.events.plan(delay, Event::WriteDoubts(proxy, tokens));
    }

    pub(super) fn write_doubts(&mut self, proxy: usize, tokens: BTreeSet<i64>) {
        let now_us = self.now_us();
        let is_lost = self.proxies[proxy].catalogue_lost_until_us > now_us;
        let has_ended = !self.proxies_running().contains(&proxy);
        let Some(derived) = &mut self.derived else {
            return;
        };
        if is_lost {
            derived.telling.remove(&proxy);
            if !has_ended {
                derived.told.entry(proxy).or_default().extend(tokens);
            }
            return;
        }
        self.store_doubts(&tokens.into_iter().collect::<Vec<_>>());
        let delay = self.dice.below(20_000);
        self.events.plan(delay, Event::AnswerDoubts(proxy, now_us));
    }

    /// Puts partitions in doubt as they are stored.
    pub(super) fn store_doubts(&mut self, tokens: &[i64]) {
        let now_us = self.now_us() as i64;
        let Some(derived) = self.derived.as_mut().filter(|_| !tokens.is_empty()) else {
            return;
        };
        derived
            .stored
            .execute(&change::doubt(&key(), tokens), now_us);
        self.note(|| format!("stored as doubted: {tokens:?}"));
    }

    /// A sweep takes a partition out of doubt.
    pub(super) fn settle_doubt(&mut self, token: i64, written_us: i64) {
        let now_us = self.now_us();
        let Some(derived) = &mut self.derived else {
            return;
        };
        let text = change::settle_doubts(&key(), &[(token, written_us)]);
        let ended = derived.stored.execute(&text, now_us as i64);
        let partition = derived.partition_of(token);
        let least_us = derived.sweep.least_us();
        for (_, written_us) in ended {
            let ends = |of: &(usize, i64), heard: &Heard| {
                of.1 == partition && heard.begun_us as i64 <= written_us
            };
            derived.heard.retain(|of, heard| !ends(of, heard));
            let waited_us = now_us as i64 - written_us;
            self.covered.check(Check::DoubtWaits, true);
            self.covered.count(coverage::SETTLED, 1);
            if waited_us < least_us as i64 {
                return self.violate(format!(
                    "partition {partition} is settled {waited_us} us after it was put in doubt"
                ));
            }
            let until_us = u64::try_from(written_us).unwrap_or_default() + CARRIED_OUT_WITHIN_US;
            let hints = self.cluster.derived.as_ref();
            if hints.is_some_and(|of| of.has_hint_since(partition, until_us)) {
                return self.violate(format!(
                    "partition {partition} is settled while a hint is kept of what was in doubt"
                ));
            }
        }
        self.note(|| format!("settled: partition {partition} of {written_us}"));
    }

    pub(super) fn answer_doubts(&mut self, proxy: usize, asked_us: u64) {
        let Some(derived) = &self.derived else {
            return;
        };
        let timed = derived.stored.timed();
        let tokens = timed.into_iter().map(|(token, _)| token).collect();
        let delay = self.dice.below(20_000);
        self.events
            .plan(delay, Event::TakeDoubts(proxy, asked_us, tokens));
    }

    pub(super) fn take_doubts(&mut self, proxy: usize, asked_us: u64, mut tokens: BTreeSet<i64>) {
        let Some(derived) = &mut self.derived else {
            return;
        };
        derived.telling.remove(&proxy);
        tokens.extend(derived.told.get(&proxy).into_iter().flatten());
        let table = (KEYSPACE.to_owned(), TABLE.to_owned());
        let told = [(table, Told::Tokens(tokens.into_iter().collect()))];
        let asked = self.begin + Duration::from_micros(asked_us);
        let asked = asked.checked_sub(TOLD_WITHIN).unwrap_or(asked);
        let doubts = &self.proxies[proxy].common.features.layouts.doubts;
        doubts.adopt(&told, asked);
    }

    /// A proxy that ends tells what it has been told before.
    pub(super) fn end_doubts(&mut self, proxy: usize) {
        let is_lost = self.proxies[proxy].catalogue_lost_until_us > self.now_us();
        let told = self.derived.as_mut().and_then(|of| of.told.remove(&proxy));
        let tokens: Vec<i64> = told.unwrap_or_default().into_iter().collect();
        if !is_lost {
            self.store_doubts(&tokens);
        }
    }

    /// A proxy is killed: its clients' writes may be in the table alone.
    pub(super) fn note_cut_short(&mut self, proxy: usize) {
        let is_of_proxy = |connection: usize| self.connections[connection].at.proxy == proxy;
        let clients = self.clients.iter();
        let clients = clients.filter(|client| client.connection.is_some_and(is_of_proxy));
        let in_flight = clients.flat_map(|client| client.in_flight.values());
        let writes = in_flight.filter_map(|request| match &request.purpose {
            Purpose::RowWrite(write) if write.copied == Copied::Yes => Some(write),
            _ => None,
        });
        let due_us = self.now_us() + ARRIVED_AFTER_US;
        let ids_of = |of: &RowWrite| {
            let timestamp = of.timestamp;
            let partitions = of.partitions.clone().into_iter();
            partitions.map(move |partition| (due_us, partition, timestamp))
        };
        let ids: Vec<_> = writes.flat_map(ids_of).collect();
        if let Some(derived) = self.derived.as_mut().filter(|_| !ids.is_empty()) {
            derived.cut_short.extend(ids);
            self.count(coverage::KILLED_WRITING);
        }
    }

    /// Counts writes of proxies that were killed, of which the table has something that a layout has not.
    pub(super) fn count_cut_short(&mut self) {
        let now_us = self.now_us();
        let Some(derived) = &mut self.derived else {
            return;
        };
        let arrived = derived
            .cut_short
            .extract_if(.., |(due_us, ..)| *due_us <= now_us);
        for (_, partition, timestamp) in arrived.collect::<Vec<_>>() {
            let has = |table: usize| {
                let known = self.cluster.merged((table, partition));
                all_rows().any(|row| known.of_row(&row).timestamp == timestamp)
            };
            if has(0) && !(1..self.cluster.tables.len()).all(has) {
                self.count(coverage::KILLED_BETWEEN);
            }
        }
    }

    /// A proxy that is killed tells nobody.
    pub(super) fn forget_told(&mut self, proxy: usize) {
        if let Some(derived) = &mut self.derived {
            derived.told.remove(&proxy);
        }
    }

    /// A client hears what has become of a write: from now on the proxy must not read a layout in its partitions, if
    /// nobody knows, or if layouts were not told.
    pub(super) fn note_heard(&mut self, at: At, request: &InFlight, answer: &Answer) {
        let now_us = self.now_us();
        let Some(derived) = &mut self.derived else {
            return;
        };
        let (is_doubted, partitions) = match (&request.purpose, answer) {
            (Purpose::RowWrite(write), Answer::Error(code, _)) => {
                let codes = [code::WRITE_TIMEOUT, code::CAS_WRITE_UNKNOWN];
                (codes.contains(code), &write.partitions[..])
            }
            (Purpose::RowWrite(write), Answer::Void | Answer::Rows(..)) => {
                (write.copied == Copied::Compared, &write.partitions[..])
            }
            // It may have completed a conditional write.
            (Purpose::Rows(scan), Answer::Rows(..)) => {
                (scan.serial, std::slice::from_ref(&scan.partition))
            }
            (Purpose::Rows(scan), Answer::Error(code, _)) => {
                let is_late = scan.serial && *code == code::READ_TIMEOUT;
                (is_late, std::slice::from_ref(&scan.partition))
            }
            _ => return,
        };
        if !is_doubted {
            return;
        }
        for partition in partitions {
            let heard = Heard {
                begun_us: request.begun_us,
                heard_us: now_us,
            };
            derived.heard.insert((at.proxy, *partition), heard);
        }
    }

    /// What a proxy sends on to a node: whether the node still carries it out. A read of a layout must not be of a
    /// partition that the proxy has doubted before its client asked; the client's time tells when that was.
    pub(super) fn judge_derived(&mut self, number: usize, header: &Header, body: &[u8]) -> bool {
        if self.derived.is_none() {
            return true;
        }
        let Some((begun_us, continues)) = begun_of(header, body) else {
            return true;
        };
        if begun_us + CARRIED_OUT_WITHIN_US < self.now_us() {
            return false;
        }
        let Some(Asked::Rows(statement)) = asked_of(header, body) else {
            return true;
        };
        if matches!(statement.action, Action::Select(_)) {
            self.judge_behind(begun_us, statement.table != TABLE);
        }
        let Some(derived) = &self.derived else {
            return true;
        };
        if statement.table == TABLE || !matches!(statement.action, Action::Select(_)) {
            return true;
        }
        let proxy = self.connections[number].at.proxy;
        let heard = derived.heard.get(&(proxy, statement.partition)).copied();
        let is_doubted = heard.is_some_and(|of| of.heard_us < begun_us);
        let could_fail = derived.has_doubts();
        self.checked(Check::DoubtRead, could_fail && !continues);
        if is_doubted && !continues {
            let partition = statement.partition;
            self.violate(format!(
                "proxy {proxy} reads partition {partition} from a layout, which it doubts: {heard:?}"
            ));
        }
        true
    }

    /// A node crashes: it may lose the hints that it keeps.
    pub(super) fn note_down(&mut self, node: usize) {
        let now_us = self.now_us();
        if let Some(derived) = &mut self.cluster.derived {
            derived.note_down(node, now_us);
            if self
                .only
                .as_ref()
                .is_none_or(|only| only.contains(&Cause::Crash))
                && self.dice.below(6) == 0
            {
                derived.lose_hints(node);
            }
        }
    }

    /// What the cluster has counted of hints.
    pub(super) fn count_hints(&mut self) {
        let Some(derived) = &self.cluster.derived else {
            return;
        };
        let counted = [
            (coverage::HINTS_KEPT, derived.kept),
            (coverage::HINTS_DELIVERED, derived.delivered),
            (coverage::HINTS_LOST, derived.lost),
            (coverage::COMPLETED, derived.completed),
            (coverage::ONLY_HINTED, derived.only_hinted),
        ];
        for (what, times) in counted {
            self.covered.count(what, times);
        }
    }
}

/// When the client has asked for what is in a message, and whether that continues a page.
fn begun_of(header: &Header, body: &[u8]) -> Option<(u64, bool)> {
    let version = Version::from_number(header.version)?;
    let of = |options: &Options<'_>| {
        let begun_us = u64::try_from(options.timestamp?).ok()?;
        Some((begun_us, options.paging_state.is_some()))
    };
    match Opcode::from_number(header.opcode)? {
        Opcode::Query => of(&QueryView::parse(body, version).ok()?.options),
        Opcode::Execute => of(&ExecuteView::parse(body, version).ok()?.options),
        Opcode::Batch => of(&BatchView::parse(body, version).ok()?.options),
        _ => None,
    }
}
