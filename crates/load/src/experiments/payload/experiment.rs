//! The settings of the experiment, and what it needs from outside.

use super::documents::Collection;
use crate::experiments::arms::Arm;
use crate::process::Watched;
use anyhow::Result;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How a client encodes the documents of a collection itself.
pub trait Coding: Debug + Send + Sync {
    /// Replaces `out` with what is stored of a document.
    fn encode(&self, column: usize, document: &str, out: &mut Vec<u8>);
    /// Replaces `out` with the document. False if the bytes are none that [`Self::encode`] gives.
    fn decode(&self, column: usize, stored: &[u8], out: &mut String) -> bool;
}

/// Measures codecs without a cluster.
pub trait Codecs {
    fn names(&self) -> Vec<String>;
    /// The CPU time that a codec takes for documents of a collection, by its number.
    fn measure(&self, codec: &str, collection: usize) -> CodecTimes;
}

/// CPU time per KiB of documents, microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CodecTimes {
    /// Each value is decoded to verify it.
    pub encode_us: f64,
    pub encode_unverified_us: f64,
    pub decode_us: f64,
}

/// The nodes' disks, if they are on this machine.
pub trait Disks {
    /// Has all nodes write the tables to disk, each as one file.
    fn compact(&mut self) -> Result<()>;
    /// Bytes of a table's data on all nodes.
    fn data_bytes(&self, table: &str) -> Result<u64>;
}

/// Who encodes the documents of an arm.
#[derive(Clone, Debug)]
pub enum Stored {
    /// Nobody: they are stored as text.
    Plain,
    /// The client, one coding for each collection; columns are of type blob.
    ByClient(Vec<Arc<dyn Coding>>),
    /// The proxy, with this codec; clients see columns of type text.
    ByProxy(String),
}

#[derive(Clone, Debug)]
pub struct Contender {
    pub arm: Arm,
    pub stored: Stored,
}

#[derive(Clone, Debug)]
pub struct Payload {
    /// The documented keys are of the first.
    pub collections: Vec<Arc<Collection>>,
    /// The first must be [`crate::experiments::arms::TOKEN_AWARE`], which stores plain JSON.
    pub arms: Vec<Contender>,
    pub replication: usize,
    pub rounds: usize,
    pub clients: usize,
    /// Before the first round, for all arms together.
    pub warmup: Duration,
    pub cell_warmup: Duration,
    /// Measured time per arm, cell and round, unless [`Self::until`] leaves less.
    pub cell_time: Duration,
    /// Turns of each arm in a cell.
    pub slices: usize,
    /// No cell starts after this time, but for those of the first round, and cells are shortened to meet it.
    pub until: Option<Instant>,
    /// Further processes whose CPU time is recorded: the nodes.
    pub watched: Vec<Watched>,
    pub seed: u64,
}

impl Payload {
    pub(super) fn arms(&self) -> impl Iterator<Item = &Arm> + Clone {
        self.arms.iter().map(|contender| &contender.arm)
    }
}
