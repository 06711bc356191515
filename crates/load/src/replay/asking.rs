//! Asking an endpoint for what it has prepared.

use helenus_capture::Statement;
use helenus_wire::code;

use super::answers::Answered;
use super::statements::{Asked, prepare};
use crate::client::shared::Session;

/// Asks. `statement`: what it is about, if that was prepared: it is prepared again, once, if the node no longer
/// knows it.
pub(crate) async fn ask_prepared(
    session: &Session,
    asked: &Asked,
    statement: Option<&Statement>,
) -> Answered {
    let send = || {
        let write_body = |body: &mut Vec<u8>| body.extend_from_slice(&asked.body);
        session.ask_kind(asked.opcode, write_body)
    };
    let answer = send().await?;
    let is_forgotten = answer.code() == Some(code::UNPREPARED);
    let Some(statement) = statement.filter(|_| is_forgotten) else {
        return Ok(answer);
    };
    let again = prepare(session, statement).await;
    again.map_err(|_| "cannot be prepared again")?;
    send().await
}
