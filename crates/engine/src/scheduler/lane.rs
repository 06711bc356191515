//! The lane of a node request in its node's schedule: long work, which takes one of the node's permits, or short
//! work, which does not. It depends on how much work the request is predicted to be, not on the kind of its
//! statement.
//!
//! - A scan is long, unless its statement is known for little work, or for few rows of which it reads no
//!   more: a look-up in an index, `LIMIT 1`.
//! - A read of a partition or of several is short, unless its statement is known for much work: pages of a
//!   large partition, `IN` with many keys.
//! - Reads of a few rows, writes and what is not understood are never long: their times grow with what
//!   they wait for inside an overloaded node, and behind its permits they would wait still longer.

use helenus_policy::schedule::Class;

/// A scan of less work than this is short, in microseconds: half of a piece.
const SCAN_US: u32 = 5_000;
/// Other reads of at least this are long: a piece. In between nothing changes its lane.
const READ_US: u32 = 10_000;

/// A scan that reads what it returns, and returns little, is short unless it takes even longer than this:
/// its node may only be slow, and it would keep a permit for as long as it waits for other nodes.
pub(crate) const LITTLE_US: u32 = 500_000;

/// `work_us`: predicted work of all that is still to come of the client's request. `known`: whether that
/// is from answers to its statement. `is_little`: whether it reads little, however long that takes.
pub(crate) fn lane(class: Class, work_us: u32, known: bool, is_little: bool) -> Class {
    match class {
        Class::Scan if known && (work_us < SCAN_US || is_little) => Class::Slice,
        Class::Slice | Class::Multi if known && work_us >= READ_US => Class::Scan,
        class => class,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_is_what_is_known_to_be_long() {
        for (class, work_us, expected) in [
            (Class::Scan, 4_000, Class::Slice),
            (Class::Scan, 5_000, Class::Scan),
            (Class::Slice, 9_000, Class::Slice),
            (Class::Slice, 10_000, Class::Scan),
            (Class::Multi, 300, Class::Multi),
            (Class::Multi, 60_000, Class::Scan),
        ] {
            assert_eq!(
                lane(class, work_us, true, false),
                expected,
                "{class:?}, {work_us}"
            );
            assert_eq!(lane(class, work_us, false, true), class, "not known");
        }
        assert_eq!(lane(Class::Scan, 90_000, true, true), Class::Slice);
    }

    #[test]
    fn points_and_writes_are_never_long() {
        for class in [
            Class::System,
            Class::Point,
            Class::Write,
            Class::Lwt,
            Class::Other,
        ] {
            assert_eq!(lane(class, 10_000_000, true, false), class);
        }
    }
}
