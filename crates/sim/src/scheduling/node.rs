//! A node's threads: those that work on requests of clients, and the READ stage.

use super::agenda::{ProcessId, ReadKey, RequestKey};
use crate::threads::Threads;

#[derive(Debug)]
pub(super) struct Node {
    pub process: ProcessId,
    pub requests: Threads<RequestKey>,
    pub reads: Threads<ReadKey>,
}
