//! Nodes that several tests use, one after the other, each with a keyspace of its own.

use std::ops::Deref;
use std::sync::{Mutex, MutexGuard, PoisonError};

use helenus_cluster::{Cluster, ClusterSpec, Connection};
use helenus_tests::{kinds, pool};

use crate::directly;

static ONE: Mutex<Option<Cluster>> = Mutex::new(None);
static TWO: Mutex<Option<Cluster>> = Mutex::new(None);

/// Taken on first use, and given back when the test program ends.
pub(crate) struct Shared(MutexGuard<'static, Option<Cluster>>);

/// One node. Call it with the turn taken.
pub(crate) fn shared() -> Shared {
    take(&ONE, helenus_tests::ephemeral)
}

/// Two nodes that give slow replicas time ([`kinds::two`]). Call it with the turn taken.
pub(crate) fn two() -> Shared {
    take(&TWO, kinds::two)
}

fn take(nodes: &'static Mutex<Option<Cluster>>, spec: impl FnOnce() -> ClusterSpec) -> Shared {
    let mut nodes = nodes.lock().unwrap_or_else(PoisonError::into_inner);
    let cluster = nodes.get_or_insert_with(|| pool::take(spec()).expect("nodes"));
    for number in cluster.nodes() {
        if cluster.connect(number).is_err() {
            // A test that failed has left it dead.
            cluster.start(number).expect("started");
        }
    }
    Shared(nodes)
}

impl Deref for Shared {
    type Target = Cluster;

    fn deref(&self) -> &Cluster {
        self.0.as_ref().expect("they were started")
    }
}

impl Shared {
    pub(crate) fn cluster(&mut self) -> &mut Cluster {
        self.0.as_mut().expect("they were started")
    }

    pub(crate) fn connect(&mut self) -> Connection {
        self.cluster().connect(1).expect("node")
    }

    /// Makes a keyspace anew, with these tables.
    pub(crate) fn keyspace(&mut self, name: &str, tables: &[&str]) {
        let mut node = self.connect();
        let drop = format!("DROP KEYSPACE IF EXISTS {name}");
        let create = format!(
            "CREATE KEYSPACE {name} WITH replication = \
             {{'class': 'SimpleStrategy', 'replication_factor': 1}}"
        );
        directly(&mut node, &[&drop, &create]);
        directly(&mut node, tables);
    }
}
