//! How a client request is carried out by node requests: small state machines, all of one signature. A
//! response goes in, and what is next comes out ([`Step`]). They send nothing themselves: the node
//! requests that they make are routed by the engine, when the step has been taken.

pub(crate) mod attempt_end;
pub(crate) mod context;
pub(crate) mod outcome;
pub(crate) mod retry;
pub mod scan;

use helenus_policy::schedule::Class;

use crate::exec::context::Surroundings;
use crate::exec::outcome::{Outcome, Step};
use crate::exec::scan::aggregate::Aggregate;
use crate::exec::scan::multi_get::{MultiGet, Spread};
use crate::exec::scan::paged::PagedScan;
use crate::features;
use crate::keys::NodeRequestKey;
use crate::pipeline::node_request::{Form, Prediction, Target};
use crate::statement::learned::Learned;

/// How one client request is carried out.
#[derive(Debug)]
pub(crate) enum Execution {
    /// As it came, by one node request; `None` before that.
    Single(Option<NodeRequestKey>),
    /// A read as it came, by two node requests: the first to be answered counts.
    Hedged {
        first: NodeRequestKey,
        second: NodeRequestKey,
    },
    /// A page of a scan: in pieces, or in parts of the ring.
    PagedScan(Box<PagedScan>),
    /// Aggregates over many partitions.
    Aggregate(Box<Aggregate>),
    /// A read of several keys, each asked of an owner.
    MultiGet(Box<MultiGet>),
    /// In a way of a feature's own.
    Feature(features::Execution),
    /// It has been carried out, and its answer waits until the nodes agree on the schema.
    Held,
}

