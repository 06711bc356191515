//! Counts what a sample of documents has in each place.

use std::collections::{BTreeMap, BTreeSet};

use super::fixed::Fixed;
use super::frequencies::{Frequencies, count};
use super::integers::Integers;
use super::model::{ROOT, Shape, UNKNOWN};
use super::slot::{
    ARRAY, DECIMAL, END, FIXED, FREQUENT, Form, INTEGER, Members, Names, OBJECT, STRING, Slot,
    VERBATIM, scale_symbol,
};
use super::spelling::SpellingCounts;
use super::words::{StringCounts, Vocabulary, words};
use crate::json::{Document, Kind, Style};

/// Names of one object that have slots of their own.
const NAMES_MAX: usize = 256;
/// Names in fewer of the objects share a slot, as keys of maps do.
const NAME_SHARE_MIN: u64 = 200;
/// Frequent values of one place.
const FREQUENT_MAX: usize = 1_000;
const FREQUENT_TIMES_MIN: u64 = 3;
/// A number must be as frequent as one in so many to be taken for more than a coincidence.
const NUMBER_SHARE_MIN: u64 = 64;
/// Places in the documents; what is in further ones is spelled out.
const SLOTS_MAX: usize = 4_096;

pub(super) fn learn(samples: &[(&str, Document)]) -> Option<Shape> {
    let samples = samples
        .iter()
        .filter(|(_, document)| document.style != Style::Other);
    let mut root = Place::default();
    let mut styles = BTreeMap::new();
    for (text, document) in samples {
        count(&mut styles, (document.style == Style::Spaced).into(), 1);
        root.add(text, document, 0);
    }
    if styles.is_empty() {
        return None;
    }
    root.join_rare_names();
    let mut counts = BTreeMap::new();
    root.count_words(&mut counts);
    let mut finishing = Finishing {
        vocabulary: Vocabulary::learn(&counts),
        spelling: SpellingCounts::default(),
        slots: vec![Slot::default()],
    };
    // Frequent words say how words are written even if none of them was spelled out.
    counts
        .keys()
        .for_each(|word| finishing.spelling.add(word, 1));
    let number = finishing.place(&root);
    debug_assert_eq!(number, ROOT);
    Some(Shape {
        styles: Frequencies::learn(&styles, 0),
        spelling: finishing.spelling.finish(),
        vocabulary: finishing.vocabulary,
        slots: finishing.slots,
    })
}

/// A name, or an object's beginning or end, before or after another.
type Step<'t> = (Option<&'t str>, Option<&'t str>);

/// Counts of one place.
#[derive(Debug, Default)]
struct Place<'t> {
    objects: u64,
    names: BTreeMap<&'t str, Member<'t>>,
    /// From one name to the next, by number of times.
    steps: BTreeMap<Step<'t>, u64>,
    /// Members with rare names.
    others: Option<Box<Place<'t>>>,
    arrays: u64,
    /// How many arrays have so many elements.
    counts: BTreeMap<i64, u64>,
    element: Option<Box<Place<'t>>>,
    /// As written.
    scalars: BTreeMap<(bool, &'t str), (Kind, u64)>,
}

#[derive(Debug, Default)]
struct Member<'t> {
    times: u64,
    place: Place<'t>,
}

impl<'t> Place<'t> {
    fn add(&mut self, text: &'t str, document: &Document, at: usize) {
        let node = document.nodes[at];
        match node.kind {
            Kind::Object => {
                self.objects += 1;
                let mut before = None;
                let mut at = at + 1;
                for _ in 0..node.count {
                    let name = document.nodes[at].text(text);
                    *self.steps.entry((before, Some(name))).or_default() += 1;
                    let member = self.names.entry(name).or_default();
                    member.times += 1;
                    member.place.add(text, document, at + 1);
                    before = Some(name);
                    at = document.nodes[at + 1].next as usize;
                }
                *self.steps.entry((before, None)).or_default() += 1;
            }
            Kind::Array => {
                self.arrays += 1;
                *self.counts.entry(node.count.into()).or_default() += 1;
                let mut at = at + 1;
                for _ in 0..node.count {
                    let element = self.element.get_or_insert_default();
                    element.add(text, document, at);
                    at = document.nodes[at].next as usize;
                }
            }
            kind => {
                let key = (kind == Kind::String, node.raw(text));
                self.scalars.entry(key).or_insert((kind, 0)).1 += 1;
            }
        }
    }

