//! The latest errors that clients were answered with. How many there were is counted elsewhere
//! ([`crate::stats::ErrorCounts`]).

use std::collections::BTreeMap;
use std::time::Duration;

use helenus_policy::ring::NodeIndex;
use helenus_wire::{Consistency, ErrorBody, Reader, code};

use crate::features::records::described::Described;
use crate::features::records::ring::Ring;

/// Bytes of recent errors.
const ERRORS_BYTES_MAX: usize = 128 * 1024;
/// Errors that are described of a tick at most.
const NOTED_MAX: u32 = 16;
/// Bytes of a message that are kept.
const MESSAGE_BYTES_MAX: usize = 300;
/// Stands for characters that would control a terminal.
const REPLACED: char = char::REPLACEMENT_CHARACTER;

/// An error that a client was answered with.
#[derive(Clone, Debug)]
pub struct ErrorRecord {
    /// Since the beginning of 1970.
    pub at: Duration,
    pub asked: Described,
    pub code: i32,
    /// None if it may quote values.
    pub message: Option<Box<str>>,
    /// The node that took longest, if any was asked.
    pub node: Option<NodeIndex>,
}

impl ErrorRecord {
    fn byte_len(&self) -> usize {
        let message = self.message.as_ref().map_or(0, |message| message.len());
        size_of::<ErrorRecord>() + message + self.asked.byte_len()
    }
}

/// The latest errors of a worker.
#[derive(Debug)]
pub(crate) struct Errors {
    recent: Ring<ErrorRecord>,
    /// The latest of each code that the protocol knows.
    last: BTreeMap<i32, ErrorRecord>,
    noted: u32,
}

impl Default for Errors {
    fn default() -> Errors {
        Errors {
            recent: Ring::new(ERRORS_BYTES_MAX),
            last: BTreeMap::new(),
            noted: 0,
        }
    }
}

impl Errors {
    /// True if an error is described.
    pub(crate) fn takes(&mut self, code: i32) -> bool {
        // A code that was not there before is news, whatever else happens.
        let is_taken = self.noted < NOTED_MAX || !self.last.contains_key(&known(code));
        self.noted += 1;
        is_taken
    }

    pub(crate) fn note(&mut self, error: ErrorRecord) {
        let bytes = error.byte_len();
        self.last.insert(known(error.code), error.clone());
        self.recent.push(error, bytes);
    }

    pub(super) fn on_tick(&mut self) {
        self.noted = 0;
    }

    /// The latest first.
    pub(crate) fn recent(&self, max: usize) -> Vec<ErrorRecord> {
        self.recent.iter().rev().take(max).cloned().collect()
    }

    /// The latest of each code.
    pub(crate) fn last(&self) -> Vec<ErrorRecord> {
        self.last.values().cloned().collect()
    }
}

/// Codes that the protocol does not know are one.
fn known(error: i32) -> i32 {
    match code::ALL.contains(&error) {
        true => error,
        false => -1,
    }
}

/// An error's message as it may be shown. Nodes quote values in messages about statements that they do not
/// understand, and whole queries in those about what they have given up; so of theirs only the numbers are shown, and
/// those that say who may not do what. The proxy's own messages hold no values. `may_quote`: values may be shown.
pub(crate) fn shown_message(error: &ErrorBody<'_>, may_quote: bool) -> Option<Box<str>> {
    if may_quote || error.message.starts_with("Helenus:") {
        return Some(cut(error.message));
    }
    let is_permission = error.message.starts_with("User ")
        && error.message.contains(" has no ")
        && error.message.contains(" permission on ");
    match error.code {
        code::UNAUTHORIZED if is_permission => Some(cut(error.message)),
        _ => numbers_of(error).map(|text| cut(&text)),
    }
}

/// The fields of an error, in words.
fn numbers_of(error: &ErrorBody<'_>) -> Option<String> {
    let mut reader = Reader::new(error.fields);
    let what = match error.code {
        code::UNAVAILABLE => "replicas needed, alive",
        code::WRITE_TIMEOUT
        | code::READ_TIMEOUT
        | code::READ_FAILURE
        | code::WRITE_FAILURE
        | code::CAS_WRITE_UNKNOWN => "responses received, needed",
        _ => return None,
    };
    let level = Consistency(reader.u16().ok()?);
    let numbers = (reader.i32().ok()?, reader.i32().ok()?);
    Some(format!(
        "at {}: {what}: {}, {}",
        level.name(),
        numbers.0,
        numbers.1
    ))
}

