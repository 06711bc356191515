//! The model of one place in the documents, such as the price of each item viewed.

use rustc_hash::FxHashMap;

use super::fixed::Fixed;
use super::frequencies::{ESCAPE, Frequencies};
use super::integers::Integers;
use super::words::Strings;
use crate::json::{Decimal, Kind, Usual, usual};

/// The symbols of kinds: first those of values that are written out, then one for each frequent value.
pub(super) const OBJECT: u16 = 0;
pub(super) const ARRAY: u16 = 1;
pub(super) const INTEGER: u16 = 2;
pub(super) const DECIMAL: u16 = 3;
pub(super) const STRING: u16 = 4;
pub(super) const FIXED: u16 = 5;
/// Other numbers, and words that are not frequent here.
pub(super) const VERBATIM: u16 = 6;
pub(super) const FREQUENT: u16 = 8;
pub(super) const KIND_BITS: u32 = 3;

/// After an object's last member.
pub(super) const END: u16 = ESCAPE - 1;

/// A place in the documents.
#[derive(Debug, Default)]
pub(super) struct Slot {
    pub kinds: Frequencies,
    pub frequent: Names,
    pub members: Members,
    /// Of arrays.
    pub counts: Integers,
    /// Number of the slot of an array's elements.
    pub element: u32,
    pub integers: Integers,
    /// Sign and places after the point.
    pub scales: Frequencies,
    /// Decimals without their point.
    pub digits: Integers,
    pub fixed: Fixed,
    pub strings: Strings,
}

/// The members of an object.
#[derive(Debug, Default)]
pub(super) struct Members {
    /// As written, without quotation marks.
    pub names: Names,
    /// Number of the slot of each.
    pub slots: Vec<u32>,
    /// Number of the slot of all others.
    pub other: u32,
    /// Which member comes after which: first of all, after each name, after others. May be shorter.
    pub next: Vec<Frequencies>,
    /// Each name with its quotation marks, the comma before it and the colon after it.
    written: Vec<Box<str>>,
}

impl Members {
    pub(super) fn new(
        names: Names,
        slots: Vec<u32>,
        other: u32,
        next: Vec<Frequencies>,
    ) -> Members {
        let written = names.texts.iter();
        Members {
            written: written.map(|name| format!(",\"{name}\":").into()).collect(),
            names,
            slots,
            other,
            next,
        }
    }

    /// A name as it stands in a compact document.
    pub(super) fn written(&self, number: usize, is_first: bool) -> Option<&str> {
        self.written.get(number)?.get(usize::from(is_first)..)
    }

    /// After the member with this number, or after one without.
    pub(super) fn after(&self, number: Option<usize>) -> usize {
        match number {
            Some(number) => number + 1,
            None => self.names.texts.len() + 1,
        }
    }
}

/// Texts by number and back.
#[derive(Debug, Default)]
pub(super) struct Names {
    pub texts: Vec<Box<str>>,
    numbers: FxHashMap<Box<str>, u16>,
    /// A bit for each length that a text has, the last one for all that are longer.
    lengths: u64,
}

impl Names {
    /// None if two are the same, or there are too many.
    pub(super) fn checked(texts: Vec<Box<str>>) -> Option<Names> {
        let numbered = texts.iter().enumerate();
        let numbers: FxHashMap<Box<str>, u16> = numbered
            .map(|(number, text)| (text.clone(), number as u16))
            .collect();
        let is_good = numbers.len() == texts.len() && texts.len() < usize::from(END - FREQUENT);
        let lengths = texts
            .iter()
            .fold(0, |lengths, text| lengths | length_bit(text));
        is_good.then_some(Names {
            texts,
            numbers,
            lengths,
        })
    }

    pub(super) fn number(&self, text: &str) -> Option<u16> {
        match self.lengths & length_bit(text) {
            0 => None,
            _ => self.numbers.get(text).copied(),
        }
    }

    /// The number of a text that probably is the one with the number `likely`.
    pub(super) fn number_likely(&self, text: &str, likely: u16) -> Option<u16> {
        match self.texts.get(usize::from(likely)) {
            Some(known) if **known == *text => Some(likely),
            _ => self.number(text),
        }
    }
}

fn length_bit(text: &str) -> u64 {
    1 << text.len().min(63)
}

/// A value that is written out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Form<'t> {
    Integer(i64),
    Decimal(Decimal),
    String(&'t str),
    /// As written.
    Verbatim(&'t str),
}

impl<'t> Form<'t> {
    /// Of a scalar as written, a string with its quotation marks.
    pub(super) fn of(kind: Kind, raw: &'t str) -> Form<'t> {
        if kind == Kind::String {
            return Form::String(raw.get(1..raw.len() - 1).unwrap_or_default());
        }
        match usual(raw) {
            Some(Usual::Integer(number)) => Form::Integer(number),
            Some(Usual::Decimal(decimal)) => Form::Decimal(decimal),
            None => Form::Verbatim(raw),
        }
    }
}

/// Bits of the symbol of a decimal's scale.
pub(super) const SCALE_BITS: u32 = 6;

/// Sign and scale as one symbol.
pub(super) fn scale_symbol(decimal: Decimal) -> u16 {
    u16::from(decimal.is_negative) << 5 | u16::from(decimal.scale)
}
