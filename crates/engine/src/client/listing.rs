//! The clients of a worker, for whoever asks.

use crate::client::clients::Clients;
use crate::client::session::{Phase, Session};
use crate::context::Context;
use crate::keys::SessionKey;
use crate::report::{ClientOrder, ClientRow};

impl Clients {
    /// Those that come first in an order, and how many there are.
    pub(crate) fn list(
        &self,
        cx: &Context,
        by: ClientOrder,
        max: usize,
    ) -> (Vec<ClientRow>, usize) {
        let sessions = self.sessions.iter();
        let mut rows: Vec<ClientRow> = sessions.map(|(key, of)| row(cx, key, of)).collect();
        let all = rows.len();
        rows.sort_by_key(|row| std::cmp::Reverse((by.weight(row), row.key)));
        rows.truncate(max);
        (rows, all)
    }
}

fn row(cx: &Context, key: SessionKey, session: &Session) -> ClientRow {
    let member = session.member.as_ref();
    let since = |then| cx.now.saturating_duration_since(then);
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
        in_flight: session.in_flight,
        requests: session.traffic.requests,
        bytes_in: session.traffic.bytes_in,
        bytes_out: session.traffic.bytes_out,
        age: since(session.accepted),
        idle: since(session.active),
        is_encrypted: false,
        is_held: session.paused,
    }
}
