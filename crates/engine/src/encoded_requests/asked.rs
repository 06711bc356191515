//! What a request asks, and how its body says so.

use helenus_wire::{ExecuteView, Opcode, Options, QueryView, Version, query_flags};

use crate::arrival::Arrival;
use crate::statement::analysis::Analysis;

/// What a request asks.
pub(super) struct Asked<'a> {
    pub(super) options: Options<'a>,
    /// Names of the markers of what is prepared.
    pub(super) names: Option<&'a [Box<str>]>,
}

impl<'a> Asked<'a> {
    pub(super) fn of(arrival: &Arrival<'a>, analysis: &'a Analysis<'_>) -> Option<Asked<'a>> {
        let (content, version) = (arrival.content, arrival.version);
        match arrival.opcode {
            Opcode::Query => Some(Asked {
                options: QueryView::parse(content, version).ok()?.options,
                names: None,
            }),
            Opcode::Execute => Some(Asked {
                options: ExecuteView::parse(content, version).ok()?.options,
                names: Some(&analysis.prepared.as_deref()?.names),
            }),
            _ => None,
        }
    }
}

/// A request as it came, but that the columns of its result are asked for; `None` if they are.
pub(super) fn with_columns(arrival: &Arrival<'_>) -> Option<(Opcode, Vec<u8>)> {
    let (content, version) = (arrival.content, arrival.version);
    let options = match arrival.opcode {
        Opcode::Query => QueryView::parse(content, version).ok()?.options,
        Opcode::Execute => ExecuteView::parse(content, version).ok()?.options,
        _ => return None,
    };
    if options.flags & query_flags::SKIP_METADATA == 0 {
        return None;
    }
    let mut body = arrival.body.to_vec();
    let begin = arrival.payload().len() + options.begins_at();
    ask_for_columns(&mut body, begin, version);
    Some((arrival.opcode, body))
}

/// Takes back that the columns are left out. `begin`: where the options begin.
pub(super) fn ask_for_columns(body: &mut [u8], begin: usize, version: Version) {
    // Behind the consistency level are one byte of flags until v4, four in v5.
    let last_of_flags = match version {
        Version::V5 => begin + 5,
        _ => begin + 2,
    };
    if let Some(flags) = body.get_mut(last_of_flags) {
        *flags &= !(query_flags::SKIP_METADATA as u8);
    }
}
