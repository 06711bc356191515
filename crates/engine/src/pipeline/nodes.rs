//! What nodes and their connections do beside answering: connections come and go, statements are forgotten, logins are judged.

pub(crate) mod agreement;
pub(crate) mod connecting;
pub(crate) mod dropped;
pub(crate) mod errand;
pub(crate) mod errands;
pub(crate) mod events;
pub(crate) mod logins;
pub(crate) mod reprepare;
pub(crate) mod stream_zero;
