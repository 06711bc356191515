//! Check that the limit of open files leaves room for the links of all roles.
//!
//! A role has links to each node: `links.per_node`, at least one of each worker, and as many again if it has large
//! requests. So their number is a product, which machines with many cores before large clusters let grow.

use helenus_engine::config::Config;
use helenus_engine::snapshot::Snapshot;
use rustix::process::{Resource, getrlimit};

use crate::control;

/// Listeners, the admin server, files that are read; `helenus serve` itself complains if there is no room for clients and
/// these.
const OTHER_FILES: u64 = 1_000;
/// There should be room for so many, if there are roles: a proxy of a tier has some applications.
const ROLES: u64 = 10;

/// Advice if there is too little room for links.
pub(crate) fn advice(snapshot: &Snapshot, config: &Config, workers: usize) -> Option<String> {
    let nobody = std::net::SocketAddr::from(([0, 0, 0, 0], 0));
    let use_of_files = UseOfFiles {
        allowed: getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX),
        clients_max: config.limits.clients_max as u64,
        nodes: control::in_order(snapshot, config, nobody).len() as u64,
        links: config.links.per_node.max(workers) as u64,
        roles: match snapshot.protocol().asks_for_login() {
            true => ROLES,
            false => 1,
        },
    };
    use_of_files.advice()
}

struct UseOfFiles {
    allowed: u64,
    clients_max: u64,
    nodes: u64,
    /// Of a role to a node, without those for large requests.
    links: u64,
    /// There should be room for.
    roles: u64,
}

impl UseOfFiles {
    fn advice(&self) -> Option<String> {
        let &UseOfFiles {
            allowed,
            clients_max,
            nodes,
            links,
            roles,
        } = self;
        let of_role = (2 * nodes * links).max(1);
        // Without room for clients that has been said already.
        let left = allowed.checked_sub(clients_max + OTHER_FILES)?;
        let wanted = clients_max + OTHER_FILES + roles * of_role;
        (left / of_role < roles).then(|| {
            format!(
                "{allowed} open files are allowed (ulimit -n, LimitNOFILE): limits.clients_max = {clients_max} leaves \
                 room for the links of {} roles, each with up to {of_role} ({links} to each of {nodes} nodes, and as \
                 many for large requests); {roles} roles need {wanted}: raise the limit, or lower listen.workers or \
                 limits.clients_max",
                left / of_role
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(nodes: u64, links: u64, roles: u64) -> Option<String> {
        // As the package's unit has it.
        let use_of_files = UseOfFiles {
            allowed: 65_536,
            clients_max: 20_000,
            nodes,
            links,
            roles,
        };
        use_of_files.advice()
    }

    #[test]
    fn many_workers_before_many_nodes_are_told_of() {
        assert_eq!(told(100, 64, 1), None);
        let text = told(100, 64, ROLES).expect("too many");
        assert!(
            text.contains("the links of 3 roles, each with up to 12800")
                && text.contains("need 149000"),
            "{text}"
        );
        assert_eq!(told(12, 16, ROLES), None);
        assert_eq!(told(0, 16, ROLES), None);
    }

    #[test]
    fn what_has_been_said_of_clients_is_not_said_again() {
        let use_of_files = UseOfFiles {
            allowed: 4_096,
            clients_max: 20_000,
            nodes: 3,
            links: 2,
            roles: ROLES,
        };
        assert_eq!(use_of_files.advice(), None);
    }
}
