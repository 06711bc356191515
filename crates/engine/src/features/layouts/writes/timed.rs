//! Writes that derived layouts follow have a time that both share.

use helenus_wire::{BatchView, ExecuteView, Opcode, QueryView, Version};

use crate::pipeline::arrival::Arrival;
use crate::pipeline::engine::Engine;

/// A request with a time, if it may be about derived layouts and has none.
pub(super) struct Timed {
    payload: usize,
    body: Option<Vec<u8>>,
}

impl Timed {
    pub(super) fn of(engine: &Engine, arrival: &Arrival<'_>, is_wanted: bool) -> Timed {
        let payload = arrival.payload().len();
        let nothing = Timed {
            payload,
            body: None,
        };
        if !is_wanted {
            return nothing;
        }
        let (content, version) = (arrival.content, arrival.version);
        let options = match arrival.opcode {
            Opcode::Query => QueryView::parse(content, version).map(|view| view.options),
            Opcode::Execute => ExecuteView::parse(content, version).map(|view| view.options),
            _ => BatchView::parse(content, version).map(|view| view.options),
        };
        let Ok(options) = options else {
            return nothing;
        };
        let has_now = options.now_in_seconds.is_some() || version < Version::V5;
        if options.timestamp.is_some() && has_now {
            return nothing;
        }
        let since_1970 = engine.cx().since_1970();
        let timestamp = match options.timestamp {
            Some(own) => own,
            None => engine
                .cx()
                .shared
                .features
                .layouts
                .clock
                .timestamp(since_1970),
        };
        let now = i32::try_from(since_1970.as_secs()).unwrap_or(i32::MAX);
        let mut body = Vec::with_capacity(arrival.body.len() + 12);
        body.extend_from_slice(arrival.payload());
        body.extend_from_slice(content.get(..options.begins_at()).unwrap_or_default());
        options.write_timed(content, version, timestamp, now, &mut body);
        Timed {
            payload,
            body: Some(body),
        }
    }

    pub(super) fn arrival<'a>(&'a self, arrival: &Arrival<'a>) -> Arrival<'a> {
        match &self.body {
            Some(body) => Arrival {
                body,
                content: body.get(self.payload..).unwrap_or_default(),
                ..*arrival
            },
            None => *arrival,
        }
    }
}
