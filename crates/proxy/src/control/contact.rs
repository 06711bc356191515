//! The addresses behind `cluster.contact_points`.
//!
//! Names are resolved each time they are needed, since nodes in containers come back with other
//! addresses. Resolution blocks, so it runs on separate threads, with a time limit.

use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use tokio::task::JoinSet;

const PORT: u16 = 9042;
/// A name that takes longer is skipped this time.
const RESOLVE_MAX: Duration = Duration::from_secs(5);
/// Names may resolve to other addresses each time.
const UNUSABLE_MAX: usize = 256;

/// All addresses of all contact points, without duplicates, in order.
pub(crate) async fn resolve(points: &[String]) -> Vec<SocketAddr> {
    let lookup = |point| async move { Ok(tokio::net::lookup_host(point).await?.collect()) };
    resolve_with(points, RESOLVE_MAX, lookup).await
}

async fn resolve_with<L, F>(points: &[String], limit: Duration, lookup: L) -> Vec<SocketAddr>
where
    L: Fn(String) -> F,
    F: Future<Output = io::Result<Vec<SocketAddr>>> + Send + 'static,
{
    let mut tasks = JoinSet::new();
    for (at, point) in points.iter().enumerate() {
        let looked_up = lookup(with_port(point));
        tasks.spawn(async move {
            let late = || io::Error::new(io::ErrorKind::TimedOut, "no answer");
            let found = tokio::time::timeout(limit, looked_up).await;
            (at, found.unwrap_or_else(|_| Err(late())))
        });
    }
    let mut found = tasks.join_all().await;
    found.sort_by_key(|(at, _)| *at);
    let mut addresses = Vec::new();
    for (at, found) in found {
        match found {
            Ok(found) => addresses.extend(found),
            Err(e) => tracing::warn!("contact point {} cannot be resolved: {e}", points[at]),
        }
    }
    in_order_once(addresses)
}

/// Removes duplicates, keeping the first occurrence.
pub(crate) fn in_order_once(addresses: impl IntoIterator<Item = SocketAddr>) -> Vec<SocketAddr> {
    let mut once = Vec::new();
    for address in addresses {
        if !once.contains(&address) {
            once.push(address);
        }
    }
    once
}

/// Addresses that accepted a connection but proved useless, the latest last: a node of another
/// cluster, or one that cannot be read. If one of them were tried first in every round, it would
/// keep the proxy from all others.
#[derive(Debug, Default)]
pub(crate) struct Unusable(Vec<SocketAddr>);

impl Unusable {
    pub(crate) fn note(&mut self, address: SocketAddr) {
        self.0.retain(|known| *known != address);
        if self.0.len() >= UNUSABLE_MAX {
            self.0.remove(0);
        }
        self.0.push(address);
    }

    /// The addresses, with useless ones moved to the end.
    pub(crate) fn put_last(&self, mut addresses: Vec<SocketAddr>) -> Vec<SocketAddr> {
        addresses.sort_by_key(|address| self.0.iter().position(|known| known == address));
        addresses
    }
}

fn with_port(point: &str) -> String {
    match point.parse::<IpAddr>() {
        Ok(ip) => SocketAddr::new(ip, PORT).to_string(),
        Err(_) if point.contains(':') => point.to_owned(),
        Err(_) => format!("{point}:{PORT}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> SocketAddr {
        text.parse().expect(text)
    }

    #[test]
    fn names_may_have_several_addresses_or_none() {
        let lookup = |point: String| async move {
            match &*point {
                "all.example:9042" => {
                    // Resolved after the others, but placed before them.
                    tokio::time::sleep(Duration::from_millis(20)).await;
                    Ok(vec![address("10.0.0.1:9042"), address("10.0.0.2:9042")])
                }
                "none.example:1" => Err(io::Error::other("no such name")),
                "never.example:1" => std::future::pending().await,
                literal => Ok(vec![address(literal)]),
            }
        };
        let points = [
            "all.example",
            "none.example:1",
            "never.example:1",
            "10.0.0.2",
            "10.0.0.3:9999",
            "::1",
            "[::1]:9043",
        ]
        .map(str::to_owned);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .expect("a runtime");
        let limit = Duration::from_millis(200);
        let found = runtime.block_on(resolve_with(&points, limit, lookup));
        let expected = [
            "10.0.0.1:9042",
            "10.0.0.2:9042",
            "10.0.0.3:9999",
            "[::1]:9042",
            "[::1]:9043",
        ];
        assert_eq!(found, expected.map(address));
    }

    #[test]
    fn what_was_of_no_use_is_tried_last_and_the_latest_of_it_behind_the_others() {
        let addresses = [1, 2, 3, 4].map(|port| SocketAddr::from(([10, 0, 0, 1], port)));
        let mut unusable = Unusable::default();
        let mut order = |failed: &[usize]| {
            failed.iter().for_each(|at| unusable.note(addresses[*at]));
            let ordered = unusable.put_last(addresses.to_vec());
            ordered.iter().map(SocketAddr::port).collect::<Vec<_>>()
        };
        assert_eq!(order(&[]), [1, 2, 3, 4]);
        assert_eq!(order(&[0]), [2, 3, 4, 1]);
        assert_eq!(order(&[2, 3]), [2, 1, 3, 4]);
        assert_eq!(order(&[0, 1]), [3, 4, 1, 2]);
        for port in 0..1000 {
            unusable.note(SocketAddr::from(([10, 0, 0, 2], port)));
        }
        assert_eq!(unusable.0.len(), UNUSABLE_MAX);
    }

    #[test]
    fn this_machines_own_name_has_addresses() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        let found = runtime.block_on(resolve(&["localhost:7".to_owned()]));
        assert!(!found.is_empty());
        assert!(
            found
                .iter()
                .all(|at| at.ip().is_loopback() && at.port() == 7)
        );
    }
}
