//! A page of metrics, in one of two formats of Prometheus.

use std::fmt::Display;

use helenus_engine::stats::{Histogram, PackedStats};

use super::protobuf::Protobuf;
use super::text::{Labels, Text};

/// A page being written.
#[derive(Debug)]
pub(in crate::admin) enum Page {
    Text(Text),
    Protobuf(Protobuf),
    /// Names and help only, for the documentation.
    #[cfg(test)]
    Families(Vec<Family>),
}

/// A name with all its series.
#[cfg(test)]
#[derive(Debug)]
pub(in crate::admin) struct Family {
    pub name: String,
    pub kind: String,
    pub labels: Vec<String>,
    pub help: String,
}

impl Default for Page {
    fn default() -> Page {
        Page::Text(Text::default())
    }
}

impl Page {
    /// Starts a family; its samples must follow before the next one starts. `_labels`: the names that each has.
    pub(in crate::admin) fn family(
        &mut self,
        name: &str,
        kind: &str,
        _labels: &[&str],
        help: &str,
    ) {
        match self {
            Page::Text(text) => text.family(name, kind, help),
            Page::Protobuf(protobuf) => protobuf.family(name, kind, help),
            #[cfg(test)]
            Page::Families(families) => families.push(Family {
                name: name.to_owned(),
                kind: kind.to_owned(),
                labels: _labels.iter().map(|&label| label.to_owned()).collect(),
                help: help.to_owned(),
            }),
        }
    }

    /// That the family has been told of the labels that its samples have.
    #[cfg(test)]
    fn check(&self, labels: Labels) {
        if let Page::Families(families) = self {
            let family = families.last().expect("a family");
            let given: Vec<&str> = labels.iter().map(|(label, _)| *label).collect();
            assert_eq!(family.labels, given, "{}", family.name);
        }
    }

    pub(in crate::admin) fn sample(&mut self, name: &str, labels: Labels, value: impl Display) {
        match self {
            Page::Text(text) => text.sample(name, labels, value),
            Page::Protobuf(protobuf) => protobuf.sample(labels, &value),
            #[cfg(test)]
            Page::Families(_) => self.check(labels),
        }
    }

    /// A gauge without labels.
    pub(in crate::admin) fn gauge(&mut self, name: &str, help: &str, value: impl Display) {
        self.family(name, "gauge", &[], help);
        self.sample(name, &[], value);
    }

    /// A counter without labels.
    pub(in crate::admin) fn counter(&mut self, name: &str, help: &str, value: impl Display) {
        self.family(name, "counter", &[], help);
        self.sample(name, &[], value);
    }

    /// One histogram, in seconds.
    pub(in crate::admin) fn histogram(
        &mut self,
        name: &str,
        labels: Labels,
        histogram: &Histogram,
    ) {
        match self {
            Page::Text(text) => text.histogram(name, labels, histogram),
            Page::Protobuf(protobuf) => protobuf.histogram(labels, histogram),
            #[cfg(test)]
            Page::Families(_) => self.check(labels),
        }
    }

    /// One histogram of queries sent together.
    pub(in crate::admin) fn packed(&mut self, name: &str, labels: Labels, packed: &PackedStats) {
        match self {
            Page::Text(text) => text.packed(name, labels, packed),
            Page::Protobuf(protobuf) => protobuf.packed(labels, packed),
            #[cfg(test)]
            Page::Families(_) => self.check(labels),
        }
    }

    /// The page, and its type.
    pub(in crate::admin) fn finish(self) -> (&'static str, Vec<u8>) {
        match self {
            Page::Text(text) => (super::text::TYPE, text.finish().into_bytes()),
            Page::Protobuf(protobuf) => (super::protobuf::TYPE, protobuf.finish()),
            #[cfg(test)]
            Page::Families(_) => (super::text::TYPE, Vec::new()),
        }
    }

    #[cfg(test)]
    pub(in crate::admin) fn into_text(self) -> String {
        String::from_utf8(self.finish().1).expect("text")
    }
}
