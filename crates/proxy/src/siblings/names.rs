//! Finds the other proxies by a name (`listen.proxies_dns`).
//!
//! The addresses found become part of the settings in force, as if they had been listed there: workers, checks and
//! the admin server know one list of proxies, in the order of their addresses. Names of services are empty or
//! missing for a moment while pods are replaced, and name servers fail; none of that says that a proxy has gone,
//! which clients are told of by the checks (`proxy_peers`). So only an answer with addresses changes the list.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::process::Process;

/// From one look-up to the next, on average: proxies do not ask all at the same time.
const INTERVAL: Duration = Duration::from_secs(5);
/// How often the setting is looked at, which may change meanwhile.
const TICK: Duration = Duration::from_secs(1);
const LOOKUP_MAX: Duration = Duration::from_secs(5);
/// How long the first clients wait for the first look-up.
const FIRST_LOOKUP_MAX: Duration = Duration::from_secs(2);
/// Each is checked every second, by each of the others.
const PROXIES_MAX: usize = 256;

/// Looks up the name of the settings.
pub(crate) struct Finder {
    common: Arc<Process>,
    /// The name that was looked up last.
    name: Option<String>,
    is_failing: bool,
    due: Instant,
    /// Look-ups so far.
    lookups: u32,
}

impl Finder {
    /// Looks for the first time, so that the first clients find all proxies.
    pub(crate) async fn start(common: Arc<Process>) -> Finder {
        let mut finder = Finder::new(common);
        // A lookup that takes longer is repeated by `run`.
        let looked = tokio::time::timeout(FIRST_LOOKUP_MAX, finder.look(&resolve)).await;
        if looked.is_err() {
            finder.due = Instant::now();
        }
        finder
    }

    fn new(common: Arc<Process>) -> Finder {
        Finder {
            common,
            name: None,
            is_failing: false,
            due: Instant::now(),
            lookups: 0,
        }
    }

    /// Looks until this proxy stops.
    pub(crate) async fn run(mut self) {
        loop {
            self.look_if_due(&resolve).await;
            tokio::time::sleep(TICK).await;
        }
    }

    async fn look_if_due<L, F>(&mut self, lookup: &L)
    where
        L: Fn(String) -> F,
        F: Future<Output = io::Result<Vec<SocketAddr>>>,
    {
        let settings = self.common.settings.load_full();
        if settings.listen.proxies_dns != self.name || Instant::now() >= self.due {
            self.look(lookup).await;
        }
    }

    async fn look<L, F>(&mut self, lookup: &L)
    where
        L: Fn(String) -> F,
        F: Future<Output = io::Result<Vec<SocketAddr>>>,
    {
        let name = self.common.settings.load().listen.proxies_dns.clone();
        if name != self.name {
            self.name.clone_from(&name);
            self.is_failing = false;
        }
        self.lookups = self.lookups.wrapping_add(1);
        self.due = Instant::now() + pause(self.common.start_number, self.lookups);
        let Some(name) = name else { return };
        let late = || io::Error::new(io::ErrorKind::TimedOut, "no answer");
        let found = tokio::time::timeout(LOOKUP_MAX, lookup(name.clone())).await;
        let found = found.unwrap_or_else(|_| Err(late()));
        // They may have changed meanwhile.
        let settings = self.common.settings.load_full();
        if settings.listen.proxies_dns.as_ref() != Some(&name) {
            return;
        }
        match others(found, settings.advertised()) {
            Ok(proxies) => {
                if std::mem::take(&mut self.is_failing) {
                    tracing::info!("listen.proxies_dns: {name} can be used again");
                }
                if proxies != settings.listen.proxies_found {
                    tracing::info!("listen.proxies_dns: the other proxies are now {proxies:?}");
                    let mut settings = (*settings).clone();
                    settings.listen.proxies_found = proxies;
                    self.common.put_in_force(settings);
                }
            }
            Err(e) => {
                if !std::mem::replace(&mut self.is_failing, true) {
                    let known = settings.listen.proxies_found.len();
                    tracing::warn!(
                        "listen.proxies_dns: {name} cannot be used ({e}); the {known} other proxies \
                         known before stay in use, and the name is looked up again"
                    );
                }
            }
        }
    }
}

/// Of what a name resolves to, the other proxies.
///
/// # Errors
/// It resolves to nothing of use, so nothing is known.
fn others(found: io::Result<Vec<SocketAddr>>, own: SocketAddr) -> io::Result<Vec<SocketAddr>> {
    let mut addresses = found?;
    // Proxies with addresses of both families would be shown twice.
    addresses.retain(|address| address.is_ipv4() == own.is_ipv4());
    if addresses.is_empty() {
        let family = if own.is_ipv4() { "IPv4" } else { "IPv6" };
        let text = format!("it has no {family} address");
        return Err(io::Error::new(io::ErrorKind::NotFound, text));
    }
    addresses.retain(|address| *address != own);
    addresses.sort();
    addresses.dedup();
    if addresses.len() > PROXIES_MAX {
        let text = format!(
            "it has {} addresses, more than {PROXIES_MAX}",
            addresses.len()
        );
        return Err(io::Error::other(text));
    }
    Ok(addresses)
}

/// From nine tenths to eleven tenths of the interval, another each time and of each proxy.
fn pause(start_number: u32, lookups: u32) -> Duration {
    let mixed = start_number.wrapping_add(lookups).wrapping_mul(0x9E37_79B9);
    INTERVAL * 9 / 10 + INTERVAL / 5 * (mixed >> 24) / 256
}

