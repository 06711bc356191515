//! A query as the scheduler is told of it: its class and its predicted work.

/// Scheduling class of a query, the most urgent first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Class {
    /// Drivers' handshakes and schema reads, PREPARE, the proxy's own queries.
    System,
    /// A read of one partition key that returns few rows.
    Point,
    /// `IN` on the partition key.
    Multi,
    /// A range within a partition, or a whole partition.
    Slice,
    Write,
    /// A conditional write.
    Lwt,
    /// A read of many partitions; comes in pieces.
    Scan,
    /// A statement that was not understood.
    Other,
}

impl Class {
    pub const COUNT: usize = 8;
    pub const ALL: [Class; Class::COUNT] = [
        Class::System,
        Class::Point,
        Class::Multi,
        Class::Slice,
        Class::Write,
        Class::Lwt,
        Class::Scan,
        Class::Other,
    ];

    /// True if it takes so little that a piece of a scan before it shows.
    pub fn is_quick(self) -> bool {
        !matches!(self, Class::Multi | Class::Slice | Class::Scan)
    }

    /// The name in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Class::System => "system",
            Class::Point => "point",
            Class::Multi => "multi",
            Class::Slice => "slice",
            Class::Write => "write",
            Class::Lwt => "lwt",
            Class::Scan => "scan",
            Class::Other => "other",
        }
    }
}

/// An item as it is known when it is offered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Job {
    /// Predicted remaining work of the whole query, this piece included, in microseconds of an
    /// otherwise idle node.
    pub work_us: u32,
    /// The share of this piece. Equal to `work_us` if the query is sent in one piece.
    pub piece_us: u32,
    /// The rest of the query is queued separately, here or elsewhere, at the same time as this piece. Otherwise it
    /// follows through the same queue.
    pub is_part: bool,
    /// Nodes that still hold pieces of this query.
    pub nodes_left: u16,
    /// Rows still to be returned (LIMIT).
    pub rows: u32,
    /// The role or keyspace it is charged to, as numbered by the caller.
    pub tenant: u32,
    /// The number of its partition if that is hot, else 0.
    pub flow: u32,
    /// A driver may retry it elsewhere by itself when it is refused.
    pub idempotent: bool,
}

/// Whose share pays for an item that has to wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Payer {
    /// See [`Job::tenant`].
    pub tenant: u32,
    /// See [`Job::flow`].
    pub flow: u32,
}

impl Job {
    /// The work that items queued behind it have to wait for.
    pub(super) fn ahead_us(&self) -> u32 {
        match self.is_part {
            true => self.piece_us,
            false => self.work_us,
        }
    }

    /// A query of one piece.
    pub fn of_work(work_us: u32) -> Self {
        Job {
            work_us,
            piece_us: work_us,
            is_part: false,
            nodes_left: 1,
            rows: 1,
            tenant: 0,
            flow: 0,
            idempotent: true,
        }
    }
}
