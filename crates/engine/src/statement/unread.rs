//! Bounds on what a request may have the proxy read: its statements' tokens are bounded, and what they become while
//! they are read is in the account.

use helenus_cql::lexer::Lexer;
use helenus_wire::{Malformed, code};
use thiserror::Error;

use crate::context::Context;
use crate::memory::{Held, NO_MEMORY};

/// Tokens of all texts of a request.
const TOKENS_MAX: usize = 256 * 1024;
/// Bytes of a token while its text is read, with its part in what becomes of that.
const TOKEN_BYTES: usize = 128;
/// Shorter texts are not looked at: no token is shorter than a byte.
const UNCOUNTED_MAX: usize = 64 * 1024;

/// Why a request is not read.
#[derive(Debug, Error)]
pub(crate) enum Unread {
    #[error(transparent)]
    Malformed(#[from] Malformed),
    #[error(
        "Helenus: the request's statements have more than {TOKENS_MAX} tokens: bind values, or send several requests"
    )]
    TooLong,
    #[error("{NO_MEMORY}")]
    NoMemory,
}

impl Unread {
    /// The code of the error that its client gets.
    pub(crate) fn code(&self) -> i32 {
        match self {
            Unread::Malformed(_) => code::PROTOCOL,
            Unread::TooLong => code::INVALID,
            Unread::NoMemory => code::OVERLOADED,
        }
    }
}

/// Counts what it takes to read these texts, as long as what it returns is there.
///
/// # Errors
/// They are too long, or there is no memory for it.
pub(super) fn reserve<'a>(
    cx: &Context,
    texts: impl Iterator<Item = &'a str> + Clone,
) -> Result<Option<Held>, Unread> {
    let bytes: usize = texts.clone().map(str::len).sum();
    if bytes <= UNCOUNTED_MAX {
        return Ok(None);
    }
    let tokens = texts.flat_map(Lexer::new).take(TOKENS_MAX + 1).count();
    if tokens > TOKENS_MAX {
        return Err(Unread::TooLong);
    }
    let taken = tokens * TOKEN_BYTES;
    match cx.memory.is_full(taken) {
        true => Err(Unread::NoMemory),
        false => Ok(Some(Held::new(&cx.memory, taken))),
    }
}