async fn resolve(name: String) -> io::Result<Vec<SocketAddr>> {
    Ok(tokio::net::lookup_host(name).await?.collect())
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use tokio::sync::mpsc;

    use super::*;
    use crate::process::ToWorker;
    use crate::testing::process;
    use helenus_engine::shared::WorkerMessage;

    fn address(text: &str) -> SocketAddr {
        text.parse().expect("an address")
    }

    fn addresses(texts: &[&str]) -> Vec<SocketAddr> {
        texts.iter().map(|text| address(text)).collect()
    }

    fn finder(own: &str) -> (Finder, mpsc::UnboundedReceiver<ToWorker>) {
        let text = format!("[listen]\naddress = '{own}'\nproxies_dns = 'proxies:9042'\n");
        let common = process(crate::config::from_toml(&text).expect("settings"));
        let (sender, worker) = mpsc::unbounded_channel();
        common.workers.lock().expect("workers").push(sender);
        (Finder::new(Arc::new(common)), worker)
    }

    /// Looks once, and is answered so; whether workers were told of other settings.
    async fn look(
        finder: &mut Finder,
        worker: &mut mpsc::UnboundedReceiver<ToWorker>,
        answer: io::Result<&[&str]>,
    ) -> bool {
        let answer = RefCell::new(Some(answer.map(addresses)));
        let lookup = |name: String| {
            assert_eq!(name, "proxies:9042");
            std::future::ready(answer.take().expect("one look-up"))
        };
        finder.look(&lookup).await;
        match worker.try_recv() {
            Err(_) => false,
            Ok(ToWorker::Message(WorkerMessage::Settings(settings))) => {
                let known = finder.common.settings.load();
                assert_eq!(settings.other_proxies(), known.other_proxies());
                true
            }
            Ok(other) => panic!("{other:?}"),
        }
    }

    #[tokio::test]
    async fn others_are_found_in_order_and_without_this_one() {
        let (mut finder, mut worker) = finder("10.0.0.2:9042");
        let answer = [
            "10.0.0.10:9042",
            "10.0.0.2:9042",
            "10.0.0.1:9042",
            "[fd00::2]:9042",
        ];
        assert!(look(&mut finder, &mut worker, Ok(&answer)).await);
        let expected = addresses(&["10.0.0.1:9042", "10.0.0.10:9042"]);
        let known = |finder: &Finder| finder.common.settings.load().other_proxies().to_vec();
        assert_eq!(known(&finder), expected);
        // Another order is no change, and neither is another word for this proxy.
        let answer = ["10.0.0.1:9042", "10.0.0.10:9042", "10.0.0.10:9042"];
        assert!(!look(&mut finder, &mut worker, Ok(&answer)).await);
        assert!(look(&mut finder, &mut worker, Ok(&["10.0.0.2:9042"])).await);
        assert_eq!(known(&finder), []);
    }

    #[tokio::test]
    async fn what_is_not_found_changes_nothing() {
        let (mut finder, mut worker) = finder("10.0.0.2:9042");
        assert!(look(&mut finder, &mut worker, Ok(&["10.0.0.1:9042"])).await);
        let many: Vec<String> = (0..300)
            .map(|n| format!("10.1.{}.1:{}", n % 200, n + 1))
            .collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        for answer in [
            Err(io::Error::other("no such name")),
            Ok(&[] as &[&str]),
            Ok(&["[fd00::1]:9042"]),
            Ok(&many),
        ] {
            assert!(!look(&mut finder, &mut worker, answer).await);
            assert!(finder.is_failing);
            let known = finder.common.settings.load();
            assert_eq!(known.other_proxies(), addresses(&["10.0.0.1:9042"]));
        }
        assert!(!look(&mut finder, &mut worker, Ok(&["10.0.0.1:9042"])).await);
        assert!(!finder.is_failing);
    }

    #[tokio::test]
    async fn names_are_looked_up_again_at_times_of_each_proxys_own() {
        let (mut finder, _worker) = finder("10.0.0.2:9042");
        let asked = RefCell::new(Vec::new());
        let lookup = |name: String| {
            asked.borrow_mut().push(name);
            std::future::ready(Ok(addresses(&["10.0.0.1:9042"])))
        };
        finder.look_if_due(&lookup).await;
        finder.look_if_due(&lookup).await;
        assert_eq!(asked.borrow().len(), 1);
        finder.due = Instant::now();
        finder.look_if_due(&lookup).await;
        assert_eq!(asked.borrow().len(), 2);
        // Another name is looked up at once.
        let mut settings = (*finder.common.settings.load_full()).clone();
        settings.listen.proxies_dns = Some("others:9042".to_owned());
        finder.common.put_in_force(settings);
        finder.look_if_due(&lookup).await;
        let last = asked.borrow().last().cloned();
        assert_eq!(last.as_deref(), Some("others:9042"));

        let pauses: Vec<Duration> = (0..50).map(|n| pause(7, n)).collect();
        let (least, most) = (pauses.iter().min(), pauses.iter().max());
        assert!(least >= Some(&Duration::from_millis(4_500)), "{least:?}");
        assert!(most <= Some(&Duration::from_millis(5_500)), "{most:?}");
        assert_ne!(least, most);
    }

    #[tokio::test]
    async fn a_real_name_is_resolved() {
        let found = resolve("localhost:9042".to_owned())
            .await
            .expect("localhost");
        assert!(
            found.iter().all(|address| address.ip().is_loopback()),
            "{found:?}"
        );
        let others = others(Ok(found), address("127.9.9.1:9042")).expect("IPv4");
        assert_eq!(others, addresses(&["127.0.0.1:9042"]));
    }
}
