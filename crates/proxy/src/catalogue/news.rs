//! News of derived layouts from workers, until it is in the catalogue.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use helenus_catalogue::stored::WHOLE_TABLE;
use helenus_catalogue::waits::lease;
use helenus_catalogue::{Catalogue, LayoutState, TableKey};
use helenus_engine::features::layouts::{Doubted as OfWrite, Missed, Output};
use tokio::sync::Notify;

/// Partitions that are kept, of all tables; with more, the layouts of their table are taken to have missed writes.
pub(super) const DOUBTS_MAX: usize = 10_000;

/// News that have not been put into the catalogue.
#[derive(Default)]
pub(crate) struct LayoutNews {
    told: Mutex<Told>,
    has_come: Notify,
}

/// Partitions in doubt, by table.
pub(super) type Doubted = BTreeMap<TableKey, BTreeMap<i64, KnownTo>>;

/// Who knows of a doubt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KnownTo {
    Proxy,
    /// All proxies of this data centre. Others may not.
    DataCentre,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Told {
    /// Keyspace and name of the tables that hold layouts which have missed writes, and why.
    pub missed: BTreeMap<(String, String), String>,
    /// Partitions of which it is not known whether their table has what its layouts have.
    pub doubted: Doubted,
    /// Tables with such partitions, where these are not known, or too many, or all.
    pub doubted_whole: BTreeSet<TableKey>,
    /// Those of them that have been truncated.
    pub truncated: BTreeSet<TableKey>,
    /// The catalogue has been changed in this data centre, and maybe not in others.
    pub is_unspread: bool,
}

impl LayoutNews {
    /// A worker has told this.
    pub(crate) fn take(&self, news: Output) {
        match news {
            Output::Missed(missed) => self.told().miss(missed),
            Output::Doubted(doubted) => self.told().doubt(&doubted),
            Output::Truncated(keyspace, table) => {
                self.told().truncate(TableKey::new(&keyspace, &table));
            }
        }
        self.has_come.notify_one();
    }

    /// Returns when there is something.
    pub(super) async fn come(&self) {
        self.has_come.notified().await;
    }

    /// All of it, which is kept no longer.
    pub(super) fn drain(&self) -> Told {
        std::mem::take(&mut *self.told())
    }

    /// Doubts that have not been put into the catalogue.
    pub(super) fn pending(&self) -> Doubted {
        self.told().doubted.clone()
    }

    /// What not everybody knows yet.
    pub(super) fn give_back(&self, left: Told) {
        let mut told = self.told();
        told.is_unspread |= left.is_unspread;
        for (table, tokens) in left.doubted {
            let known = told.doubted.entry(table.clone()).or_default();
            for (token, known_to) in tokens {
                // One that was doubted again meanwhile is known to nobody else.
                known.entry(token).or_insert(known_to);
            }
            told.bound(&table);
        }
    }

    fn told(&self) -> MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Told {
    /// Why layouts of a table have missed writes.
    pub(super) fn why(&self, table: &TableKey) -> String {
        if self.truncated.contains(table) {
            return "its table has been truncated".to_owned();
        }
        match self.doubted_whole.contains(table) {
            true => "it is not known whether its table has some of what was written".to_owned(),
            false => {
                let reasons: BTreeSet<&str> = self.missed.values().map(String::as_str).collect();
                reasons.into_iter().collect::<Vec<_>>().join("; ")
            }
        }
    }

    pub(super) fn miss(&mut self, missed: Missed) {
        let Missed {
            keyspace,
            physical,
            why,
        } = missed;
        self.missed.entry((keyspace, physical)).or_insert(why);
    }

    fn doubt(&mut self, doubted: &OfWrite) {
        let table = TableKey::new(&doubted.table.0, &doubted.table.1);
        let known: Option<BTreeSet<i64>> = doubted.tokens.iter().copied().collect();
        match known.filter(|_| !self.doubted_whole.contains(&table)) {
            Some(tokens) => {
                // That of an empty key, which no table has.
                let tokens = tokens.into_iter().filter(|token| *token != WHOLE_TABLE);
                let tokens = tokens.map(|token| (token, KnownTo::Proxy));
                self.doubted
                    .entry(table.clone())
                    .or_default()
                    .extend(tokens);
                self.bound(&table);
            }
            None => {
                self.doubted_whole.insert(table);
            }
        }
    }

    fn truncate(&mut self, table: TableKey) {
        self.doubted.remove(&table);
        self.doubted_whole.insert(table.clone());
        self.truncated.insert(table);
    }

    fn bound(&mut self, table: &TableKey) {
        let all: usize = self.doubted.values().map(BTreeMap::len).sum();
        if all > DOUBTS_MAX {
            self.doubted.remove(table);
            self.doubted_whole.insert(table.clone());
        }
    }
}

/// Layouts that have missed writes although the catalogue does not say so yet: by table and name, with the number of their
/// filling.
#[derive(Clone, Debug, Default)]
pub(super) struct Unmarked {
    /// The catalogue does not say so yet.
    open: BTreeMap<(TableKey, String), i64>,
    /// It does, since when this proxy knows it. Others may read them for as long as what they have read before is good:
    /// until then they are written.
    told: BTreeMap<(TableKey, String), (i64, Instant)>,
}

impl Unmarked {
    #[cfg(test)]
    fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// Notes what is told of layouts of a catalogue; returns which are new.
    pub(super) fn note(&mut self, told: &Told, catalogue: &Catalogue) -> Vec<(TableKey, String)> {
        let mut noted = Vec::new();
        for (table, of) in &catalogue.tables {
            let layouts = of.layouts.iter().flat_map(|of| &of.layouts);
            for layout in layouts.filter(|layout| layout.is_derived()) {
                let held = (
                    layout.keyspace_in(table).to_owned(),
                    layout.physical.clone(),
                );
                let has_missed =
                    told.missed.contains_key(&held) || told.doubted_whole.contains(table);
                let is_marked = layout.state() == Some(LayoutState::Behind);
                let place = (table.clone(), layout.name.clone());
                if has_missed
                    && !is_marked
                    && self.open.insert(place.clone(), layout.created) != Some(layout.created)
                {
                    noted.push(place);
                }
            }
        }
        noted
    }

