//! A document as choices.

use super::coder::Choices;
use super::frequencies::ESCAPE;
use super::model::{ROOT, Shape};
use super::slot::{
    ARRAY, DECIMAL, END, FIXED, FREQUENT, Form, INTEGER, KIND_BITS, OBJECT, SCALE_BITS, STRING,
    VERBATIM, scale_symbol,
};
use crate::json::{Document, Kind, Style};

pub(super) fn encode(
    shape: &Shape,
    text: &str,
    document: &Document,
    choices: &mut Choices,
    out: &mut Vec<u8>,
) {
    choices.clear();
    let style = u16::from(document.style == Style::Spaced);
    shape.styles.put_any(style, 1, choices);
    let mut encoding = Encoding {
        shape,
        text,
        document,
        choices,
    };
    encoding.value(ROOT, 0);
    encoding.choices.finish(out);
}

struct Encoding<'s, 't, 'c> {
    shape: &'s Shape,
    text: &'t str,
    document: &'t Document,
    choices: &'c mut Choices,
}

impl Encoding<'_, '_, '_> {
    /// The value of a node. Not deeper than documents may be nested.
    fn value(&mut self, slot: u32, at: usize) {
        let node = self.document.nodes[at];
        match node.kind {
            Kind::Object => {
                let kinds = &self.shape.slot(slot).kinds;
                kinds.put_any(OBJECT, KIND_BITS, self.choices);
                self.members(slot, at);
            }
            Kind::Array => {
                let slot = self.shape.slot(slot);
                slot.kinds.put_any(ARRAY, KIND_BITS, self.choices);
                slot.counts.put(node.count.into(), self.choices);
                let mut at = at + 1;
                for _ in 0..node.count {
                    self.value(slot.element, at);
                    at = self.document.nodes[at].next as usize;
                }
            }
            _ => self.scalar(slot, node.kind, node.raw(self.text)),
        }
    }

    fn members(&mut self, slot: u32, at: usize) {
        let (shape, document) = (self.shape, self.document);
        let members = &shape.slot(slot).members;
        let mut before = 0;
        let mut at = at + 1;
        for _ in 0..document.nodes[at - 1].count {
            let name = document.nodes[at].text(self.text);
            let likely = members
                .next
                .get(before)
                .map_or(ESCAPE, |next| next.likely());
            let number = members.names.number_likely(name, likely);
            let symbol = number.unwrap_or(ESCAPE);
            let number = number.map(usize::from);
            let is_known = self.put_member(members, before, symbol) && number.is_some();
            let number = number.filter(|_| is_known);
            if !is_known {
                self.shape.spelling.put(name, self.choices);
                // A name that ends the object where no object of the sample ended is told from others.
                self.choices.put_bits(0, 1);
            }
            let slot = number.and_then(|number| members.slots.get(number));
            self.value(slot.copied().unwrap_or(members.other), at + 1);
            before = members.after(number);
            at = document.nodes[at + 1].next as usize;
        }
        if !self.put_member(members, before, END) {
            self.shape.spelling.put("", self.choices);
            self.choices.put_bits(1, 1);
        }
    }

    fn put_member(&mut self, members: &super::slot::Members, before: usize, symbol: u16) -> bool {
        match members.next.get(before) {
            Some(next) => next.put(symbol, self.choices),
            None => false,
        }
    }

    fn scalar(&mut self, slot: u32, kind: Kind, raw: &str) {
        let shape = self.shape;
        let slot = shape.slot(slot);
        let choices = &mut *self.choices;
        let form = Form::of(kind, raw);
        let symbol = match form {
            Form::Integer(_) => INTEGER,
            Form::Decimal(_) => DECIMAL,
            Form::String(string) if slot.fixed.fits(string) => FIXED,
            Form::String(_) => STRING,
            Form::Verbatim(_) => VERBATIM,
        };
        match slot.frequent.number(raw) {
            Some(number) => {
                if slot.kinds.put(FREQUENT + number, choices) {
                    return;
                }
                choices.put_bits(symbol.into(), KIND_BITS);
            }
            None => slot.kinds.put_any(symbol, KIND_BITS, choices),
        }
        match form {
            Form::Integer(number) => slot.integers.put(number, choices),
            Form::Decimal(decimal) => {
                slot.scales
                    .put_any(scale_symbol(decimal), SCALE_BITS, choices);
                slot.digits.put(decimal.digits as i64, choices);
            }
            Form::String(string) if symbol == FIXED => slot.fixed.put(string, choices),
            Form::String(string) => {
                slot.strings
                    .put(string, &shape.vocabulary, &shape.spelling, choices);
            }
            Form::Verbatim(raw) => shape.spelling.put(raw, choices),
        }
    }
}
