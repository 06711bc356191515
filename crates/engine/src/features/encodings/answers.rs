//! Answers about tables with encoded columns ([`crate::features::encodings`]), as their clients are to see them.

use helenus_wire::{
    ErrorBody, Opcode, ResultKind, code, flags, result_kind, strip_prelude, without_result_columns,
};

use crate::features::encodings::answer::shown;
use crate::features::encodings::coding::Coding;
use crate::features::encodings::shown::{OnEncoded, Shown, Unshown};
use crate::keys::ClientRequestKey;
use crate::pipeline::engine::Engine;
use crate::pipeline::engine::lent::Stations;
use crate::pipeline::request::ClientRequest;
use crate::rewrite::renaming::{self, renamed_warnings};
use crate::rewrite::rewritten::ShownAnswer;
use crate::session::node_answer::NodeAnswer;
use crate::stats::add;

/// Bytes of an answer once its values are decoded, at most: a frame of Cassandra's protocol; less if less memory
/// is left for what clients make the proxy hold.
const ANSWER_BYTES_MAX: usize = 256 << 20;

/// A node's answer as its client is to see it; `None`: as it came.
pub(in crate::features) fn on_answered(
    engine: &mut Engine,
    key: ClientRequestKey,
    answer: &NodeAnswer<'_>,
) -> Option<ShownAnswer> {
    let Stations {
        cx,
        features,
        requests,
        ..
    } = engine.stations();
    let request = requests.clients.get(key);
    let of = request.and_then(|request| request.features.rare()?.encodings.encoded.as_deref())?;
    let limit_bytes = cx.memory.left().min(ANSWER_BYTES_MAX);
    match show(&mut features.encodings, of, answer, limit_bytes) {
        Ok(None) => None,
        Ok(Some(body)) => Some(ShownAnswer {
            opcode: answer.opcode,
            header_flags: answer.header_flags,
            body,
        }),
        Err(unshown) => {
            let message = match unshown {
                Unshown::Malformed(e) => {
                    format!("Helenus: a node sent an answer that cannot be read: {e}")
                }
                Unshown::Value(why) => format!(
                    "an encoded value of {}.{} cannot be read: {why}",
                    of.table.keyspace, of.table.name
                ),
            };
            let clients = request.map_or(1, ClientRequest::clients);
            add(&cx.shared.stats.global.requests_failed, clients);
            let error = ErrorBody {
                code: code::SERVER,
                message: &message,
                fields: &[],
            };
            let mut body = Vec::with_capacity(message.len() + 8);
            error.write(&mut body);
            Some(ShownAnswer {
                opcode: Opcode::Error,
                header_flags: 0,
                body,
            })
        }
    }
}

/// The body of an answer as its client is to see it; `None`: as it came.
fn show(
    coding: &mut Coding,
    of: &OnEncoded,
    answer: &NodeAnswer<'_>,
    limit_bytes: usize,
) -> Result<Option<Vec<u8>>, Unshown> {
    let (prelude, content) = strip_prelude(answer.header_flags, answer.body)?;
    let told = match answer.header_flags & flags::WARNING {
        0 => None,
        _ => renamed_warnings(
            answer.header_flags,
            prelude,
            &of.names().collect::<Vec<_>>(),
        )?,
    };
    let is_told_otherwise = told.is_some();
    let prelude = told.as_deref().unwrap_or(prelude);
    let changed = match answer.opcode {
        Opcode::Error => renamed(of, content),
        Opcode::Result => match result_kind(content)? {
            ResultKind::Rows => {
                match shown(coding, &of.table, &of.shown, prelude, content, limit_bytes)? {
                    Some(changed) => return Ok(Some(changed)),
                    None => None,
                }
            }
            ResultKind::Prepared if of.shown == Shown::PassThrough => None,
            ResultKind::Prepared => {
                let is_kept = |name: &str| of.table.hidden_by(name).is_none();
                without_result_columns(content, answer.version, |column| is_kept(column.name))?
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
fn renamed(of: &OnEncoded, content: &[u8]) -> Option<Vec<u8>> {
    let error = ErrorBody::parse(content).ok()?;
    let names: Vec<_> = of.names().collect();
    let message = renaming::renamed(error.message, &names)?;
    let mut out = Vec::with_capacity(content.len());
    let message = &*message;
    ErrorBody { message, ..error }.write(&mut out);
    Some(out)
}
