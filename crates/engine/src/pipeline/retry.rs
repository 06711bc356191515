//! Whether, where and when a node request is sent again.

pub(crate) mod backoff;
pub(crate) mod reassign;
pub(crate) mod rescue;
pub(crate) mod resend;
pub(crate) mod resendable;
pub(crate) mod unavailable;
