//! Asking an endpoint for what it has prepared.

use helenus_capture::Statement;
use helenus_wire::code;

use super::answers::Answered;
use super::statements::{Asked, prepare};
use crate::client::shared::Session;

/// Asks. `statements`: what it is about, as far as that was prepared: all of it is prepared again, once, if the node
/// no longer knows it.
pub(crate) async fn ask_prepared(
    session: &Session,
    asked: &Asked,
    statements: &[&Statement],
) -> Answered {
    let send = || session.ask_kind(asked.opcode, &asked.body);
    let answer = send().await?;
    if answer.code() != Some(code::UNPREPARED) || statements.is_empty() {
        return Ok(answer);
    }
    for statement in statements {
        let again = prepare(session, statement).await;
        again.map_err(|_| "cannot be prepared again")?;
    }
    send().await
}
