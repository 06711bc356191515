//! The clients of a worker, for whoever asks.

use std::cmp::Reverse;

use crate::context::Context;
use crate::keys::SessionKey;
use crate::session::clients::Clients;
use crate::session::connection::{Phase, Session};
use crate::worker_status::{ClientNumbers, ClientOrder, ClientRow};

impl Clients {
    /// Those that come first in an order, and how many there are.
    pub(crate) fn list(
        &self,
        cx: &Context,
        by: ClientOrder,
        max: usize,
    ) -> (Vec<ClientRow>, usize) {
        // Rows have texts: they are made of those only that are shown.
        let sessions = self.sessions.iter();
        let mut first: Vec<_> = sessions
            .map(|(key, of)| Reverse((by.weight(&numbers(cx, of)), key)))
            .collect();
        let all = first.len();
        if max < all {
            first.select_nth_unstable(max);
            first.truncate(max);
        }
        first.sort_unstable();
        let keys = first.iter().map(|Reverse((_, key))| *key);
        let rows = keys.filter_map(|key| Some(row(cx, key, self.sessions.get(key)?)));
        (rows.collect(), all)
    }
}

fn numbers(cx: &Context, session: &Session) -> ClientNumbers {
    let since = |then| cx.now.saturating_duration_since(then);
    ClientNumbers {
        in_flight: session.in_flight,
        requests: session.traffic.requests,
        bytes_in: session.traffic.bytes_in,
        bytes_out: session.traffic.bytes_out,
        age: since(session.accepted),
        idle: since(session.active),
    }
}

fn row(cx: &Context, key: SessionKey, session: &Session) -> ClientRow {
    let member = session.member.as_ref();
    ClientRow {
        worker: cx.index,
        key,
        address: session.peer,
        role: member.and_then(|member| member.identity().role().cloned()),
        kind: session.names.kind.clone(),
        client_id: session.names.id.clone(),
        version: (!matches!(session.phase, Phase::Fresh)).then_some(session.version),
        compression: session.compression,
        keyspace: session.keyspace.as_deref().map(Into::into),
        is_ready: session.is_ready(),
        numbers: numbers(cx, session),
        is_encrypted: false,
        is_held: session.paused,
    }
}
