//! Requests that are handed out to be traced: which ones, and what is said of them.
//!
//! A request is found to be one of them when it ends: because it is slow, because its turn has come
//! (`tracing.sample_ratio`), or because its client says that it follows it (`traceparent` in the custom payload; W3C
//! Trace Context, section 3.2). While nothing is traced, a request pays one comparison for that.
//!
//! Of most requests nothing is kept for it while they are under way: where their time went follows from what
//! their node request has come to. Only what is rare, or long by nature, is noted when it happens (`attempts.rs`).

use std::time::Duration;

use helenus_wire::{Reader, flags};

use crate::config::Tracing;
use crate::features::records::attempts::Attempt;
use crate::features::records::slow::SlowRequest;
use crate::support::sampling::{Sampler, Share};
use crate::support::tick::TICK;

/// Ticks of a second.
const TICKS: u32 = (1_000 / TICK.as_millis()) as u32;

/// The name of the parent in a custom payload.
const PARENT: &str = "traceparent";

/// A request that has ended, and what became of it at nodes.
#[derive(Clone, Debug)]
pub struct RequestTrace {
    pub request: SlowRequest,
    /// When its client asked, since the beginning of 1970.
    pub began: Duration,
    /// The span that it belongs to, by its client's word.
    pub parent: Option<TraceParent>,
    /// Of the table, if it is about one.
    pub keyspace: Option<Box<str>>,
    pub table: Option<Box<str>>,
    pub is_idempotent: bool,
    pub is_slow: bool,
    /// It waited for its turn on a partition before its first attempt.
    pub has_turn: bool,
    /// In the order in which they were sent.
    pub attempts: Vec<Attempt>,
    /// Further ones, which are not described.
    pub attempts_left_out: u32,
}

/// A span that another program has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceParent {
    pub trace_id: [u8; 16],
    pub span_id: [u8; 8],
    /// It is followed there.
    pub is_sampled: bool,
}

impl TraceParent {
    /// As in the header of that name: `00-<trace id>-<span id>-<flags>`. None if it is not one, which counts as
    /// if there was none.
    pub fn parse(text: &[u8]) -> Option<TraceParent> {
        let (known, further) = text.split_at_checked(55)?;
        let (version, rest) = known.split_at(2);
        let version = hex::<1>(version)?[0];
        // Later versions may say more behind it.
        let ends_well = further.is_empty() || (version != 0 && further[0] == b'-');
        if version == 0xff || !ends_well {
            return None;
        }
        let dashes = [rest[0], rest[33], rest[50]];
        let trace_id: [u8; 16] = hex(&rest[1..33])?;
        let span_id: [u8; 8] = hex(&rest[34..50])?;
        let [sampled] = hex(&rest[51..53])?;
        let is_whole = dashes == *b"---" && trace_id != [0; 16] && span_id != [0; 8];
        is_whole.then_some(TraceParent {
            trace_id,
            span_id,
            is_sampled: sampled & 1 == 1,
        })
    }

    /// Of a body that begins with a custom payload.
    fn of_payload(body: &[u8]) -> Option<TraceParent> {
        let mut reader = Reader::new(body);
        for _ in 0..reader.u16().ok()? {
            let name = reader.string().ok()?;
            let value = reader.bytes().ok()?;
            if name == PARENT {
                return TraceParent::parse(value?);
            }
        }
        None
    }
}

/// Bytes of lower-case digits.
fn hex<const N: usize>(digits: &[u8]) -> Option<[u8; N]> {
    let digit = |of: u8| match of {
        b'0'..=b'9' => Some(of - b'0'),
        b'a'..=b'f' => Some(of - b'a' + 10),
        _ => None,
    };
    let mut bytes = [0; N];
    if digits.len() != 2 * N {
        return None;
    }
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(bytes)
}

/// Why a request may be traced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Looked {
    No,
    /// It is its turn.
    Turn,
    /// Its client may follow it.
    Payload,
}

/// Which requests of one worker are traced.
#[derive(Debug, Default)]
pub(crate) struct Traces {
    is_on: bool,
    slow: bool,
    /// Of a request's header, if they mean that it is looked at.
    payload: u8,
    share: Share,
    sampler: Sampler,
    /// That may still be handed out in this tick, and in each.
    left: u32,
    left_max: u32,
    /// Of a second's number, what its ticks do not share evenly; and what of that is due.
    rest: u32,
    rest_due: u32,
}

