//! State of features in a worker, and their verdicts.

use std::time::{Duration, Instant};

use crate::context::Context;
use crate::features::*;
use crate::keys::ClientRequestKey;
use crate::pipeline::arrival::Arrival;
use crate::pipeline::retry::resendable::Resendable;
use crate::statement::analysis::Analysis;
use crate::statement::prepared::Statement;

/// State of features in a worker.
pub(crate) struct State {
    pub(super) rules: rules::State,
    pub(super) encodings: encodings::State,
    pub(super) coalesce: coalesce::State,
    pub(super) merge: merge::State,
    pub(super) lwt_turns: lwt_turns::State,
    pub(super) pause: pause::State,
    pub(super) hedge: hedge::State,
    pub(super) prewarm: prewarm::State,
    pub(super) hot: hot::State,
    pub(super) records: records::State,
}

impl State {
    pub(crate) fn new(seed: u64, now: Instant) -> State {
        State {
            rules: rules::State::default(),
            encodings: encodings::State::default(),
            coalesce: coalesce::State::default(),
            merge: merge::State::default(),
            lwt_turns: lwt_turns::State::default(),
            pause: pause::State::default(),
            hedge: hedge::State::new(now),
            prewarm: prewarm::State::default(),
            hot: hot::State::new(seed),
            records: records::State::default(),
        }
    }
}

/// State of features, kept with a statement.
#[derive(Debug, Default)]
pub(crate) struct InStatement {
    pub(super) encodings: encodings::InStatement,
    pub(super) layouts: layouts::InStatement,
}

/// State of features, kept with a write that has a marker for its timestamp.
#[derive(Debug, Default)]
pub(crate) struct InTimedForm {
    pub(super) merge: merge::Refusals,
}

/// State of features of a client's connection.
#[derive(Default)]
pub(crate) struct InSession {
    pub(super) rules: rules::InSession,
}

/// State of features of a client's request. It moves with each: what few requests have is one word of it.
#[derive(Default)]
pub(crate) struct Slot {
    pub(super) coalesce: coalesce::Slot,
    pub(super) encodings: encodings::InRead,
    rare: Option<Box<Rare>>,
}

/// State of features that few requests have.
#[derive(Default)]
pub(super) struct Rare {
    pub(super) rules: rules::Slot,
    pub(super) encodings: encodings::InRequest,
    pub(super) layouts: layouts::InRequest,
    pub(super) merge: merge::Slot,
    pub(super) lwt_turns: lwt_turns::Slot,
    pub(super) records: records::Slot,
}

impl Slot {
    /// Its rare part, if there is one.
    #[inline]
    pub(super) fn rare(&self) -> Option<&Rare> {
        self.rare.as_deref()
    }

    #[inline]
    pub(super) fn rare_mut(&mut self) -> Option<&mut Rare> {
        self.rare.as_deref_mut()
    }

    /// Room for what is rare.
    #[inline(never)]
    pub(super) fn keep(&mut self) -> &mut Rare {
        self.rare.get_or_insert_default()
    }

    /// True if the request shares nothing with others.
    #[inline]
    pub(crate) fn goes_alone(&self) -> bool {
        let Some(rare) = self.rare() else {
            return false;
        };
        let mut goes_alone = false;
        goes_alone |= rare.rules.is_timed();
        goes_alone
    }

    /// Why it is given up at this age, if it is.
    #[inline]
    pub(crate) fn why_late(&self, age: Duration) -> Option<String> {
        let rare = self.rare()?;
        let mut why = None;
        why = why.or_else(|| rare.rules.why_late(age));
        why
    }

    /// Its answer is there, of so many bytes.
    #[inline]
    pub(crate) fn on_reply(&self, bytes: usize, now: Instant) {
        let Some(rare) = self.rare() else {
            return;
        };
        rare.rules.on_reply(bytes, now);
    }