    /// Members whose names are rare are counted together.
    fn join_rare_names(&mut self) {
        let mut by_times: Vec<(u64, &str)> = self
            .names
            .iter()
            .map(|(name, m)| (m.times, *name))
            .collect();
        by_times.sort_by_key(|(times, name)| (std::cmp::Reverse(*times), *name));
        let is_rare = |times: u64| times < 2 || times * NAME_SHARE_MIN < self.objects;
        let rare = by_times.iter().enumerate();
        let rare = rare.filter(|(rank, (times, _))| *rank >= NAMES_MAX || is_rare(*times));
        let rare: Vec<&str> = rare.map(|(_, (_, name))| *name).collect();
        for name in rare {
            if let Some(member) = self.names.remove(name) {
                self.others.get_or_insert_default().join(member.place);
            }
        }
        for member in self.names.values_mut() {
            member.place.join_rare_names();
        }
        for inner in [&mut self.others, &mut self.element].into_iter().flatten() {
            inner.join_rare_names();
        }
    }

    fn join(&mut self, other: Place<'t>) {
        self.objects += other.objects;
        self.arrays += other.arrays;
        for (name, member) in other.names {
            let own = self.names.entry(name).or_default();
            own.times += member.times;
            own.place.join(member.place);
        }
        for (step, times) in other.steps {
            *self.steps.entry(step).or_default() += times;
        }
        for (length, times) in other.counts {
            *self.counts.entry(length).or_default() += times;
        }
        for (scalar, (kind, times)) in other.scalars {
            self.scalars.entry(scalar).or_insert((kind, 0)).1 += times;
        }
        for (own, inner) in [
            (&mut self.others, other.others),
            (&mut self.element, other.element),
        ] {
            if let Some(inner) = inner {
                own.get_or_insert_default().join(*inner);
            }
        }
    }

    fn inner(&self) -> impl Iterator<Item = &Place<'t>> {
        let members = self.names.values().map(|member| &member.place);
        let others = [&self.others, &self.element].into_iter().flatten();
        members.chain(others.map(|place| &**place))
    }

    fn count_words(&self, counts: &mut BTreeMap<&'t str, u64>) {
        let frequent = self.frequent();
        let frequent: BTreeSet<(bool, &str)> = frequent.iter().map(|(text, _)| *text).collect();
        let written = self
            .scalars
            .iter()
            .filter(|(scalar, _)| !frequent.contains(scalar));
        for ((_, raw), (kind, times)) in written {
            if let Form::String(string) = Form::of(*kind, raw) {
                words(string).for_each(|word| *counts.entry(word).or_default() += times);
            }
        }
        self.inner().for_each(|place| place.count_words(counts));
    }

    /// Values that are so frequent that each has a number.
    fn frequent(&self) -> Vec<((bool, &'t str), u64)> {
        let total: u64 = self.scalars.values().map(|(_, times)| times).sum();
        let is_frequent = |kind: Kind, times: u64| match kind {
            Kind::String => times >= FREQUENT_TIMES_MIN,
            Kind::Number => {
                times >= FREQUENT_TIMES_MIN && times.saturating_mul(NUMBER_SHARE_MIN) >= total
            }
            _ => true,
        };
        let scalars = self.scalars.iter();
        let frequent = scalars.filter(|(_, (kind, times))| is_frequent(*kind, *times));
        let mut frequent: Vec<_> = frequent.map(|(text, (_, times))| (*text, *times)).collect();
        frequent.sort_by_key(|(text, times)| (std::cmp::Reverse(*times), *text));
        frequent.truncate(FREQUENT_MAX);
        frequent
    }
}

struct Finishing {
    vocabulary: Vocabulary,
    spelling: SpellingCounts,
    slots: Vec<Slot>,
}

