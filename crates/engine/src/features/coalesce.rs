//! One query for all clients that ask the same before it is sent.
//!
//! A read may join another only while that one has not left the proxy: then the node looks at its
//! data after both clients have asked, and either could have got that answer alone. A read that is
//! already on its way is never joined, or a client might not see its own write. Of one with two attempts
//! neither may be on its way.

mod buckets;
mod sharing;

pub(super) use self::buckets::{Coalescing as State, Slot, is_parked};
pub(super) use self::sharing::{end_waits, join, leak_check, on_end, on_settings, waits};

#[cfg(test)]
mod tests;