impl Execution {
    /// Sends what comes first.
    pub(crate) fn begin(&mut self, around: &mut Surroundings<'_>) -> Step<'static> {
        match self {
            Execution::Single(None) if around.query.class == Class::Multi => {
                match MultiGet::begin(around) {
                    Spread::No => self.send_whole(around),
                    Spread::OneNode(node) => self.send_to(around, Target::At(node)),
                    Spread::Nodes(multi_get) => {
                        *self = Execution::MultiGet(multi_get);
                        Step::Wait
                    }
                }
            }
            Execution::Single(None) => self.send_whole(around),
            Execution::PagedScan(scan) => {
                match scan.begin_stretches(around) || scan.begin_parts(around) {
                    true => Step::Wait,
                    false => scan.send_piece(around, around.target.clone()),
                }
            }
            Execution::Aggregate(aggregate) => aggregate.begin(around),
            Execution::Feature(of) => of.begin(around),
            Execution::Single(Some(_))
            | Execution::Hedged { .. }
            | Execution::MultiGet(_)
            | Execution::Held => Step::Wait,
        }
    }

    /// Takes in what became of one of its node requests: of its part of that number, if it was one.
    pub(crate) fn on_outcome<'a>(
        &mut self,
        around: &mut Surroundings<'_>,
        part: Option<u16>,
        outcome: Outcome<'a>,
    ) -> Step<'a> {
        match (self, part) {
            (Execution::PagedScan(scan), None) => scan.on_piece(around, outcome),
            (Execution::PagedScan(scan), Some(part)) if scan.is_in_stretches() => {
                scan.on_stretch(around, part, outcome)
            }
            (Execution::PagedScan(scan), Some(part)) => scan.on_part(around, part, outcome),
            (Execution::Aggregate(aggregate), None) => aggregate.on_whole(around, outcome),
            (Execution::Aggregate(aggregate), Some(part)) => {
                aggregate.on_part(around, part, outcome)
            }
            (Execution::Feature(of), Some(_)) => of.on_part(around, outcome),
            (execution @ Execution::MultiGet(_), Some(part)) => {
                let Execution::MultiGet(multi_get) = execution else {
                    return Step::Wait;
                };
                match multi_get.on_part(around, part, outcome) {
                    Step::Whole => {
                        multi_get.abandon(around);
                        *execution = Execution::Single(None);
                        execution.send_whole(around)
                    }
                    step => step,
                }
            }
            (
                Execution::Single(_)
                | Execution::Hedged { .. }
                | Execution::MultiGet(_)
                | Execution::Feature(_)
                | Execution::Held,
                _,
            ) => outcome.unchanged(),
        }
    }

    /// What it had asked the nodes to prepare is known by now, or refused.
    pub(crate) fn on_range_settled(&mut self, around: &mut Surroundings<'_>) -> Step<'static> {
        match self {
            Execution::Aggregate(aggregate) => aggregate.on_range_settled(around),
            _ => Step::Wait,
        }
    }

    fn send_whole(&mut self, around: &mut Surroundings<'_>) -> Step<'static> {
        self.send_to(around, around.target.clone())
    }

    fn send_to(&mut self, around: &mut Surroundings<'_>, target: Target) -> Step<'static> {
        let is_known = around.learned().is_none_or(Learned::has_answers);
        let work = match around.query.class {
            Class::Scan if !is_known => around.whole_scan(None),
            _ => Prediction::Learned,
        };
        let sent = around.send_whole(Form::Own, work, target);
        *self = Execution::Single(Some(sent));
        Step::Wait
    }

    /// The node request that it waits for, if it is one alone.
    pub(crate) fn whole(&self) -> Option<NodeRequestKey> {
        match self {
            Execution::Single(whole) => *whole,
            Execution::Hedged { first, .. } => Some(*first),
            Execution::PagedScan(scan) => scan.whole(),
            Execution::Aggregate(aggregate) => aggregate.whole(),
            Execution::Feature(of) => of.whole(),
            Execution::MultiGet(_) | Execution::Held => None,
        }
    }

    /// Whether parts are under way in place of the whole.
    pub(crate) fn is_in_parts(&self) -> bool {
        match self {
            Execution::PagedScan(scan) => scan.is_in_parts(),
            Execution::Aggregate(aggregate) => aggregate.is_in_parts(),
            Execution::MultiGet(_) => true,
            Execution::Feature(of) => of.whole().is_none(),
            Execution::Single(_) | Execution::Hedged { .. } | Execution::Held => false,
        }
    }

    /// The second of two node requests for the whole.
    pub(crate) fn hedge(&self) -> Option<NodeRequestKey> {
        match self {
            Execution::Hedged { second, .. } => Some(*second),
            _ => None,
        }
    }

    /// The node requests for its parts that have not been answered.
    #[inline(always)]
    pub(crate) fn children(&self) -> Vec<NodeRequestKey> {
        match self {
            Execution::PagedScan(scan) => scan.children(),
            Execution::Aggregate(aggregate) => aggregate.children(),
            Execution::MultiGet(multi_get) => multi_get.children(),
            Execution::Feature(of) => of.children(),
            Execution::Single(_) | Execution::Hedged { .. } | Execution::Held => Vec::new(),
        }
    }

    /// How often its part of that number has been halved.
    pub(crate) fn halved(&self, part: u16) -> u8 {
        match self {
            Execution::Aggregate(aggregate) => aggregate.halved(part),
            _ => 0,
        }
    }

    /// Whether it waits for this node request as for its part of that number.
    pub(crate) fn awaits(&self, part: u16, child: NodeRequestKey) -> bool {
        match self {
            Execution::PagedScan(scan) => scan.awaits(part, child),
            Execution::Aggregate(aggregate) => aggregate.awaits(part, child),
            Execution::MultiGet(multi_get) => multi_get.awaits(part, child),
            Execution::Feature(of) => of.awaits(part, child),
            Execution::Single(_) | Execution::Hedged { .. } | Execution::Held => false,
        }
    }

    /// Whether it is a page of a scan, which any number of node requests may go to.
    pub(crate) fn is_page(&self) -> bool {
        matches!(self, Execution::PagedScan(_))
    }

    /// Whether a page of it has been read already.
    pub(crate) fn has_rows(&self) -> bool {
        matches!(self, Execution::PagedScan(scan) if scan.has_rows())
    }

    /// What people call it.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Execution::Single(_) => "whole",
            Execution::Hedged { .. } => "hedged",
            Execution::PagedScan(scan) if scan.is_in_stretches() => "scan in stretches",
            Execution::PagedScan(scan) if scan.is_in_parts() => "scan in parts",
            Execution::PagedScan(_) => "scan in pieces",
            Execution::Aggregate(aggregate) if aggregate.is_in_parts() => "aggregate in parts",
            Execution::Aggregate(_) => "aggregate",
            Execution::MultiGet(_) => "by owner",
            Execution::Feature(of) => of.name(),
            Execution::Held => "schema change",
        }
    }

    /// Bytes of answers that are kept.
    pub(crate) fn byte_len(&self) -> usize {
        match self {
            Execution::PagedScan(scan) => scan.byte_len(),
            Execution::Aggregate(aggregate) => aggregate.byte_len(),
            Execution::MultiGet(multi_get) => multi_get.byte_len(),
            Execution::Single(_)
            | Execution::Hedged { .. }
            | Execution::Feature(_)
            | Execution::Held => 0,
        }
    }

    /// A read as it came has timed out.
    pub(crate) fn note_timeout(&self, learned: &crate::statement::learned::Learned) {
        if let Execution::Aggregate(aggregate) = self {
            aggregate.note_timeout(learned);
        }
    }
}
