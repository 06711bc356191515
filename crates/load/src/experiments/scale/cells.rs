//! Names of the cells.

/// Of a closed loop with so many nodes.
pub(super) fn cell(nodes: usize, clients: usize) -> String {
    match nodes {
        1 => format!("1 node, {clients} clients"),
        _ => format!("{nodes} nodes, {clients} clients"),
    }
}

/// Of the clients that run while this node joins.
pub(super) fn join_cell(node: usize) -> String {
    format!("node {node} joins")
}

/// Of a load that the ramp is compared with.
pub(super) fn grid_cell(clients: usize) -> String {
    format!("grid, {clients} clients")
}
