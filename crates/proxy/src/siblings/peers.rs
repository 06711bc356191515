//! Checks whether the other proxies of this cluster work, and which there are, for clients that registered for it.
//!
//! To a client the proxies are the cluster's nodes, for which it gets STATUS_CHANGE: DOWN makes it
//! switch before it runs into time-outs, UP makes it return before its own next attempt. When the list of
//! proxies changes, it gets TOPOLOGY_CHANGE.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use helenus_wire::{Opcode, Version, write};
use rustc_hash::FxHashSet;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::process::Process;
use helenus_engine::shared::{EventKind, WorkerMessage};

/// Consecutive failures after which a proxy counts as down: a single one may be transient.
const FAILURES_MAX: u32 = 2;
/// Consecutive failures after which a proxy's share of what nodes serve is for the others: one that is overloaded is late for
/// some checks, and would get nothing off its shoulders if the others then asked more of the nodes.
const FAILURES_OF_GONE: u32 = 10;
/// How often the setting is checked while it is off.
const PAUSE_WHILE_OFF: Duration = Duration::from_secs(1);

/// Checks until this proxy stops.
pub(crate) async fn watch(common: Arc<Process>) {
    let mut siblings = Siblings::of(common.settings.load().other_proxies());
    loop {
        let config = common.settings.load_full();
        let pause = Duration::from_millis(config.listen.proxies_check_ms);
        let proxies = config.other_proxies();
        tell(&common, siblings.adopt(proxies, !pause.is_zero()));
        if pause.is_zero() || proxies.is_empty() {
            siblings.forgive();
            common.proxies_down.store(Arc::default());
            share_without(&common, 0);
            tokio::time::sleep(PAUSE_WHILE_OFF).await;
            continue;
        }
        let speak = config.listen.tls.is_none();
        let mut checks = JoinSet::new();
        for address in proxies.iter().copied() {
            checks.spawn(async move {
                let check = tokio::time::timeout(pause, works(address, speak));
                (address, matches!(check.await, Ok(Ok(()))))
            });
        }
        tokio::time::sleep(pause).await;
        // Each has ended, or is about to.
        while let Some(result) = checks.join_next().await {
            if let Ok((address, works)) = result {
                tell(&common, siblings.judge(address, works));
            }
        }
        common.proxies_down.store(Arc::new(siblings.down()));
        share_without(&common, siblings.gone());
    }
}

/// The others take over the share of what nodes serve that so many would have had.
fn share_without(common: &Process, gone: usize) {
    let settings = common.settings.load_full();
    if settings.listen.proxies_down != gone {
        let mut settings = (*settings).clone();
        settings.listen.proxies_down = gone;
        common.put_in_force(settings);
    }
}

/// The event of a proxy that clients are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    New,
    Removed,
    Up,
    Down,
}

impl Change {
    fn kind(self) -> EventKind {
        match self {
            Change::New | Change::Removed => EventKind::Topology,
            Change::Up | Change::Down => EventKind::Status,
        }
    }

    fn word(self) -> &'static str {
        match self {
            Change::New => "NEW_NODE",
            Change::Removed => "REMOVED_NODE",
            Change::Up => "UP",
            Change::Down => "DOWN",
        }
    }
}

type Changes = Vec<(SocketAddr, Change)>;

/// Another proxy as it is known.
#[derive(Debug, Default)]
struct Sibling {
    /// In a row.
    failures: u32,
    /// Clients know of it. As Cassandra does it, they are told of one that is new when it serves.
    is_announced: bool,
}

/// The other proxies.
#[derive(Debug, Default)]
struct Siblings(BTreeMap<SocketAddr, Sibling>);

impl Siblings {
    /// Those that clients find when they connect.
    fn of(proxies: &[SocketAddr]) -> Siblings {
        let known = |address: &SocketAddr| {
            let sibling = Sibling {
                failures: 0,
                is_announced: true,
            };
            (*address, sibling)
        };
        Siblings(proxies.iter().map(known).collect())
    }