impl Traces {
    pub(super) fn adopt(&mut self, settings: &Tracing) {
        self.is_on = settings.endpoint.is_some();
        self.slow = settings.slow;
        self.payload = match settings.follow_clients {
            true => flags::CUSTOM_PAYLOAD,
            false => 0,
        };
        self.share = Share::of(settings.sample_ratio);
        self.left_max = settings.requests_per_second_max / TICKS;
        self.rest = settings.requests_per_second_max % TICKS;
        self.left = self.left_max;
    }

    pub(super) fn on_tick(&mut self) {
        self.rest_due += self.rest;
        self.left = self.left_max + self.rest_due / TICKS;
        self.rest_due %= TICKS;
    }

    /// True if anything is traced.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.is_on
    }

    /// Looks at a request that ends, by the flags of its header.
    #[inline]
    pub(crate) fn look(&mut self, header_flags: u8) -> Looked {
        match self.is_on {
            false => Looked::No,
            true => self.look_closely(header_flags),
        }
    }

    fn look_closely(&mut self, header_flags: u8) -> Looked {
        // Also of what its client follows: turns are a share of all.
        if self.sampler.takes(self.share) {
            Looked::Turn
        } else if header_flags & self.payload != 0 {
            Looked::Payload
        } else {
            Looked::No
        }
    }

    /// The span by which a traced request is followed; `Ok(None)` if its client does not say. `body`: with its custom
    /// payload. `Err`: it is not traced; true if there are too many.
    pub(crate) fn wants(
        &mut self,
        looked: Looked,
        is_slow: bool,
        header_flags: u8,
        body: &[u8],
    ) -> Result<Option<TraceParent>, bool> {
        if !self.is_on {
            return Err(false);
        }
        let parent = match header_flags & self.payload {
            0 => None,
            _ => TraceParent::of_payload(body),
        };
        // A request that its client's trace leaves out is traced only if it is slow.
        let is_sampled = match &parent {
            Some(parent) => parent.is_sampled,
            None => looked == Looked::Turn,
        };
        let is_wanted = is_sampled || (is_slow && self.slow);
        if !is_wanted {
            return Err(false);
        }
        // Clients that have everything followed leave some to others.
        let kept = match parent.is_some() && !is_slow {
            true => self.left_max / 4,
            false => 0,
        };
        if self.left <= kept {
            return Err(true);
        }
        self.left -= 1;
        Ok(parent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use helenus_wire::write;

    const TEXT: &[u8] = b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn a_parent_is_read_and_what_is_none_is_none() {
        let parent = TraceParent::parse(TEXT).expect("a parent");
        assert_eq!(parent.trace_id[..4], [0x4b, 0xf9, 0x2f, 0x35]);
        assert_eq!(parent.trace_id[15], 0x36);
        assert_eq!(
            parent.span_id,
            [0x00, 0xf0, 0x67, 0xaa, 0x0b, 0xa9, 0x02, 0xb7]
        );
        assert!(parent.is_sampled);
        let with = |at: usize, of: &[u8]| {
            let mut text = TEXT.to_vec();
            text[at..at + of.len()].copy_from_slice(of);
            text
        };
        let unsampled = TraceParent::parse(&with(53, b"02")).expect("a parent");
        assert!(!unsampled.is_sampled);
        let later = [&with(0, b"01")[..], b"-more"].concat();
        assert_eq!(TraceParent::parse(&later), Some(parent));
        let wrong = [
            b"".to_vec(),
            TEXT[..54].to_vec(),
            [TEXT, b"-more"].concat(),
            [&with(0, b"01")[..], b"x"].concat(),
            with(0, b"ff"),
            with(2, b"_"),
            with(35, b"_"),
            with(52, b"_"),
            with(3, b"4BF92F35"),
            with(3, &[b'0'; 32]),
            with(36, &[b'0'; 16]),
            vec![0xff; 55],
            vec![b'0'; 55],
        ];
        for text in wrong {
            let shown = String::from_utf8_lossy(&text);
            assert_eq!(TraceParent::parse(&text), None, "{shown}");
        }
        for len in 0..TEXT.len() {
            assert_eq!(TraceParent::parse(&TEXT[..len]), None);
        }
    }

    fn payload(entries: &[(&str, Option<&[u8]>)]) -> Vec<u8> {
        let mut body = Vec::new();
        write::u16(&mut body, entries.len() as u16);
        for (name, value) in entries {
            write::string(&mut body, name);
            write::bytes(&mut body, *value);
        }
        body
    }

    #[test]
    fn the_parent_is_found_among_other_entries_of_a_payload() {
        let of = |entries: &[(&str, Option<&[u8]>)]| TraceParent::of_payload(&payload(entries));
        let parent = TraceParent::parse(TEXT);
        assert!(parent.is_some());
        assert_eq!(
            of(&[("a", None), ("traceparent", Some(TEXT)), ("b", None)]),
            parent
        );
        assert_eq!(of(&[("a", Some(TEXT))]), None);
        assert_eq!(of(&[("traceparent", None)]), None);
        assert_eq!(of(&[]), None);
        let whole = payload(&[("traceparent", Some(TEXT))]);
        for len in 0..whole.len() {
            assert_eq!(TraceParent::of_payload(&whole[..len]), None);
        }
    }

    fn traces(settings: &Tracing) -> Traces {
        let mut traces = Traces::default();
        traces.adopt(settings);
        traces
    }

    fn settings() -> Tracing {
        Tracing {
            endpoint: Some("http://127.0.0.1:4318".to_owned()),
            ..Tracing::default()
        }
    }

    #[test]
    fn what_a_client_follows_is_traced_and_what_it_does_not_follow_only_if_slow() {
        let mut traces = traces(&Tracing {
            sample_ratio: 1.0,
            ..settings()
        });
        let flags = flags::CUSTOM_PAYLOAD;
        let followed = payload(&[("traceparent", Some(TEXT))]);
        let unfollowed = TEXT
            .iter()
            .take(54)
            .chain(b"0")
            .copied()
            .collect::<Vec<_>>();
        let unfollowed = payload(&[("traceparent", Some(&unfollowed))]);
        assert_eq!(traces.look(0), Looked::Turn);
        let parent = TraceParent::parse(TEXT);
        let wants = traces.wants(Looked::Payload, false, flags, &followed);
        assert_eq!(wants, Ok(parent));
        let wants = traces.wants(Looked::Turn, false, flags, &unfollowed);
        assert_eq!(wants, Err(false));
        let wants = traces.wants(Looked::Turn, true, flags, &unfollowed);
        assert!(wants.is_ok_and(|parent| parent.is_some_and(|parent| !parent.is_sampled)));
        assert_eq!(traces.wants(Looked::Turn, false, 0, &[]), Ok(None));
        assert_eq!(traces.wants(Looked::No, true, 0, &[]), Ok(None));
        assert_eq!(traces.wants(Looked::No, false, 0, &[]), Err(false));
        // Without that, a payload says nothing.
        traces.adopt(&Tracing {
            follow_clients: false,
            slow: false,
            sample_ratio: 0.0,
            ..settings()
        });
        assert_eq!(traces.look(flags), Looked::No);
        assert_eq!(traces.wants(Looked::No, true, flags, &followed), Err(false));
    }

    #[test]
    fn a_second_has_as_many_as_the_setting_says() {
        let mut traces = traces(&Tracing {
            requests_per_second_max: 57,
            ..settings()
        });
        let mut handed_out = 0;
        for _ in 0..TICKS {
            traces.on_tick();
            let wants = (0..100).map(|_| traces.wants(Looked::Turn, false, 0, &[]));
            handed_out += wants.filter(|of| *of == Ok(None)).count();
        }
        assert_eq!(handed_out, 57);
    }

    #[test]
    fn there_are_only_so_many_in_a_second_and_none_while_it_is_off() {
        let mut traces = traces(&Tracing {
            requests_per_second_max: 50,
            ..settings()
        });
        for _ in 0..3 {
            let wants = (0..100).map(|_| traces.wants(Looked::Turn, false, 0, &[]));
            let wants: Vec<_> = wants.collect();
            assert_eq!(wants.iter().filter(|of| **of == Ok(None)).count(), 5);
            assert_eq!(wants.iter().filter(|of| **of == Err(true)).count(), 95);
            traces.on_tick();
        }
        // Those that clients follow leave a quarter to the others.
        let followed = payload(&[("traceparent", Some(TEXT))]);
        let flags = flags::CUSTOM_PAYLOAD;
        let mut wants = |flags, body: &[u8]| traces.wants(Looked::Turn, false, flags, body).is_ok();
        assert_eq!((0..9).filter(|_| wants(flags, &followed)).count(), 4);
        assert!(wants(0, &[]) && !wants(0, &[]));
        traces.adopt(&Tracing::default());
        assert!(!traces.is_on());
        assert_eq!(traces.look(flags::CUSTOM_PAYLOAD), Looked::No);
        assert_eq!(traces.wants(Looked::Turn, true, 0, &[]), Err(false));
    }
}
