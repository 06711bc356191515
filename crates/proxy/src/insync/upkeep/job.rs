//! What the upkeep does, one thing at a time.

use helenus_engine::copy_rings::RingId;
use helenus_engine::snapshot::HostId;

use crate::insync::asked::{CopyName, Start, TableName};

/// One thing to do.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Job {
    /// Make a table's lists for what nodes own by now.
    Regroup(TableName, RingId),
    /// Let a copy join.
    Join(CopyName),
    /// Compare one that is joining.
    Compare(CopyName),
    /// Look whether a node was restarted that has the only copies in sync of some groups.
    LookAtLast(HostId),
    /// Read what proxies have left.
    Look,
    /// Make a bucket equal that a start of a proxy has left.
    Resynchronise(Start, usize),
    /// The same where this proxy has given writes up.
    MakeGood(usize),
}

impl Job {
    pub(super) fn is_comeback(&self) -> bool {
        matches!(self, Job::Join(_) | Job::Compare(_))
    }

    pub(super) fn is_regroup(&self) -> bool {
        matches!(self, Job::Regroup(..))
    }

    pub(super) fn described(&self) -> String {
        match self {
            Job::Regroup((keyspace, table), _) => format!(
                "lists of copies of {keyspace}.{table} cannot be made for what nodes own of the ring by now"
            ),
            Job::Join(name) => format!("{} cannot join", name.described()),
            Job::Compare(name) => format!("{} cannot be compared", name.described()),
            Job::LookAtLast(node) => format!(
                "copies on node {} may not be written to",
                crate::uuid::text(*node)
            ),
            Job::Look => "what proxies that are gone have left cannot be read".to_owned(),
            Job::MakeGood(bucket) => {
                format!(
                    "bucket {bucket}, in which this proxy has given writes up, cannot be made equal"
                )
            }
            Job::Resynchronise(_, bucket) => {
                format!("bucket {bucket} of a proxy that is gone cannot be resynchronised")
            }
        }
    }
}
