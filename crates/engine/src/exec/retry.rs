//! Retries of parts that have failed.
//!
//! Parts are reads, so they may be sent again: to another owner, and those of an aggregate that have timed
//! out in halves, together with the unsent ones of their size. Parts that have come are kept. If a part
//! still fails, an aggregate fails with its error, as the whole would have; a page is read piece by piece. A part
//! that has failed for what its rows are, too many tombstones for instance, fails on every replica and is not
//! sent again.
//!
//! A part that a node finds invalid may be the fault of the request (a null among its values) or of the
//! parts (a guardrail on token ranges). So the request is sent as it is. Only if the nodes answer that
//! are its parts to blame, and the statement is not read in parts for a while.

use helenus_wire::{Malformed, Reader, Version, code};

use crate::exec::context::ExecContext;
use crate::exec::outcome::{FailedBy, Failure};
use crate::exec::scan::in_range::table_of;
use crate::exec::scan::ring_parts::RETRIES_MAX;

/// Why replicas fail, as v5 numbers it.
const TOO_MANY_TOMBSTONES: u16 = 1;
const READ_SIZE: u16 = 4;
const TOO_MANY_INDEXES: u16 = 7;

/// A remedy for a failed part.
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
pub(crate) fn remedy(failure: &Failure<'_>, retries: u8, halves: bool) -> Remedy {
    if fails_everywhere(failure).unwrap_or(false) {
        return Remedy::Nothing;
    }
    match failure.error.code {
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
        // OVERLOADED among them: who has too much to do is not asked again.
        _ => Remedy::Nothing,
    }
}

/// True if replicas have failed because of the rows themselves: others have the same.
fn fails_everywhere(failure: &Failure<'_>) -> Result<bool, Malformed> {
    let error = &failure.error;
    if error.code != code::READ_FAILURE || failure.by != FailedBy::Node(Version::V5) {
        return Ok(false);
    }
    let mut reader = Reader::new(error.fields);
    // The level, and the numbers of responses received and needed.
    reader.take(2 + 4 + 4)?;
    for _ in 0..reader.i32()?.max(0) {
        reader.inet_addr()?;
        if matches!(
            reader.u16()?,
            TOO_MANY_TOMBSTONES | READ_SIZE | TOO_MANY_INDEXES
        ) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// A node has refused a part.
pub(crate) fn note_refused(cx: &ExecContext<'_>, failure: &Failure<'_>) {
    if failure.is_unprepared()
        && let Some(statement) = cx.statement()
    {
        statement.forget_range();
    }
    let (keyspace, table) = table_of(cx.query).unwrap_or_default();
    tracing::debug!(
        keyspace,
        table,
        "a node refuses a part of a scan: {}",
        failure.error.message
    );
}

#[cfg(test)]
mod tests {
    use helenus_wire::{ErrorBody, write};

    use super::*;

    const HALVES: bool = true;

    fn remedy(code: i32, retries: u8, halves: bool) -> Remedy {
        remedy_of(code, &[], Version::V5, retries, halves)
    }

    fn remedy_of(code: i32, fields: &[u8], version: Version, retries: u8, halves: bool) -> Remedy {
        let error = ErrorBody {
            code,
            message: "",
            fields,
        };
        let failure = Failure {
            by: FailedBy::Node(version),
            error,
            header_flags: 0,
            prelude: &[],
            untried: None,
            in_doubt: false,
        };
        super::remedy(&failure, retries, halves)
    }

    /// The fields of a READ_FAILURE of v5 of two replicas.
    fn failed_for(reasons: [u16; 2]) -> Vec<u8> {
        let mut fields = Vec::new();
        write::u16(&mut fields, 6);
        write::i32(&mut fields, 0);
        write::i32(&mut fields, 2);
        write::i32(&mut fields, 2);
        for reason in reasons {
            fields.push(4);
            fields.extend_from_slice(&[10, 0, 0, 1]);
            write::u16(&mut fields, reason);
        }
        fields.push(0);
        fields
    }

    #[test]
    fn what_fails_for_its_rows_is_not_sent_again() {
        for reasons in [[TOO_MANY_TOMBSTONES, 0], [0, READ_SIZE]] {
            let fields = failed_for(reasons);
            let of = |version| remedy_of(code::READ_FAILURE, &fields, version, 0, !HALVES);
            assert_eq!(of(Version::V5), Remedy::Nothing);
            assert_eq!(of(Version::V4), Remedy::Again, "there is no telling");
        }
        let unknown = failed_for([0, 3]);
        let remedy = remedy_of(code::READ_FAILURE, &unknown, Version::V5, 0, !HALVES);
        assert_eq!(remedy, Remedy::Again);
    }

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