    /// Forgets those that the catalogue tells of, or that are filled anew, and notes since when it tells of some.
    /// Returns true if any is shown otherwise from now on.
    pub(super) fn settle(&mut self, catalogue: &Catalogue, now: Instant) -> bool {
        let is_there = |(table, name): &(TableKey, String), created: i64| {
            let layouts = catalogue.layouts(table).map(|of| &of.layouts);
            let mut layouts = layouts.into_iter().flatten();
            layouts.any(|layout| layout.name == *name && layout.created == created)
        };
        self.open.retain(|place, created| is_there(place, *created));
        for (table, of) in &catalogue.tables {
            let layouts = of.layouts.iter().flat_map(|of| &of.layouts);
            for layout in layouts.filter(|of| of.state() == Some(LayoutState::Behind)) {
                let place = (table.clone(), layout.name.clone());
                let since = self.told.entry(place).or_insert((layout.created, now));
                if since.0 != layout.created {
                    *since = (layout.created, now);
                }
            }
        }
        let before = self.told.len();
        self.told
            .retain(|place, (created, _)| is_there(place, *created));
        before != self.told.len()
    }

    /// True if some are written only because others may read them, and need not be any more.
    pub(super) fn has_run_out(&self, before: Instant, now: Instant) -> bool {
        let mut ends = self.told.values().map(|(_, since)| *since + lease());
        ends.any(|end| before < end && end <= now)
    }

    /// A catalogue as if it told of them: written, and not read.
    pub(super) fn shown_in(&self, catalogue: &Catalogue, now: Instant) -> Catalogue {
        let mut shown = catalogue.clone();
        let read = self
            .told
            .iter()
            .filter(|(_, (_, since))| now < *since + lease());
        let read = read.map(|(place, (created, _))| (place, created));
        for ((table, name), created) in self.open.iter().chain(read) {
            let of = shown
                .tables
                .get_mut(table)
                .and_then(|of| of.layouts.as_mut());
            let layouts = of.map(|of| &mut of.layouts).into_iter().flatten();
            for layout in layouts {
                if layout.name == *name && layout.created == *created {
                    LayoutState::Writing.name().clone_into(&mut layout.state);
                }
            }
        }
        shown
    }

    /// Tables with such layouts, and the names of these.
    pub(super) fn tables(&self) -> BTreeMap<TableKey, Vec<String>> {
        let mut tables: BTreeMap<TableKey, Vec<String>> = BTreeMap::new();
        for (table, name) in self.open.keys() {
            tables.entry(table.clone()).or_default().push(name.clone());
        }
        tables
    }
}

#[cfg(test)]
mod tests {
    use helenus_catalogue::{Layout, Layouts, OfTable};

    use super::*;

    fn table() -> TableKey {
        TableKey::new("shop", "orders")
    }

    fn catalogue(created: i64) -> Catalogue {
        let layout = |name: &str, keyspace: Option<&str>| Layout {
            name: name.to_owned(),
            keyspace: keyspace.map(str::to_owned),
            physical: format!("orders__layout_{name}"),
            clustering: Vec::new(),
            state: LayoutState::Ready.name().to_owned(),
            created,
        };
        let layouts = Layouts {
            layouts: vec![layout("a", Some("shop__layouts")), layout("b", None)],
            ..Layouts::default()
        };
        let of = OfTable {
            layouts: Some(layouts),
            encodings: None,
        };
        Catalogue {
            version: 1,
            tables: [(table(), of)].into(),
        }
    }

