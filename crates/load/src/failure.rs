//! Kinds of failure, so that errors can be counted.

use crate::measure::ErrorKind;
use scylla::errors::{DbError, ExecutionError, RequestAttemptError};

/// Sorts a driver's error into a kind that can be counted.
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
        _ => "other database error",
    }
}

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
}
