//! A shape as bytes and back. Whatever the bytes are, what is read is a shape or an error.

use std::collections::BTreeMap;

use super::coder::SHARES;
use super::fixed::{Fixed, LENGTH_MAX};
use super::frequencies::{ESCAPE, Frequencies};
use super::integers::{Integers, MAGNITUDE_MAX};
use super::model::{ROOT, Shape};
use super::slot::{Members, Names, Slot};
use super::spelling::Spelling;
use super::words::{Strings, Vocabulary};
use crate::LearnedError;
use crate::bytes::{End, Reader, put_number, put_string};

pub(super) fn write(shape: &Shape, out: &mut Vec<u8>) {
    frequencies(&shape.styles, out);
    let known = shape.spelling.known();
    put_number(out, known.clone().count() as u64);
    for (before, after) in known {
        out.push(before);
        frequencies(after, out);
    }
    frequencies(shape.spelling.others(), out);
    texts(&shape.vocabulary.words, out);
    put_number(out, shape.slots.len() as u64);
    shape.slots.iter().for_each(|slot| write_slot(slot, out));
}

fn write_slot(slot: &Slot, out: &mut Vec<u8>) {
    frequencies(&slot.kinds, out);
    texts(&slot.frequent.texts, out);
    texts(&slot.members.names.texts, out);
    slot.members
        .slots
        .iter()
        .for_each(|slot| put_number(out, (*slot).into()));
    put_number(out, slot.members.other.into());
    list(&slot.members.next, out);
    integers(&slot.counts, out);
    put_number(out, slot.element.into());
    integers(&slot.integers, out);
    frequencies(&slot.scales, out);
    integers(&slot.digits, out);
    list(&slot.fixed.places, out);
    let known = slot.strings.known();
    put_number(out, known.len() as u64);
    for (before, after) in known {
        put_number(out, before.into());
        frequencies(after, out);
    }
    let others = slot.strings.others().iter();
    others.for_each(|after| frequencies(after, out));
}

/// The share of [`ESCAPE`] is what the others leave.
fn frequencies(frequencies: &Frequencies, out: &mut Vec<u8>) {
    let known = frequencies.shares().filter(|(symbol, _)| *symbol != ESCAPE);
    put_number(out, known.clone().count() as u64);
    let mut before = 0;
    for (symbol, share) in known {
        put_number(out, u64::from(symbol - before));
        put_number(out, share.into());
        before = symbol;
    }
}

fn list(list: &[Frequencies], out: &mut Vec<u8>) {
    put_number(out, list.len() as u64);
    list.iter().for_each(|each| frequencies(each, out));
}

fn integers(integers: &Integers, out: &mut Vec<u8>) {
    let zigzag = (integers.base << 1) ^ (integers.base >> 63);
    put_number(out, zigzag as u64);
    frequencies(&integers.magnitudes, out);
}

fn texts(texts: &[Box<str>], out: &mut Vec<u8>) {
    put_number(out, texts.len() as u64);
    texts
        .iter()
        .for_each(|text| put_string(out, text.as_bytes()));
}

impl From<End> for LearnedError {
    fn from(_: End) -> Self {
        LearnedError::Truncated
    }
}

fn damaged<T>(what: &'static str) -> Result<T, LearnedError> {
    Err(LearnedError::Damaged { what })
}

pub(super) fn read(bytes: &[u8]) -> Result<Shape, LearnedError> {
    let mut from = Reader(bytes);
    let styles = read_frequencies(&mut from)?;
    let mut after = BTreeMap::new();
    for _ in 0..from.number()? {
        let before = from.byte()?;
        after.insert(before, read_frequencies(&mut from)?);
    }
    let spelling = Spelling::new(read_frequencies(&mut from)?, after);
    let Some(vocabulary) = Vocabulary::checked(read_texts(&mut from)?) else {
        return damaged("its words are not distinct");
    };
    let count = from.number()?;
    let mut slots = Vec::new();
    for _ in 0..count {
        slots.push(read_slot(&mut from)?);
    }
    let exists = |number: &u32| u64::from(*number) < count;
    let exist = |slot: &Slot| {
        let members = &slot.members;
        members.slots.iter().all(exists) && exists(&members.other) && exists(&slot.element)
    };
    if !exists(&ROOT) || !slots.iter().all(exist) || !from.0.is_empty() {
        return damaged("its places do not fit together");
    }
    Ok(Shape {
        styles,
        spelling,
        vocabulary,
        slots,
    })
}

