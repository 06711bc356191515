//! The catalogue of layouts while it changes: how proxies hear of it, and what each change needs.

use super::derived::behind;
use super::growth::grows;
use super::{Event, World, aggressors};
use crate::chaos::cassandra::tables;
use crate::chaos::catalogue::{Catalogue, OfLayout, Step, Told, WAIT_US, layouts};
use crate::chaos::checks::Span;
use crate::chaos::client::Purpose;
use crate::chaos::coverage;
use crate::chaos::proxy::At;
use crate::dice::Dice;

/// `REFRESH`, and a little.
const REFRESH_US: u64 = 3_000_000;
/// After a read of the catalogue that has failed.
const AGAIN_US: u64 = 1_000_000;
/// How long things go wrong where layouts come and go.
pub(super) const LONG_TROUBLE_US: u64 = 70_000_000;

/// What decides on the layouts of a run, if it has any: other runs are as they would be without. A ring changes
/// only in runs without layouts, so that few of those have layouts in which it would.
pub(super) fn dice_of_layouts(seed: u64) -> Option<Dice> {
    let mut dice = Dice::of(seed, 2, 0);
    let of_16 = if grows(seed).is_some() { 4 } else { 9 };
    let has_layouts = dice.below(16) < of_16 && aggressors::kind_of(seed).is_none();
    has_layouts.then_some(dice)
}

impl World {
    pub(super) fn set_up_layouts(&mut self, seed: u64) {
        let Some(mut dice) = dice_of_layouts(seed) else {
            return;
        };
        self.cluster.tables = tables(&mut dice);
        let changes = dice.below(2) == 0;
        let count = self.cluster.tables.len() - 1;
        let layouts = (0..count).map(|_| match changes {
            true => [Step::Absent, Step::Writing, Step::Ready][dice.below(3) as usize],
            false => Step::Ready,
        });
        let layouts: Vec<OfLayout> = layouts
            .map(|step| OfLayout {
                step,
                known_since_us: 0,
            })
            .collect();
        for (at, of) in layouts.iter().enumerate() {
            self.cluster.tables[at + 1].exists = of.step != Step::Absent;
        }
        let partitions = 1 + dice.below(6) as i64;
        self.catalogue = Some(Catalogue {
            layouts,
            changes,
            derived: false,
            partitions,
        });
        if changes {
            self.trouble_us = LONG_TROUBLE_US;
        }
        let more = if changes { 4 } else { 2 };
        self.clients
            .iter_mut()
            .for_each(|client| client.left *= more);
        for proxy in 0..self.proxies.len() {
            // Some have read it when they begin.
            if dice.below(4) > 0 {
                let told = self.told_of_catalogue(proxy);
                self.take_catalogue(proxy, 0, told);
            }
        }
    }

    /// Clients take their time where layouts come and go, which takes long.
    pub(super) fn slowness(&self) -> u64 {
        match &self.catalogue {
            Some(_) if self.stays_away() => 10 * behind::SLOWER,
            Some(catalogue) if catalogue.changes || catalogue.derived => 20,
            _ => 1,
        }
    }

    /// What the nodes tell a proxy now.
    fn told_of_catalogue(&self, proxy: usize) -> Told {
        let catalogue = self.catalogue.as_ref();
        let is_lost = self.proxies[proxy].catalogue_lost_until_us > self.now_us();
        let rows = catalogue.map(Catalogue::rows).unwrap_or_default();
        Told {
            flagged: catalogue.is_some_and(Catalogue::is_flagged),
            rows: (!is_lost).then_some(rows),
        }
    }

    pub(super) fn begin_layouts(&mut self) {
        let Some(catalogue) = &self.catalogue else {
            return;
        };
        let steps: Vec<Step> = catalogue.layouts.iter().map(|of| of.step).collect();
        let changes = catalogue.changes;
        self.note(|| format!("layouts: {steps:?}, changing: {changes}"));
        for at in (0..steps.len()).filter(|_| changes) {
            let delay = 1_000_000 + self.dice.below(8_000_000);
            self.events.plan(delay, Event::ChangeLayout(at));
        }
        for proxy in 0..self.proxies.len() {
            self.events
                .plan(self.dice.below(100_000), Event::ReadCatalogue(proxy));
        }
        if self.derived.is_none() {
            self.events.plan(1_000_000, Event::CompareLayouts);
        }
    }

    /// The next step of a layout, when its time has come.
    pub(super) fn change_layout(&mut self, at: usize) {
        let now_us = self.now_us();
        let Some(catalogue) = self.catalogue.as_mut().filter(|_| self.trouble) else {
            return;
        };
        let step = catalogue.advance(at, now_us);
        self.note(|| format!("layout {at} is {step:?}"));
        let wait_us = match step {
            Step::Ready => {
                self.cluster.backfill(at + 1);
                self.count(coverage::LAYOUT_BACKFILLED);
                1_000_000 + self.dice.below(15_000_000)
            }
            Step::Writing => {
                self.cluster.set_exists(at + 1, true);
                WAIT_US
            }
            Step::Leaving | Step::Gone => WAIT_US,
            Step::Absent => {
                self.cluster.set_exists(at + 1, false);
                self.count(coverage::LAYOUT_DROPPED);
                self.dice.below(3_000_000)
            }
        };
        let late_us = self.dice.below(1_000_000);
        self.events.plan(wait_us + late_us, Event::ChangeLayout(at));
        self.compare_layouts();
    }

