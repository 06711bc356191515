//! The coming and going of nodes and their connections, forgotten statements, and logins that nodes judge: all of a
//! node's life but its answers.

pub(crate) mod agreement;
pub(crate) mod connecting;
pub(crate) mod dropped;
pub(crate) mod errand;
pub(crate) mod errands;
pub(crate) mod events;
pub(crate) mod logins;
pub(crate) mod prepare_derived;
pub(crate) mod reprepare;
pub(crate) mod stream_zero;
