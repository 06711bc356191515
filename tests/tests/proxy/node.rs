//! One node that several tests use, one after the other, each with a keyspace of its own.

use std::sync::{Mutex, MutexGuard, PoisonError};

use helenus_cluster::{Cluster, Connection};

use crate::{directly, one_node};

static NODE: Mutex<Option<Cluster>> = Mutex::new(None);

/// The node, started on first use. It ends with the test program, by its guard.
pub(crate) struct Shared(MutexGuard<'static, Option<Cluster>>);

/// Call it with the turn taken.
pub(crate) fn shared() -> Shared {
    let mut node = NODE.lock().unwrap_or_else(PoisonError::into_inner);
    let cluster = node.get_or_insert_with(|| one_node(helenus_tests::ephemeral()));
    if cluster.connect(1).is_err() {
        // A test that failed has left it dead.
        cluster.start(1).expect("started");
    }
    Shared(node)
}

impl Shared {
    pub(crate) fn cluster(&mut self) -> &mut Cluster {
        self.0.as_mut().expect("it was started")
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
