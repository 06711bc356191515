//! Events of the proxy and its cluster, for people who want to know what was when: bounded, the oldest make room.
//! They are in the log as well; here they stand beside the numbers.

mod observed;

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::system::boot_time;

pub(crate) use self::observed::{Observed, SeenNode, SeenProxy};

/// Events kept.
const EVENTS_MAX: usize = 1_000;
/// Of one kind: many schema changes are not to hide what else there was.
const OF_A_KIND_MAX: usize = 250;
/// Bytes of a text: with 1,000 events, and details of 250 of them, that is less than 400 KiB.
const TEXT_BYTES_MAX: usize = 300;

/// The kind of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Started,
    Ready,
    NotReady,
    NodeUp,
    NodeDown,
    /// Another node says so.
    NodeReportedUp,
    NodeReportedDown,
    /// It has been asked, and nothing comes from it.
    NodeSilent,
    NodeAnswers,
    NodeEjected,
    NodeReturned,
    NodeJoining,
    NodeJoined,
    NodeLeaving,
    NodeLeft,
    NodeMoved,
    SchemaChanged,
    SettingsReloaded,
    SettingsRefused,
    Paused,
    Resumed,
    ClientKilled,
    Captured,
    OverloadBegan,
    OverloadEnded,
    FailuresBegan,
    FailuresEnded,
    ControlLost,
    ControlReturned,
    ProxyDown,
    ProxyUp,
    Draining,
    TookOver,
    HandedOver,
}

/// The weight of an event for somebody who looks at it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Severity {
    Bad,
    /// Something bad is over.
    Good,
    Note,
}

impl Severity {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Severity::Bad => "bad",
            Severity::Good => "good",
            Severity::Note => "note",
        }
    }
}

impl Kind {
    /// As JSON names it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::Started => "started",
            Kind::Ready => "ready",
            Kind::NotReady => "not_ready",
            Kind::NodeUp => "node_up",
            Kind::NodeDown => "node_down",
            Kind::NodeReportedUp => "node_reported_up",
            Kind::NodeReportedDown => "node_reported_down",
            Kind::NodeSilent => "node_silent",
            Kind::NodeAnswers => "node_answers",
            Kind::NodeEjected => "node_ejected",
            Kind::NodeReturned => "node_returned",
            Kind::NodeJoining => "node_joining",
            Kind::NodeJoined => "node_joined",
            Kind::NodeLeaving => "node_leaving",
            Kind::NodeLeft => "node_left",
            Kind::NodeMoved => "node_moved",
            Kind::SchemaChanged => "schema_changed",
            Kind::SettingsReloaded => "settings_reloaded",
            Kind::SettingsRefused => "settings_refused",
            Kind::Paused => "paused",
            Kind::Resumed => "resumed",
            Kind::ClientKilled => "client_killed",
            Kind::Captured => "captured",
            Kind::OverloadBegan => "overload_began",
            Kind::OverloadEnded => "overload_ended",
            Kind::FailuresBegan => "failures_began",
            Kind::FailuresEnded => "failures_ended",
            Kind::ControlLost => "control_lost",
            Kind::ControlReturned => "control_returned",
            Kind::ProxyDown => "proxy_down",
            Kind::ProxyUp => "proxy_up",
            Kind::Draining => "draining",
            Kind::TookOver => "took_over",
            Kind::HandedOver => "handed_over",
        }
    }

    pub(crate) fn severity(self) -> Severity {
        match self {
            Kind::NotReady
            | Kind::NodeDown
            | Kind::NodeReportedDown
            | Kind::NodeSilent
            | Kind::NodeEjected
            | Kind::SettingsRefused
            | Kind::OverloadBegan
            | Kind::FailuresBegan
            | Kind::ControlLost
            | Kind::ProxyDown => Severity::Bad,
            Kind::Ready
            | Kind::NodeUp
            | Kind::NodeReportedUp
            | Kind::NodeAnswers
            | Kind::NodeReturned
            | Kind::OverloadEnded
            | Kind::FailuresEnded
            | Kind::ControlReturned
            | Kind::ProxyUp => Severity::Good,
            Kind::Started
            | Kind::NodeJoining
            | Kind::NodeJoined
            | Kind::NodeLeaving
            | Kind::NodeLeft
            | Kind::NodeMoved
            | Kind::SchemaChanged
            | Kind::SettingsReloaded
            | Kind::Paused
            | Kind::Resumed
            | Kind::ClientKilled
            | Kind::Captured
            | Kind::Draining
            | Kind::TookOver
            | Kind::HandedOver => Severity::Note,
        }
    }
}

