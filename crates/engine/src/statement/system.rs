//! `system.local`, `system.peers` and `system.peers_v2` as clients see them: the proxies in place of
//! Cassandra's nodes, so that drivers connect to proxies only and their token maps hold.
//!
//! The proxy answers what drivers and people ask: columns with aliases, `*`, `COUNT(*)`, equality on
//! the key, `LIMIT`, pages. Any other form (functions, JSON, `IN`), and all that Cassandra would
//! refuse, goes to a node: the client gets that node's own view, or its error.

mod answer;
mod asked;
mod paging;
pub(super) mod query;
mod rows;

pub(crate) use self::answer::SystemAnswer;
pub(super) use self::answer::answer;
pub(super) use self::asked::{Asked, PreparedColumns};
pub(super) use self::rows::Proxies;

#[cfg(test)]
mod tests;