fn read_slot(from: &mut Reader) -> Result<Slot, LearnedError> {
    let kinds = read_frequencies(from)?;
    let frequent = read_names(from)?;
    if frequent.texts.iter().any(|text| text.is_empty()) {
        return damaged("a frequent value is empty");
    }
    let names = read_names(from)?;
    let slots = (0..names.texts.len())
        .map(|_| read_slot_number(from))
        .collect::<Result<_, _>>()?;
    let other = read_slot_number(from)?;
    let members = Members::new(names, slots, other, read_list(from)?);
    let counts = read_integers(from)?;
    let element = read_slot_number(from)?;
    let mut slot = Slot {
        kinds,
        frequent,
        members,
        counts,
        element,
        integers: read_integers(from)?,
        scales: read_frequencies(from)?,
        digits: read_integers(from)?,
        fixed: Fixed {
            places: read_list(from)?,
        },
        strings: Strings::default(),
    };
    if slot.fixed.places.len() > LENGTH_MAX {
        return damaged("its strings of one length are too long");
    }
    let mut after = BTreeMap::new();
    for _ in 0..from.number()? {
        let Ok(before) = u16::try_from(from.number()?) else {
            return damaged("a word has no possible number");
        };
        after.insert(before, read_frequencies(from)?);
    }
    let mut others = || read_frequencies(from);
    slot.strings = Strings::new(after, [others()?, others()?, others()?]);
    Ok(slot)
}

fn read_slot_number(from: &mut Reader) -> Result<u32, LearnedError> {
    match u32::try_from(from.number()?) {
        Ok(number) => Ok(number),
        Err(_) => damaged("a place has no possible number"),
    }
}

fn read_frequencies(from: &mut Reader) -> Result<Frequencies, LearnedError> {
    let count = from.number()?;
    let mut shares = Vec::new();
    let (mut symbol, mut left) = (0u64, u64::from(SHARES));
    for _ in 0..count {
        symbol = symbol.saturating_add(from.number()?);
        let share = from.number()?;
        left = left.saturating_sub(share);
        match (u16::try_from(symbol), u16::try_from(share)) {
            (Ok(symbol), Ok(share)) if left > 0 => shares.push((symbol, share)),
            _ => return damaged("shares are more than the whole"),
        }
    }
    shares.push((ESCAPE, left as u16));
    match Frequencies::checked(&shares) {
        Some(frequencies) => Ok(frequencies),
        None => damaged("shares are not in order"),
    }
}

fn read_list(from: &mut Reader) -> Result<Vec<Frequencies>, LearnedError> {
    let count = from.number()?;
    let mut list = Vec::new();
    for _ in 0..count {
        list.push(read_frequencies(from)?);
    }
    Ok(list)
}

fn read_integers(from: &mut Reader) -> Result<Integers, LearnedError> {
    let zigzag = from.number()? as i64;
    let base = ((zigzag as u64 >> 1) as i64) ^ -(zigzag & 1);
    if base.unsigned_abs() > MAGNITUDE_MAX as u64 {
        return damaged("a usual number is too large");
    }
    let magnitudes = read_frequencies(from)?;
    Ok(Integers { base, magnitudes })
}

fn read_texts(from: &mut Reader) -> Result<Vec<Box<str>>, LearnedError> {
    let count = from.number()?;
    let mut texts = Vec::new();
    for _ in 0..count {
        match std::str::from_utf8(from.string()?) {
            Ok(text) => texts.push(text.into()),
            Err(_) => return damaged("a text is no UTF-8"),
        }
    }
    Ok(texts)
}

fn read_names(from: &mut Reader) -> Result<Names, LearnedError> {
    match Names::checked(read_texts(from)?) {
        Some(names) => Ok(names),
        None => damaged("its names are not distinct"),
    }
}