/// One event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Event {
    pub number: u64,
    /// Since the proxy began to note events.
    pub at: Duration,
    pub kind: Kind,
    pub text: Box<str>,
    /// For those who may see values.
    pub detail: Option<Box<str>>,
}

/// The last events.
#[derive(Debug)]
pub(crate) struct Events {
    began: Duration,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    events: VecDeque<Event>,
    next: u64,
}

impl Events {
    pub(crate) fn new(began: Duration) -> Events {
        Events {
            began,
            kept: Mutex::default(),
        }
    }

    /// Notes that something happens now.
    pub(crate) fn note(&self, kind: Kind, text: impl Into<String>) {
        self.note_at(boot_time::now(), kind, text);
    }

    pub(crate) fn note_at(&self, at: Duration, kind: Kind, text: impl Into<String>) {
        self.keep(at, kind, text.into(), None);
    }

    /// `detail`: what may quote values, and is not for everybody who may look.
    pub(crate) fn note_detailed(&self, kind: Kind, text: impl Into<String>, detail: String) {
        self.keep(boot_time::now(), kind, text.into(), Some(detail));
    }

    fn keep(&self, at: Duration, kind: Kind, mut text: String, mut detail: Option<String>) {
        cut(&mut text);
        detail.iter_mut().for_each(cut);
        let mut kept = self.lock();
        let number = kept.next;
        kept.next += 1;
        let of_kind = kept.events.iter().filter(|event| event.kind == kind);
        if of_kind.count() >= OF_A_KIND_MAX {
            let oldest = kept.events.iter().position(|event| event.kind == kind);
            oldest.and_then(|oldest| kept.events.remove(oldest));
        } else if kept.events.len() >= EVENTS_MAX {
            kept.events.pop_front();
        }
        kept.events.push_back(Event {
            number,
            at: at.saturating_sub(self.began),
            kind,
            text: text.into(),
            detail: detail.map(Into::into),
        });
    }

    /// Those from a number on, oldest first; all, if there has never been such a number. With the number that the
    /// next one will have.
    pub(crate) fn from(&self, number: u64) -> (Vec<Event>, u64) {
        let kept = self.lock();
        let number = if number > kept.next { 0 } else { number };
        let events = kept.events.iter().filter(|event| event.number >= number);
        (events.cloned().collect(), kept.next)
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Long names are of no use here, and there may be many.
fn cut(text: &mut String) {
    if text.len() > TEXT_BYTES_MAX {
        let mut end = TEXT_BYTES_MAX - '…'.len_utf8();
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        text.truncate(end);
        text.push('…');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_make_room_and_a_flood_of_one_kind_hides_no_other() {
        let began = Duration::from_secs(5_000);
        let events = Events::new(began);
        events.note_at(began, Kind::NodeDown, "10.0.0.1 is down");
        for at in 0..5_000 {
            let at_ms = Duration::from_millis(at);
            events.note_at(began + at_ms, Kind::SchemaChanged, format!("table {at}"));
        }
        let (kept, next) = events.from(0);
        assert_eq!((kept.len(), next), (1 + OF_A_KIND_MAX, 5_001));
        assert_eq!(kept[0].kind, Kind::NodeDown);
        assert_eq!(&*kept[1].text, "table 4750");
        assert_eq!(kept[250].at, Duration::from_millis(4_999));
        let kinds = [
            Kind::NodeUp,
            Kind::NodeEjected,
            Kind::Paused,
            Kind::Resumed,
            Kind::ProxyUp,
        ];
        for _ in 0..OF_A_KIND_MAX {
            kinds.iter().for_each(|kind| events.note(*kind, "again"));
        }
        assert_eq!(events.from(0).0.len(), EVENTS_MAX);
    }

    #[test]
    fn what_has_come_since_is_asked_for_by_number() {
        let events = Events::new(Duration::ZERO);
        for text in ["a", "b", "c"] {
            events.note(Kind::Started, text);
        }
        let texts = |from| {
            let (events, _) = events.from(from);
            events.iter().map(|event| event.text.to_string()).collect()
        };
        let (none, all): (Vec<String>, Vec<String>) = (texts(3), texts(0));
        assert!(none.is_empty());
        assert_eq!(all, ["a", "b", "c"]);
        assert_eq!(texts(2), ["c"]);
        // Of another run of the proxy.
        assert_eq!(texts(4), all);
    }

    #[test]
    fn texts_are_bounded_and_stay_texts() {
        let events = Events::new(Duration::ZERO);
        events.note(Kind::SchemaChanged, "ü".repeat(1_000));
        let (kept, _) = events.from(0);
        assert!(kept[0].text.len() <= TEXT_BYTES_MAX);
        assert!(kept[0].text.ends_with("ü…"));
    }
}