    /// A proxy asks for flags and catalogue, unless no node answers.
    pub(super) fn read_catalogue(&mut self, proxy: usize) {
        if self.proxies[proxy].workers.iter().all(|w| w.ended) {
            return;
        }
        let sent_us = self.now_us();
        if self.proxies[proxy].flags_lost_until_us > sent_us {
            self.count(coverage::FLAGS_NOT_READ);
            return self.events.plan(AGAIN_US, Event::ReadCatalogue(proxy));
        }
        let delay = self.delay_of_catalogue();
        self.events
            .plan(delay, Event::AnswerCatalogue(proxy, sent_us));
    }

    fn delay_of_catalogue(&mut self) -> u64 {
        match self.dice.below(10) {
            0 if self.trouble => self.dice.below(4_000_000),
            _ => self.dice.below(20_000),
        }
    }

    /// The nodes have read the catalogue; the answer is on its way.
    pub(super) fn answer_catalogue(&mut self, proxy: usize, sent_us: u64) {
        let told = self.told_of_catalogue(proxy);
        if told.rows.is_none() {
            self.count(coverage::CATALOGUE_NOT_READ);
        }
        let delay = self.delay_of_catalogue();
        self.events
            .plan(delay, Event::TakeCatalogue(proxy, sent_us, told));
    }

    /// A proxy takes over what the catalogue says. The next read is planned.
    pub(super) fn on_catalogue(&mut self, proxy: usize, sent_us: u64, told: Told) {
        if self.proxies[proxy].workers.iter().all(|w| w.ended) {
            return;
        }
        let is_read = told.rows.is_some();
        self.look_around(proxy, is_read);
        self.take_catalogue(proxy, sent_us, told);
        if is_read {
            self.tell_doubts(proxy);
        }
        // Now and then at once, as behind a change of the schema.
        let delay = match self.dice.below(8) {
            0 => self.dice.below(500_000),
            _ => REFRESH_US - self.dice.below(200_000),
        };
        self.events.plan(delay, Event::ReadCatalogue(proxy));
    }

    /// What was believed of flags stays so until the catalogue was read, as [`helenus_catalogue::Belief`] has it.
    fn take_catalogue(&mut self, proxy: usize, sent_us: u64, told: Told) {
        let now_us = self.now_us();
        let of = &self.proxies[proxy];
        let is_read = told.rows.is_some();
        let flagged = told.flagged || !is_read && of.flagged;
        let mut rows = told.rows.unwrap_or_else(|| of.layouts.clone());
        if self.is_unmarked_at(proxy) {
            // Written, and not read.
            rows.iter_mut().flatten().for_each(|row| *row = false);
        }
        let flagged = flagged || rows.iter().any(Option::is_some);
        if of.layouts != rows || of.flagged != flagged {
            self.note(|| format!("proxy {proxy} hears of layouts: {rows:?}, flagged: {flagged}"));
            self.proxies[proxy].layouts = rows;
            self.proxies[proxy].flagged = flagged;
            let known = self.proxies[proxy].members.clone();
            self.store_snapshot(proxy, known);
        }
        let of = &mut self.proxies[proxy];
        let sent = self.begin + std::time::Duration::from_micros(sent_us);
        of.common.leases.flags.renew(sent);
        of.leases_of_flags.renew(sent_us, now_us);
        if is_read {
            of.common.leases.catalogue.renew(sent);
        }
        if is_read || !flagged {
            of.leases.renew(sent_us, now_us);
        }
    }

    /// The layouts that a proxy has heard of.
    pub(super) fn layouts_of(
        &self,
        proxy: usize,
    ) -> std::sync::Arc<helenus_engine::features::layouts::Layouts> {
        let of = &self.proxies[proxy];
        layouts(
            &self.cluster.tables,
            &of.layouts,
            of.flagged,
            self.derived.is_some(),
        )
    }

    /// For a while a proxy cannot read the catalogue, or not even the flags.
    pub(super) fn lose_catalogue(&mut self, proxy: usize) -> &'static str {
        let for_us = match self.dice.below(2) {
            0 => self.dice.below(5_000_000),
            _ => 5_000_000 + self.dice.below(15_000_000),
        };
        let until_us = self.now_us() + for_us;
        let no_flags = self.dice.below(3) == 0;
        let of = &mut self.proxies[proxy];
        of.catalogue_lost_until_us = until_us;
        if no_flags {
            of.flags_lost_until_us = until_us;
            return coverage::FLAGS_LOST;
        }
        coverage::CATALOGUE_LOST
    }

    pub(super) fn compare_layouts(&mut self) {
        let Some(catalogue) = self.catalogue.as_ref().filter(|of| !of.derived) else {
            return;
        };
        let ready = catalogue.layouts.iter().enumerate();
        let ready = ready.filter(|(_, of)| of.step == Step::Ready);
        let found = ready
            .filter_map(|(at, of)| {
                let known_since = of.known_since_us as i64;
                let compared = self
                    .cluster
                    .compare_layout(at + 1, &self.histories, known_since);
                compared.err()
            })
            .next();
        let could_fail = self.cluster.copied > 0;
        self.checked(coverage::Check::LayoutEqual, could_fail);
        if let Some(what) = found {
            self.violate(what);
        }
    }

    /// A write must not be carried out by a proxy that does not know which layouts there are.
    pub(super) fn judge_lease(&mut self, at: At, begun_us: u64, purpose: &Purpose) {
        let span = Span::of(begun_us, self.now_us());
        let of = &self.proxies[at.proxy];
        let leases = match purpose {
            Purpose::RowWrite(_) => &of.leases,
            _ => &of.leases_of_flags,
        };
        let is_without = self.catalogue.is_some() && !leases.any_in(span);
        let was_lost = of.catalogue_lost_until_us > 0 || of.flags_lost_until_us > 0;
        self.checked(coverage::Check::Lease, was_lost);
        if is_without {
            self.violate(format!("{purpose:?} is carried out without a lease"));
        }
    }
}
