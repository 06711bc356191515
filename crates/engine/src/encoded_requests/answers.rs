//! Answers about encoded columns, as clients are to see them.

use helenus_wire::{
    ErrorBody, Opcode, ResultKind, code, result_kind, strip_prelude, without_result_columns,
};

use super::stored::OnEncoded;
use crate::encodings::EncodedTable;
use crate::encodings::answer::{Shown, Unshown, shown};
use crate::encodings::coding::Coding;
use crate::engine::Engine;
use crate::execution::rewriting::renamed_warnings;
use crate::keys::ClientRequestKey;
use crate::memory::Body;
use crate::reply::Reply;
use crate::stats::add;

/// What an answer may have once its values are decoded, as a frame of Cassandra's protocol; less if less memory
/// is left for what clients make the proxy hold.
const ANSWER_BYTES_MAX: usize = 256 << 20;

impl Engine {
    /// A node's answer as its client is to see it.
    pub(crate) fn as_shown<'a>(&mut self, key: ClientRequestKey, reply: Reply<'a>) -> Reply<'a> {
        let request = self.requests.clients.get(key);
        let Some(of) = request.and_then(|request| request.encoded.as_deref()) else {
            return reply;
        };
        let limit_bytes = self.cx.memory.left().min(ANSWER_BYTES_MAX);
        match show(&mut self.coding, of, &reply, limit_bytes) {
            Ok(None) => reply,
            Ok(Some(body)) => Reply {
                body: Body::Joined(body.into()),
                ..reply
            },
            Err(unshown) => {
                let message = match unshown {
                    Unshown::Malformed(e) => format!("a node sent a malformed answer: {e}"),
                    Unshown::Value(why) => format!(
                        "an encoded value of {}.{} cannot be read: {why}",
                        of.table.keyspace, of.table.name
                    ),
                };
                add(&self.cx.shared.stats.global.requests_failed, 1);
                let error = ErrorBody {
                    code: code::SERVER,
                    message: &message,
                    fields: &[],
                };
                let mut body = Vec::with_capacity(message.len() + 8);
                error.write(&mut body);
                Reply {
                    opcode: Opcode::Error,
                    header_flags: 0,
                    body: Body::Joined(body.into()),
                    version: reply.version,
                }
            }
        }
    }
}

/// The body of an answer as its client is to see it; `None`: as it came.
fn show(
    coding: &mut Coding,
    of: &OnEncoded,
    reply: &Reply<'_>,
    limit_bytes: usize,
) -> Result<Option<Vec<u8>>, Unshown> {
    let (prelude, content) = strip_prelude(reply.header_flags, &reply.body)?;
    let hidden = of.table.columns.iter();
    let names: Vec<_> = hidden.map(|of| (&*of.hidden, &*of.name)).collect();
    let told = renamed_warnings(reply.header_flags, prelude, &names)?;
    let is_told_otherwise = told.is_some();
    let prelude = told.as_deref().unwrap_or(prelude);
    let changed = match reply.opcode {
        Opcode::Error => renamed(&of.table, content),
        Opcode::Result => match result_kind(content)? {
            ResultKind::Rows => {
                let parts = (prelude, content);
                match shown(coding, &of.table, &of.shown, parts, limit_bytes)? {
                    Some(changed) => return Ok(Some(changed)),
                    None => None,
                }
            }
            ResultKind::Prepared if of.shown == Shown::AsItCame => None,
            ResultKind::Prepared => {
                let is_kept = |name: &str| of.table.hidden_by(name).is_none();
                without_result_columns(content, reply.version, |column| is_kept(column.name))?
            }
            _ => None,
        },
        _ => None,
    };
    Ok(match changed {
        Some(changed) => Some([prelude, &changed].concat()),
        None if is_told_otherwise => Some([prelude, content].concat()),
        None => None,
    })
}

/// An error with the names that clients know; `None` if it names no other.
fn renamed(table: &EncodedTable, content: &[u8]) -> Option<Vec<u8>> {
    let error = ErrorBody::parse(content).ok()?;
    let names = |message: &str| table.columns.iter().any(|of| message.contains(&of.hidden));
    if !names(error.message) {
        return None;
    }
    let rename =
        |text: String, of: &crate::encodings::EncodedColumn| text.replace(&of.hidden, &of.name);
    let message = table.columns.iter().fold(error.message.to_owned(), rename);
    let mut out = Vec::with_capacity(content.len());
    let message = &*message;
    ErrorBody { message, ..error }.write(&mut out);
    Some(out)
}
