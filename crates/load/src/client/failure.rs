//! Kinds of errors, for counting.

use crate::measure::ErrorKind;
use helenus_wire::code;
use scylla::errors::{DbError, ExecutionError, RequestAttemptError};

/// The kind of a driver's error.
pub fn error_kind(error: &ExecutionError) -> ErrorKind {
    match error {
        ExecutionError::RequestTimeout(_) => "client timeout",
        ExecutionError::ConnectionPoolError(_) => "no connection",
        ExecutionError::EmptyPlan => "no node",
        ExecutionError::LastAttemptError(attempt) => match attempt {
            RequestAttemptError::DbError(error, _) => db_error_kind(error),
            RequestAttemptError::BrokenConnectionError(_) => "connection broken",
            RequestAttemptError::UnableToAllocStreamId => "no free stream",
            _ => "unreadable answer",
        },
        _ => "other",
    }
}

fn db_error_kind(error: &DbError) -> ErrorKind {
    match error {
        DbError::Overloaded => "overloaded",
        DbError::Unavailable { .. } => "unavailable",
        DbError::ReadTimeout { .. } => "read timeout",
        DbError::WriteTimeout { .. } => "write timeout",
        DbError::ReadFailure { .. } => "read failure",
        DbError::WriteFailure { .. } => "write failure",
        DbError::Unprepared { .. } => "unprepared",
        DbError::IsBootstrapping => "bootstrapping",
        DbError::Invalid | DbError::SyntaxError => "invalid",
        DbError::ServerError => "server error",
        DbError::ProtocolError => "protocol error",
        DbError::Unauthorized | DbError::AuthenticationError => "unauthorized",
        DbError::Other(code::CAS_WRITE_UNKNOWN) => CAS_UNKNOWN,
        _ => "other database error",
    }
}

/// Kinds of error by the codes of the native protocol.
pub fn code_kind(code: i32) -> ErrorKind {
    match code {
        code::OVERLOADED => "overloaded",
        code::UNAVAILABLE => "unavailable",
        code::READ_TIMEOUT => "read timeout",
        code::WRITE_TIMEOUT => "write timeout",
        code::READ_FAILURE => "read failure",
        code::WRITE_FAILURE => "write failure",
        code::UNPREPARED => "unprepared",
        code::IS_BOOTSTRAPPING => "bootstrapping",
        code::INVALID | code::SYNTAX => "invalid",
        code::SERVER => "server error",
        code::PROTOCOL => "protocol error",
        code::UNAUTHORIZED | code::BAD_CREDENTIALS => "unauthorized",
        code::CAS_WRITE_UNKNOWN => CAS_UNKNOWN,
        _ => "other database error",
    }
}

/// True if an operation that failed with this kind may have been applied, or may still be.
pub fn is_unknown(kind: ErrorKind) -> bool {
    !matches!(
        kind,
        "overloaded"
            | "unavailable"
            | "invalid"
            | "unauthorized"
            | "bootstrapping"
            | "unprepared"
            | "no node"
            | "no free stream"
            | "no connection"
    )
}

const CAS_UNKNOWN: ErrorKind = "compare-and-set unknown";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_have_kinds() {
        let overloaded = RequestAttemptError::DbError(DbError::Overloaded, String::new());
        assert_eq!(
            error_kind(&ExecutionError::LastAttemptError(overloaded)),
            "overloaded"
        );
        assert_eq!(error_kind(&ExecutionError::EmptyPlan), "no node");
    }

    #[test]
    fn both_clients_count_the_same_kinds() {
        for (code, error) in [
            (code::OVERLOADED, DbError::Overloaded),
            (code::SERVER, DbError::ServerError),
            (code::SYNTAX, DbError::SyntaxError),
            (
                code::CAS_WRITE_UNKNOWN,
                DbError::Other(code::CAS_WRITE_UNKNOWN),
            ),
            (0x7777, DbError::Other(0x7777)),
        ] {
            assert_eq!(code_kind(code), db_error_kind(&error), "{code:#x}");
        }
    }

    #[test]
    fn a_refused_operation_was_not_applied_a_timed_out_one_may_have_been() {
        assert!(is_unknown(code_kind(code::WRITE_TIMEOUT)));
        assert!(is_unknown(CAS_UNKNOWN) && is_unknown("client timeout"));
        assert!(!is_unknown(code_kind(code::OVERLOADED)));
        assert!(!is_unknown(code_kind(code::UNAVAILABLE)));
    }
}
