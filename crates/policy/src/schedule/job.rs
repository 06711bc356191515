//! What the scheduler is told about a query: its class and its predicted work.

/// What a query is to the scheduler, the most urgent first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Class {
    /// Handshakes and schema reads of drivers, preparing, the proxy's own.
    System,
    /// A read of one partition key that returns few rows.
    Point,
    /// `IN` on the key, or several points at once.
    Multi,
    /// A range within a partition, or a whole partition.
    Slice,
    Write,
    /// A conditional write.
    Lwt,
    /// Many partitions; comes in pieces.
    Scan,
    /// What the proxy does not understand.
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

/// What is known of a piece of work when it is offered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Job {
    /// Predicted work of the whole query that is still to be done, this piece
    /// included, in microseconds of an otherwise idle node.
    pub work_us: u32,
    /// Of that, this piece. Equal to `work_us` for what goes out in one piece.
    pub piece_us: u32,
    /// Whether the rest of the query waits on its own, here or elsewhere, at the same time as this
    /// piece. Otherwise it comes after it, through the same queue.
    pub is_part: bool,
    /// Nodes that still hold pieces of this query.
    pub nodes_left: u16,
    /// Rows still wanted (LIMIT, count).
    pub rows: u32,
    /// Whose it is: a role or a keyspace, as the caller numbers them.
    pub tenant: u32,
    /// Whether a driver may send it again elsewhere by itself when it is refused.
    pub idempotent: bool,
}

impl Job {
    /// The work that who waits behind it has before them.
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
            idempotent: true,
        }
    }
}