    /// The proxies may be others now. `are_checked`: those that are new are announced by [`Siblings::judge`].
    fn adopt(&mut self, proxies: &[SocketAddr], are_checked: bool) -> Changes {
        let mut changes = Vec::new();
        self.0.retain(|address, sibling| {
            let stays = proxies.contains(address);
            if !stays && sibling.is_announced {
                changes.push((*address, Change::Removed));
            }
            stays
        });
        for address in proxies {
            let sibling = self.0.entry(*address).or_default();
            if !are_checked {
                changes.extend(sibling.announce(*address));
            }
        }
        changes
    }

    /// Takes the result of a check of a proxy.
    fn judge(&mut self, address: SocketAddr, works: bool) -> Changes {
        let Some(sibling) = self.0.get_mut(&address) else {
            return Vec::new();
        };
        if !works {
            sibling.failures = sibling.failures.saturating_add(1);
            let is_news = sibling.failures == FAILURES_MAX && sibling.is_announced;
            return Vec::from_iter(is_news.then_some((address, Change::Down)));
        }
        let was_down = sibling.failures >= FAILURES_MAX;
        sibling.failures = 0;
        match sibling.is_announced {
            false => sibling.announce(address),
            true => Vec::from_iter(was_down.then_some((address, Change::Up))),
        }
    }

    /// They are not checked any more.
    fn forgive(&mut self) {
        self.0.values_mut().for_each(|sibling| sibling.failures = 0);
    }

    /// How many have been down for so long that they count no more.
    fn gone(&self) -> usize {
        let siblings = self.0.values();
        siblings
            .filter(|of| of.failures >= FAILURES_OF_GONE)
            .count()
    }

    fn down(&self) -> FxHashSet<SocketAddr> {
        let is_down = |(_, sibling): &(&SocketAddr, &Sibling)| sibling.failures >= FAILURES_MAX;
        let down = self.0.iter().filter(is_down);
        down.map(|(address, _)| *address).collect()
    }
}

impl Sibling {
    fn announce(&mut self, address: SocketAddr) -> Changes {
        match std::mem::replace(&mut self.is_announced, true) {
            true => Vec::new(),
            false => vec![(address, Change::New), (address, Change::Up)],
        }
    }
}

fn tell(common: &Process, changes: Changes) {
    if common.draining.load(Ordering::Relaxed) {
        return;
    }
    for (address, change) in changes {
        match change {
            Change::New => tracing::info!(proxy = %address, "another proxy is new"),
            Change::Removed => tracing::info!(proxy = %address, "another proxy has gone"),
            Change::Up => tracing::info!(proxy = %address, "another proxy is UP"),
            Change::Down => tracing::info!(proxy = %address, "another proxy is DOWN"),
        }
        tell_clients(common, address, change);
    }
}

/// Tells registered clients that this proxy is about to stop.
pub(crate) fn tell_down(common: &Process, address: SocketAddr) {
    tell_clients(common, address, Change::Down);
}

fn tell_clients(common: &Process, address: SocketAddr, change: Change) {
    let mut body = Vec::new();
    let kind = change.kind();
    let name = match kind {
        EventKind::Topology => "TOPOLOGY_CHANGE",
        _ => "STATUS_CHANGE",
    };
    write::string(&mut body, name);
    write::string(&mut body, change.word());
    write::inet(&mut body, address);
    common.tell_workers(&WorkerMessage::Event {
        kind,
        body: body.into(),
    });
}