    /// True if the request waits to begin.
    #[inline]
    pub(crate) fn is_waiting(&self) -> bool {
        let mut is_waiting = false;
        is_waiting |= coalesce::is_parked(self.coalesce);
        is_waiting |= self.rare().is_some_and(|rare| rare.lwt_turns.is_waiting());
        is_waiting
    }

    /// True if a read that asks the same may join it.
    #[inline]
    pub(crate) fn may_be_joined(&self, cx: &Context) -> bool {
        let mut may_be = true;
        may_be &= encodings::may_join(cx, &self.encodings);
        may_be
    }

    /// True if it goes with another, and has no node request of its own.
    pub(crate) fn goes_with_another(&self) -> bool {
        let Some(rare) = self.rare() else {
            return false;
        };
        let mut goes_so = false;
        goes_so |= rare.merge.has_joined();
        goes_so
    }

    /// True if it may have been applied before, when it begins.
    #[inline]
    pub(crate) fn may_be_applied(&self) -> bool {
        let Some(rare) = self.rare() else {
            return false;
        };
        let mut may_be = false;
        may_be |= rare.merge.has_parted();
        may_be
    }

    /// True if others may still join it, or have joined it: it is written down when its link's bytes leave.
    #[inline]
    pub(crate) fn is_open(&self) -> bool {
        let Some(rare) = self.rare() else {
            return false;
        };
        let mut is_open = false;
        is_open |= rare.merge.is_open();
        is_open
    }

    /// True if the node request sent for it is for several.
    #[inline]
    pub(crate) fn is_of_several(&self) -> bool {
        let Some(rare) = self.rare() else {
            return false;
        };
        let mut is_so = false;
        is_so |= rare.merge.leads();
        is_so
    }

    /// How many others get its answer.
    pub(crate) fn answered_with(&self) -> usize {
        let Some(rare) = self.rare() else {
            return 0;
        };
        let mut number = 0;
        number += rare.merge.members();
        number
    }

    /// Which they are: it does not answer for them any more.
    #[inline]
    pub(crate) fn take_answered_with(&mut self) -> Vec<ClientRequestKey> {
        let mut others = Vec::new();
        let Some(rare) = self.rare_mut() else {
            return others;
        };
        others = rare.merge.members_or(others);
        others
    }

    /// After which losses it may be sent again, as far as features know.
    #[inline]
    pub(crate) fn resendable(&self) -> Resendable {
        let mut resendable = Resendable::Always;
        let Some(rare) = self.rare() else {
            return resendable;
        };
        resendable = resendable.min(rare.merge.resendable());
        resendable
    }

    /// A node has answered with rows.
    #[inline]
    pub(crate) fn on_rows(&mut self, content: &[u8]) {
        let Some(rare) = self.rare_mut() else {
            return;
        };
        rare.lwt_turns.on_rows(content);
    }

    /// True if it is its turn.
    pub(crate) fn has_turn(&self) -> bool {
        let Some(rare) = self.rare() else {
            return false;
        };
        let mut has_turn = false;
        has_turn |= rare.lwt_turns.has_turn();
        has_turn
    }
}

/// Work that an event leaves to features.
#[derive(Debug)]
pub(crate) enum Work {
    /// A conditional write of this worker may go on, with its turn or without.
    LwtTurns(lwt_turns::Granted),
    /// A request that has waited for the end of a pause goes on.
    Pause(Box<pause::HeldRequest>),
    /// The lessons of a node that has joined go on.
    Prewarm(prewarm::Work),
}

/// A feature's verdict on a request.
pub(crate) enum Verdict {
    GoOn,
    /// It will come back.
    Waits,
    /// It has been answered.
    Answered,
    /// OVERLOADED, and why.
    Refused(String),
    /// Another body is carried out in place of its own.
    Instead(Vec<u8>),
}

/// A request whose body has been read.
pub(crate) struct Arrived<'a> {
    pub arrival: &'a Arrival<'a>,
    pub analysis: &'a Analysis<'a>,
    /// Its statement, unless there are several, or it is unknown.
    pub statement: Option<&'a Statement>,
}