/// Shortened, and without what would control a terminal.
fn cut(message: &str) -> Box<str> {
    let mut end = message.len().min(MESSAGE_BYTES_MAX);
    while !message.is_char_boundary(end) {
        end -= 1;
    }
    let shown = message[..end].chars();
    let shown = shown.map(|c| if c.is_control() { REPLACED } else { c });
    let mut shown: String = shown.collect();
    // The replacements of control characters take more bytes than they do.
    while shown.len() > MESSAGE_BYTES_MAX {
        shown.pop();
    }
    shown.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use helenus_wire::Opcode;

    fn error(code: i32, at: u64) -> ErrorRecord {
        ErrorRecord {
            at: Duration::from_secs(at),
            asked: Described {
                statement: Some("SELECT v FROM t".into()),
                keyspace: None,
                role: None,
                client: None,
                opcode: Opcode::Query,
            },
            code,
            message: Some("x".repeat(100).into()),
            node: None,
        }
    }

    #[test]
    fn the_latest_of_each_code_stays_whatever_follows() {
        let mut errors = Errors::default();
        errors.note(error(code::SYNTAX, 1));
        for at in 2..10_000 {
            errors.note(error(code::OVERLOADED, at));
        }
        let recent = errors.recent(usize::MAX);
        assert!(recent.len() * size_of::<ErrorRecord>() < ERRORS_BYTES_MAX);
        assert_eq!(recent[0].at.as_secs(), 9_999);
        let last = errors.last();
        let codes: Vec<_> = last.iter().map(|of| (of.code, of.at.as_secs())).collect();
        assert_eq!(codes, [(code::OVERLOADED, 9_999), (code::SYNTAX, 1)]);
    }

    #[test]
    fn a_flood_is_not_described_one_by_one_but_what_is_new_is() {
        let mut errors = Errors::default();
        errors.note(error(code::OVERLOADED, 0));
        let taken = (0..1_000)
            .filter(|_| errors.takes(code::OVERLOADED))
            .count();
        assert_eq!(taken as u32, NOTED_MAX);
        assert!(errors.takes(code::SYNTAX));
        errors.note(error(code::SYNTAX, 0));
        assert!(!errors.takes(code::SYNTAX));
        errors.on_tick();
        assert!(errors.takes(code::SYNTAX));
        // Codes that nobody knows cannot fill the memory.
        for unknown in 0x9000..0x9100 {
            errors.note(error(unknown, 0));
        }
        assert_eq!(errors.last().len(), 3);
    }

    fn shown(code: i32, message: &str, fields: &[u8], may_quote: bool) -> Option<Box<str>> {
        let error = ErrorBody {
            code,
            message,
            fields,
        };
        shown_message(&error, may_quote)
    }

    #[test]
    fn messages_that_may_quote_values_are_not_shown_unless_that_is_allowed() {
        let quoted = "Invalid STRING constant (secret) for \"v\" of type int";
        let aborted = "5 nodes scanned over 100 tombstones and aborted the query SELECT * FROM a.b \
                       WHERE k = 'secret' LIMIT 10";
        for code in code::ALL {
            for message in [quoted, aborted, "User secret"] {
                for fields in [&[][..], &[0, 6, 0, 0, 0, 1, 0, 0, 0, 2, 0]] {
                    let text = shown(code, message, fields, false);
                    assert!(
                        !text.is_some_and(|text| text.contains("secret")),
                        "{code:x}"
                    );
                }
                assert_eq!(shown(code, message, &[], true).as_deref(), Some(message));
            }
        }
        let fields = [0, 6, 0, 0, 0, 1, 0, 0, 0, 2, 0];
        let text = shown(code::READ_FAILURE, aborted, &fields, false).expect("shown");
        assert_eq!(&*text, "at LOCAL_QUORUM: responses received, needed: 1, 2");
        let own = "Helenus: rule \"x\" allows 1 such requests at a time";
        assert!(shown(code::OVERLOADED, own, &[], false).is_some());
        let denied = "User app has no SELECT permission on <table a.b> or any of its parents";
        assert_eq!(
            shown(code::UNAUTHORIZED, denied, &[], false).as_deref(),
            Some(denied)
        );
    }

    #[test]
    fn messages_are_cut_and_control_no_terminal() {
        let long = "ü".repeat(1_000);
        let cut = shown(code::READ_TIMEOUT, &long, &[], true).expect("shown");
        assert!(cut.len() <= MESSAGE_BYTES_MAX && cut.starts_with('ü'));
        let control = "\u{1b}[2J".repeat(100);
        let cut = shown(code::INVALID, &control, &[], true).expect("shown");
        assert!(cut.len() <= MESSAGE_BYTES_MAX && !cut.contains('\u{1b}'));
    }
}
