//! Where a read of several partitions of copies in sync goes on with its next page, on any proxy.
//!
//! `0xff`, the version 2 of such states, the copy that was read last, how many rows are left of the LIMIT, and one
//! of: a token behind which the next page begins; a node's own state of a stretch of the ring; a partition key
//! that comes next; a partition key and a node's own state in it. Version 1 is of what one copy answers alone
//! ([`crate::execution::layout_read`]).

use helenus_wire::{Reader, write};

const PREFIX: [u8; 2] = [0xff, 2];

const BEHIND: u8 = 0;
const IN_STRETCH: u8 = 1;
const AT_KEY: u8 = 2;
const IN_KEY: u8 = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct State<'a> {
    /// Of the copy, as [`crate::execution::layout_read::identity`] tells it.
    pub identity: u64,
    /// Rows left of the LIMIT; `None`: there is none.
    pub left: Option<u32>,
    pub at: At<'a>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum At<'a> {
    /// At what is behind this token.
    Behind(i64),
    /// Where the node's own state says.
    InStretch(&'a [u8]),
    /// At the beginning of this partition.
    Key(&'a [u8]),
    /// Within it, where the node's own state says.
    InKey(&'a [u8], &'a [u8]),
}

impl<'a> State<'a> {
    /// `None` if it is none.
    pub(crate) fn parse(state: &'a [u8]) -> Option<State<'a>> {
        let mut reader = Reader::new(state.strip_prefix(&PREFIX)?);
        let identity = u64::from_be_bytes(reader.take(8).ok()?.try_into().ok()?);
        let left = reader.u32().ok()?;
        let kind = reader.u8().ok()?;
        let mut key = || {
            Some(reader.short_bytes().ok())
                .flatten()
                .filter(|key| !key.is_empty())
        };
        let at = match kind {
            BEHIND => At::Behind(i64::from_be_bytes(reader.rest().try_into().ok()?)),
            IN_STRETCH => At::InStretch(reader.rest()),
            AT_KEY => {
                let key = key()?;
                reader.is_empty().then_some(At::Key(key))?
            }
            IN_KEY => At::InKey(key()?, reader.rest()),
            _ => return None,
        };
        Some(State {
            identity,
            left: (left != u32::MAX).then_some(left),
            at,
        })
    }

    pub(crate) fn is_one(state: &[u8]) -> bool {
        state.starts_with(&PREFIX)
    }

    pub(crate) fn write(&self) -> Vec<u8> {
        let mut out = PREFIX.to_vec();
        out.extend_from_slice(&self.identity.to_be_bytes());
        write::u32(&mut out, self.left.unwrap_or(u32::MAX));
        match self.at {
            At::Behind(token) => {
                out.push(BEHIND);
                out.extend_from_slice(&token.to_be_bytes());
            }
            At::InStretch(state) => {
                out.push(IN_STRETCH);
                out.extend_from_slice(state);
            }
            At::Key(key) => {
                out.push(AT_KEY);
                write::short_bytes(&mut out, key);
            }
            At::InKey(key, state) => {
                out.push(IN_KEY);
                write::short_bytes(&mut out, key);
                out.extend_from_slice(state);
            }
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_are_read_as_they_were_written_and_others_are_none() {
        let ats = [
            At::Behind(-7),
            At::InStretch(b"inner"),
            At::Key(b"key"),
            At::InKey(b"key", b"inner"),
        ];
        for at in ats {
            for left in [None, Some(0), Some(12)] {
                let state = State {
                    identity: 77,
                    left,
                    at,
                };
                let written = state.write();
                assert_eq!(State::parse(&written), Some(state));
                assert!(State::is_one(&written));
                // The state of a stretch or within a key ends where the node's own does.
                let ends_within = 15 + usize::from(matches!(at, At::InKey(..))) * 5;
                for len in 0..ends_within {
                    assert_eq!(State::parse(&written[..len]), None, "{at:?} {len}");
                }
            }
        }
        let mut state = State {
            identity: 1,
            left: None,
            at: At::Behind(5),
        }
        .write();
        state.push(0);
        assert_eq!(State::parse(&state), None, "one byte more");
        state.pop();
        state[14] = 9;
        assert_eq!(State::parse(&state), None, "of no kind");
        state[1] = 1;
        assert_eq!(State::parse(&state), None, "of another version");
    }
}