impl Finishing {
    /// The number of the place's slot.
    fn place(&mut self, place: &Place) -> u32 {
        if self.slots.len() >= SLOTS_MAX {
            return UNKNOWN;
        }
        let number = self.slots.len();
        self.slots.push(Slot::default());
        let mut slot = Slot::default();
        let mut kinds = BTreeMap::new();
        count(&mut kinds, OBJECT, place.objects);
        count(&mut kinds, ARRAY, place.arrays);
        self.scalars(place, &mut slot, &mut kinds);
        slot.kinds = Frequencies::learn(&kinds, 0);
        slot.members = self.members(place);
        slot.counts = Integers::learn(&place.counts);
        slot.element = place.element.as_ref().map_or(UNKNOWN, |e| self.place(e));
        self.slots[number] = slot;
        number as u32
    }

    fn members(&mut self, place: &Place) -> Members {
        let names: Vec<&str> = place.names.keys().copied().collect();
        let numbers: BTreeMap<&str, usize> =
            names.iter().enumerate().map(|(n, s)| (*s, n)).collect();
        let slots = place
            .names
            .values()
            .map(|member| self.place(&member.place))
            .collect();
        let other = place
            .others
            .as_ref()
            .map_or(UNKNOWN, |others| self.place(others));
        let mut next = vec![(BTreeMap::new(), 0u64); names.len() + 2];
        for ((before, after), times) in &place.steps {
            let at = match before {
                None => 0,
                Some(name) => numbers
                    .get(name)
                    .map_or(names.len() + 1, |number| number + 1),
            };
            let (known, others) = &mut next[at];
            match after.map(|name| numbers.get(name)) {
                None => count(known, END, *times),
                Some(Some(number)) => count(known, *number as u16, *times),
                Some(None) => {
                    *others += times;
                    self.spelling.add(after.unwrap_or_default(), *times);
                }
            }
        }
        let next = match place.objects {
            0 => Vec::new(),
            _ => next
                .iter()
                .map(|(known, others)| Frequencies::learn(known, *others))
                .collect(),
        };
        let names = Names::checked(names.into_iter().map(Box::from).collect());
        Members::new(names.unwrap_or_default(), slots, other, next)
    }

    fn scalars(&mut self, place: &Place, slot: &mut Slot, kinds: &mut BTreeMap<u16, u64>) {
        let frequent = place.frequent();
        for (number, (_, times)) in frequent.iter().enumerate() {
            count(kinds, FREQUENT + number as u16, *times);
        }
        let texts = frequent.iter().map(|((_, text), _)| Box::from(*text));
        slot.frequent = Names::checked(texts.collect()).unwrap_or_default();
        let mut integers: BTreeMap<i64, u64> = BTreeMap::new();
        let mut digits: BTreeMap<i64, u64> = BTreeMap::new();
        let mut scales = BTreeMap::new();
        let mut strings = Vec::new();
        for ((_, raw), (kind, times)) in &place.scalars {
            if slot.frequent.number(raw).is_some() {
                continue;
            }
            match Form::of(*kind, raw) {
                Form::Integer(number) => {
                    count(kinds, INTEGER, *times);
                    *integers.entry(number).or_default() += times;
                }
                Form::Decimal(decimal) => {
                    count(kinds, DECIMAL, *times);
                    *digits.entry(decimal.digits as i64).or_default() += times;
                    count(&mut scales, scale_symbol(decimal), *times);
                }
                Form::String(string) => strings.push((string, *times)),
                Form::Verbatim(raw) => {
                    count(kinds, VERBATIM, *times);
                    self.spelling.add(raw, *times);
                }
            }
        }
        slot.integers = Integers::learn(&integers);
        slot.digits = Integers::learn(&digits);
        slot.scales = Frequencies::learn(&scales, 0);
        slot.fixed = Fixed::learn(strings.iter().copied());
        let mut counts = StringCounts::default();
        for (string, times) in strings {
            if slot.fixed.fits(string) {
                count(kinds, FIXED, times);
                continue;
            }
            count(kinds, STRING, times);
            let spelling = &mut self.spelling;
            let spelled = |word: &str| spelling.add(word, times);
            counts.add(string, times, &self.vocabulary, spelled);
        }
        slot.strings = counts.finish();
    }
}