    fn doubted(tokens: &[Option<i64>]) -> Output {
        Output::Doubted(OfWrite {
            table: ("shop".to_owned(), "orders".to_owned()),
            tokens: tokens.to_vec(),
        })
    }

    #[test]
    fn a_layout_that_has_missed_a_write_is_not_read_from_then_on() {
        let news = LayoutNews::default();
        news.take(Output::Missed(Missed {
            keyspace: "shop__layouts".to_owned(),
            physical: "orders__layout_a".to_owned(),
            why: "nobody was there".to_owned(),
        }));
        let told = news.drain();
        let mut unmarked = Unmarked::default();
        let known = catalogue(7);
        assert_eq!(unmarked.note(&told, &known), [(table(), "a".to_owned())]);
        assert_eq!(unmarked.note(&told, &known), [], "it is known");
        let now = Instant::now();
        let shown = unmarked.shown_in(&known, now);
        let states = |of: &Catalogue| {
            let layouts = &of.layouts(&table()).expect("it has layouts").layouts;
            layouts
                .iter()
                .map(|of| of.state.clone())
                .collect::<Vec<_>>()
        };
        assert_eq!(states(&shown), ["writing", "ready"]);
        unmarked.settle(&known, now);
        assert!(!unmarked.is_empty(), "the catalogue does not tell yet");
        let filled_anew = catalogue(8);
        let shown = unmarked.shown_in(&filled_anew, now);
        assert_eq!(states(&shown), ["ready", "ready"]);
        unmarked.settle(&filled_anew, now);
        assert!(unmarked.is_empty());
        // Others may read it for as long as what they have read is good: until then it is written.
        let mut told = catalogue(9);
        let of = told
            .tables
            .get_mut(&table())
            .and_then(|of| of.layouts.as_mut());
        let layout = &mut of.expect("it has layouts").layouts[0];
        *layout = layout.behind(9);
        unmarked.settle(&told, now);
        let later = now + lease();
        assert_eq!(states(&unmarked.shown_in(&told, now)), ["writing", "ready"]);
        assert!(unmarked.has_run_out(now, later) && !unmarked.has_run_out(later, later));
        assert_eq!(
            states(&unmarked.shown_in(&told, later)),
            ["behind", "ready"]
        );
    }

    #[test]
    fn layouts_of_a_truncated_table_are_not_read_also_if_somebody_compares_one() {
        let news = LayoutNews::default();
        let mut unmarked = Unmarked::default();
        for state in [LayoutState::Ready, LayoutState::Writing] {
            news.take(doubted(&[Some(1)]));
            news.take(Output::Truncated("shop".to_owned(), "orders".to_owned()));
            let told = news.drain();
            assert_eq!(told.doubted, BTreeMap::new());
            assert!(told.why(&table()).contains("truncated"));
            let mut known = catalogue(7);
            let of = known.tables.get_mut(&table());
            let of = of.and_then(|of| of.layouts.as_mut());
            let layout = &mut of.expect("it has layouts").layouts[0];
            state.name().clone_into(&mut layout.state);
            // Under the number of whoever compares it now.
            layout.created += i64::from(state == LayoutState::Writing);
            let noted = unmarked.note(&told, &known);
            assert_eq!(noted, [(table(), "a".to_owned())]);
        }
    }

    #[test]
    fn what_is_doubted_again_is_to_be_told_again() {
        let news = LayoutNews::default();
        news.take(doubted(&[Some(1), Some(2)]));
        let mut told = news.drain();
        let tokens = told.doubted.get_mut(&table()).expect("they are doubted");
        tokens.values_mut().for_each(|of| *of = KnownTo::DataCentre);
        told.is_unspread = true;
        news.take(doubted(&[Some(2)]));
        news.give_back(told);
        let told = news.drain();
        let known_to = [(1, KnownTo::DataCentre), (2, KnownTo::Proxy)];
        assert_eq!(told.doubted[&table()], known_to.into());
        assert!(told.is_unspread);
    }

    #[test]
    fn doubts_of_unknown_or_too_many_partitions_are_of_the_whole_table() {
        let news = LayoutNews::default();
        news.take(doubted(&[Some(1), Some(2)]));
        news.take(doubted(&[Some(2)]));
        let told = news.drain();
        let known_to = [1, 2].map(|token| (token, KnownTo::Proxy));
        assert_eq!(told.doubted[&table()], known_to.into());
        assert_eq!(told.doubted_whole, BTreeSet::new());
        let many: Vec<Option<i64>> = (0..=DOUBTS_MAX as i64).map(Some).collect();
        for tokens in [&[Some(1), None][..], &many] {
            news.take(doubted(tokens));
            let told = news.drain();
            assert_eq!(told.doubted, BTreeMap::new());
            let mut unmarked = Unmarked::default();
            let noted = unmarked.note(&told, &catalogue(7));
            assert_eq!(noted, [(table(), "a".to_owned())], "derived ones alone");
        }
    }
}
