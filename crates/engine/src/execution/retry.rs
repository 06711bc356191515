//! What becomes of a part that has failed.
//!
//! Parts are reads, so they may be sent again: to another owner, and those of an aggregate that have timed
//! out in halves, together with the unsent ones of their size. Parts that have come are kept. If a part
//! still fails, an aggregate fails with its error, as the whole would have; a page is read piece by piece.
//!
//! A part that a node finds invalid may be the fault of the request (a null among its values) or of the
//! parts (a guardrail on token ranges). So the request is sent as it is. Only if the nodes answer that
//! are its parts to blame, and the statement is not read in parts for a while.

use helenus_wire::code;

use crate::execution::in_range::table_of;
use crate::execution::outcome::Failure;
use crate::execution::ring_parts::RETRIES_MAX;
use crate::execution::surroundings::Surroundings;

/// What to do about a failed part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Remedy {
    /// Send it to another node.
    Again,
    /// Send its halves.
    Halves,
    /// Send the client's own request, which shows what is to blame.
    AsItIs,
    Nothing,
}

/// `halves`: whether what times out can be halved.
pub(crate) fn remedy(code: i32, retries: u8, halves: bool) -> Remedy {
    match code {
        code::READ_TIMEOUT if halves => Remedy::Halves,
        code::READ_TIMEOUT
        | code::READ_FAILURE
        | code::UNAVAILABLE
        | code::SERVER
        | code::TRUNCATE
        | code::IS_BOOTSTRAPPING
            if retries < RETRIES_MAX =>
        {
            Remedy::Again
        }
        code::INVALID | code::SYNTAX | code::UNPREPARED | code::UNAUTHORIZED | code::CONFIG => {
            Remedy::AsItIs
        }
        // OVERLOADED is never retried.
        _ => Remedy::Nothing,
    }
}

/// A node has refused a part.
pub(crate) fn note_refused(around: &Surroundings<'_>, failure: &Failure<'_>) {
    if failure.is_unprepared()
        && let Some(statement) = around.statement()
    {
        statement.forget_range();
    }
    let (keyspace, table) = table_of(around.query).unwrap_or_default();
    tracing::debug!(
        keyspace,
        table,
        "a node refuses a part of a scan: {}",
        failure.error.message
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    const HALVES: bool = true;

    #[test]
    fn what_times_out_is_halved_while_it_can_be() {
        assert_eq!(remedy(code::READ_TIMEOUT, 0, HALVES), Remedy::Halves);
        assert_eq!(remedy(code::READ_TIMEOUT, 9, HALVES), Remedy::Halves);
        assert_eq!(remedy(code::READ_TIMEOUT, 0, !HALVES), Remedy::Again);
    }

    #[test]
    fn what_fails_is_sent_again_a_few_times() {
        for code in [
            code::READ_TIMEOUT,
            code::READ_FAILURE,
            code::UNAVAILABLE,
            code::SERVER,
        ] {
            assert_eq!(remedy(code, RETRIES_MAX - 1, !HALVES), Remedy::Again);
            assert_eq!(remedy(code, RETRIES_MAX, !HALVES), Remedy::Nothing);
        }
    }

    #[test]
    fn what_is_overloaded_is_left_alone_and_what_is_invalid_is_sent_as_it_is() {
        assert_eq!(remedy(code::OVERLOADED, 0, HALVES), Remedy::Nothing);
        for code in [code::INVALID, code::SYNTAX, code::UNAUTHORIZED] {
            assert_eq!(remedy(code, 0, HALVES), Remedy::AsItIs);
        }
    }
}