/// Opens a connection and, unless that would need TLS and a certificate, sends OPTIONS: a hung
/// process still accepts connections.
async fn works(address: SocketAddr, speak: bool) -> std::io::Result<()> {
    let mut stream = TcpStream::connect(address).await?;
    if speak {
        let version = Version::V4 as u8;
        stream
            .write_all(&[version, 0, 0, 1, Opcode::Options as u8, 0, 0, 0, 0])
            .await?;
        let mut header = [0; 9];
        stream.read_exact(&mut header).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: [Change; 0] = [];

    fn address(host: u8) -> SocketAddr {
        SocketAddr::from(([10, 0, 0, host], 9042))
    }

    fn words(changes: Changes) -> Vec<Change> {
        changes.into_iter().map(|(_, change)| change).collect()
    }

    #[test]
    fn one_failure_is_chance_and_two_are_told_once() {
        let mut siblings = Siblings::of(&[address(1)]);
        let told: Vec<_> = [true, false, true, false, false, false, true, true, false]
            .into_iter()
            .map(|works| words(siblings.judge(address(1), works)))
            .collect();
        let (none, down, up) = (vec![], vec![Change::Down], vec![Change::Up]);
        let expected = [&none, &none, &none, &none, &down, &none, &up, &none, &none];
        assert_eq!(told.iter().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_new_proxy_is_announced_when_it_serves() {
        let mut siblings = Siblings::of(&[address(1)]);
        assert_eq!(words(siblings.adopt(&[address(1), address(2)], true)), NONE);
        for works in [false, false, false] {
            assert_eq!(words(siblings.judge(address(2), works)), NONE);
        }
        assert_eq!(siblings.down(), FxHashSet::from_iter([address(2)]));
        let told = words(siblings.judge(address(2), true));
        assert_eq!(told, [Change::New, Change::Up]);
        assert_eq!(words(siblings.judge(address(2), true)), NONE);
        // One that is not checked is announced at once.
        let told = siblings.adopt(&[address(1), address(2), address(3)], false);
        assert_eq!(told, [(address(3), Change::New), (address(3), Change::Up)]);
    }

    #[test]
    fn clients_are_told_of_proxies_that_leave_if_they_know_them() {
        let mut siblings = Siblings::of(&[address(1)]);
        assert_eq!(words(siblings.adopt(&[address(1), address(2)], true)), NONE);
        let told = siblings.adopt(&[], true);
        assert_eq!(told, [(address(1), Change::Removed)]);
        assert!(siblings.down().is_empty());
        // A check that was under way.
        assert_eq!(words(siblings.judge(address(1), true)), NONE);
    }

    #[test]
    fn one_that_is_gone_leaves_its_share_to_the_others() {
        let mut config = crate::config::Config::default();
        config.listen.proxies = vec![address(1), address(2)];
        let common = crate::testing::process(config);
        let mut siblings = Siblings::of(&[address(1), address(2)]);
        let mut at_work = |works| {
            let _ = siblings.judge(address(2), works);
            share_without(&common, siblings.gone());
            common.settings.load().proxies_at_work()
        };
        let late: Vec<usize> = (0..10).map(|_| at_work(false)).collect();
        assert_eq!(late, [3, 3, 3, 3, 3, 3, 3, 3, 3, 2]);
        assert_eq!(at_work(true), 3);
    }

    #[test]
    fn changes_are_told_as_cassandra_tells_them() {
        use crate::process::ToWorker;
        let common = crate::testing::process(crate::config::Config::default());
        let (sender, mut worker) = tokio::sync::mpsc::unbounded_channel();
        common.workers.lock().expect("workers").push(sender);
        tell(
            &common,
            vec![(address(1), Change::Removed), (address(2), Change::Down)],
        );
        common.draining.store(true, Ordering::Relaxed);
        tell(&common, vec![(address(3), Change::Down)]);
        let mut told = Vec::new();
        while let Ok(ToWorker::Message(WorkerMessage::Event { kind, body })) = worker.try_recv() {
            let mut reader = helenus_wire::Reader::new(&body);
            let kind_name = reader.string().expect("a kind").to_owned();
            assert_eq!(EventKind::parse(&kind_name), Some(kind));
            let word = reader.string().expect("a change").to_owned();
            told.push((word, reader.inet().expect("an address")));
        }
        let expected = [
            ("REMOVED_NODE".to_owned(), address(1)),
            ("DOWN".to_owned(), address(2)),
        ];
        assert_eq!(told, expected);
    }
}
