//! Answers as JSON; some of them are in the metrics as well.

pub(super) mod clients;
pub(super) mod errors;
pub(super) mod history;
mod key_text;
pub(super) mod keys;
pub(super) mod log;
pub(super) mod pools;
pub(super) mod proxies;
pub(super) mod queues;
pub(super) mod shown;
pub(super) mod slow;
pub(super) mod statements;
pub(super) mod summary;
