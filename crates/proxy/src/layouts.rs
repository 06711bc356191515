//! The catalogue of layouts: read every few seconds, compared with the tables, put into the snapshot.
//!
//! What was read is good for a lease ([`helenus_engine::layouts`]), which is renewed only once it is in
//! force. A reading whose tables could not be looked at renews nothing, nor does one that only a node that
//! lags behind may give ([`votes`]).

pub(crate) mod catalogue;
mod reader;
pub(crate) mod tables;
#[cfg(test)]
mod tests;
mod votes;

use std::collections::BTreeSet;
use std::fmt::Display;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use helenus_engine::layouts::REFRESH;
use helenus_engine::snapshot::Snapshot;
use helenus_wire::Version;

use self::catalogue::Entry;
use self::reader::{Reader, Reading};
use self::tables::{Known, Schema, known};
use self::votes::{Told, Verdict, Votes};
use crate::config::Config;
use crate::conn::{ConnError, Dialer};
use crate::control;
use crate::process::Process;

/// Events come in bursts, and before their node answers for what has changed.
const EVENT_DELAY: Duration = Duration::from_millis(200);
/// Between two attempts, while none of the nodes answers.
const PAUSE: Duration = Duration::from_millis(500);
/// The tables are looked at again after this time, even if nothing is known to have changed.
const SCHEMA_AGE_MAX: Duration = Duration::from_secs(30);
/// The proxy serves clients after this time even if the catalogue could not be read: it can be read
/// from, and refuses writes with the reason.
const FIRST_MAX: Duration = Duration::from_secs(5);
const NO_CATALOGUE: &str =
    "it says that there is none, and lags behind in its schema if that is not so";

/// What was read, to notice a change.
#[derive(Default)]
struct Seen {
    entries: Vec<Entry>,
    schema: Schema,
    /// What the entries mean for the tables.
    known: Known,
    schema_version: [u8; 16],
    /// When the tables were looked at.
    looked: Option<Instant>,
    /// Problems that have been logged.
    told: BTreeSet<String>,
}

/// Follows the catalogue until the proxy stops.
pub(crate) struct Watch {
    common: Arc<Process>,
    /// Connections to the nodes that were asked last: one, unless it was not believed alone.
    readers: Vec<Reader>,
    seen: Seen,
    /// Whether the last attempt failed, and that was logged.
    is_failing: bool,
}

impl Watch {
    /// `None` if layouts are off. Otherwise the catalogue has been read once, unless no node answered.
    pub(crate) async fn start(common: Arc<Process>) -> Option<Watch> {
        if !common.settings.load().layouts.enabled {
            return None;
        }
        let mut watch = Watch {
            common,
            readers: Vec::new(),
            seen: Seen::default(),
            is_failing: false,
        };
        if tokio::time::timeout(FIRST_MAX, watch.renew())
            .await
            .is_err()
        {
            tracing::warn!(
                "the catalogue of layouts could not be read within {FIRST_MAX:?}; writes are refused \
                 until it can be"
            );
        }
        Some(watch)
    }

    pub(crate) async fn run(mut self) {
        loop {
            let changed = tokio::select! {
                () = tokio::time::sleep(REFRESH) => false,
                () = self.common.schema_changed.notified() => true,
            };
            if changed {
                tokio::time::sleep(EVENT_DELAY).await;
                self.seen.looked = None;
            }
            self.renew().await;
        }
    }

    /// Reads the catalogue from the first node that can tell, or from several if one alone does not
    /// count. Goes on until it is known.
    async fn renew(&mut self) {
        loop {
            let addresses = self.addresses();
            let mut votes = Votes::among(addresses.len());
            for address in addresses {
                match self.renew_from(address, &mut votes).await {
                    Ok(Verdict::Counts(_)) => {
                        if !votes.has_doubts() {
                            self.readers.retain(|reader| reader.address == address);
                        }
                        if std::mem::take(&mut self.is_failing) {
                            tracing::info!(node = %address, "the catalogue of layouts can be read again");
                        }
                        return;
                    }
                    Ok(Verdict::Doubtful) => {}
                    Ok(Verdict::Impossible) => self.on_failure(address, &NO_CATALOGUE),
                    Err(e) => self.on_failure(address, &e),
                }
            }
            if votes.has_doubts() && !std::mem::replace(&mut self.is_failing, true) {
                tracing::warn!(
                    "too few nodes say the same of the catalogue of layouts, or of the tables that it \
                     names; if that lasts, writes are refused. Look at `nodetool describecluster`"
                );
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// The nodes that answered last come first; those without a link, which may be down, last.
    fn addresses(&self) -> Vec<SocketAddr> {
        let snapshot = self.common.snapshot.load();
        let config = self.common.settings.load();
        // No node is the lost one.
        let none = SocketAddr::from(([0, 0, 0, 0], 0));
        let mut addresses = control::in_order(&snapshot, &config, none);
        let is_read = |of: &SocketAddr| self.readers.iter().any(|r| r.address == *of);
        let stats = self.common.stats.nodes();
        let has_link = |of: &SocketAddr| {
            let at = snapshot.nodes.iter().position(|node| node.address == *of);
            let stats = at.and_then(|at| stats.get(at));
            stats.is_some_and(|stats| stats.links_up.load(Ordering::Relaxed) > 0)
        };
        addresses.sort_by_cached_key(|address| (!is_read(address), !has_link(address)));
        addresses
    }

    fn on_failure(&mut self, node: SocketAddr, error: &dyn Display) {
        match std::mem::replace(&mut self.is_failing, true) {
            false => tracing::warn!(
                %node,
                "the catalogue of layouts cannot be read: {error}; if that lasts, writes are refused. The \
                 role of cluster.username needs SELECT on the keyspace helenus"
            ),
            true => tracing::debug!(%node, "the catalogue of layouts cannot be read: {error}"),
        }
    }

    async fn renew_from(
        &mut self,
        address: SocketAddr,
        votes: &mut Votes,
    ) -> Result<Verdict, ConnError> {
        let known = self.readers.iter().position(|r| r.address == address);
        let mut reader = match known {
            Some(at) => self.readers.swap_remove(at),
            None => {
                let dialer = (**self.common.dialer.load()).clone();
                let config = self.common.settings.load_full();
                let version = self.common.snapshot.load().version;
                Reader::connect(&config, &dialer, address, version).await?
            }
        };
        let (told, schema) = self.ask(&mut reader).await?;
        self.readers.push(reader);
        let verdict = votes.hear(&told, !self.seen.entries.is_empty());
        if let Verdict::Counts(sent) = verdict {
            if let Some((schema, schema_version)) = schema {
                let entries = told.entries.unwrap_or_default();
                self.see(entries, schema, told.known);
                self.seen.schema_version = schema_version;
                self.seen.looked = Some(Instant::now());
            }
            self.common.layouts.renew(sent);
        }
        Ok(verdict)
    }

    /// What a node says, with its tables and their version if these had to be looked at.
    async fn ask(
        &self,
        reader: &mut Reader,
    ) -> Result<(Told, Option<(Schema, [u8; 16])>), ConnError> {
        let Reading { sent, entries } = reader.read().await?;
        let schema_version = self.common.snapshot.load().schema_version;
        let now = Instant::now();
        let is_recent = |looked: Instant| now < looked + SCHEMA_AGE_MAX;
        let is_known = entries.as_ref() == Some(&self.seen.entries)
            && self.seen.schema_version == schema_version
            && self.seen.known.problems.is_empty()
            && self.seen.looked.is_some_and(is_recent);
        let (known, schema) = match is_known {
            true => (self.seen.known.clone(), None),
            false => {
                let named = entries.as_deref().unwrap_or_default();
                let schema = reader.schema(named).await?;
                (known(named, &schema), Some((schema, schema_version)))
            }
        };
        let told = Told {
            sent,
            entries,
            known,
        };
        Ok((told, schema))
    }

    fn see(&mut self, entries: Vec<Entry>, schema: Schema, known: Known) {
        if (&self.seen.entries, &self.seen.schema) != (&entries, &schema) {
            self.put_in_force(known.clone());
        }
        self.seen.entries = entries;
        self.seen.schema = schema;
        self.seen.known = known;
    }

    fn put_in_force(&mut self, known: Known) {
        for problem in &known.problems {
            if !self.seen.told.contains(problem) {
                tracing::error!("{problem}");
            }
        }
        self.seen.told = known.problems.iter().cloned().collect();
        let tables = known.layouts.tables.values().map(|tables| tables.len());
        tracing::info!(
            tables = tables.sum::<usize>(),
            readable = known.readable,
            written = known.written,
            "layouts have changed"
        );
        self.common.layouts_known.store(Arc::new(known));
        let snapshot: Snapshot = (*self.common.snapshot.load_full()).clone();
        self.common.publish(snapshot);
    }
}

/// For `helenus check`: what a node says of layouts.
pub(crate) async fn probe(
    config: &Config,
    dialer: &Dialer,
    address: SocketAddr,
    version: Version,
) -> Result<Known, ConnError> {
    let mut reader = Reader::connect(config, dialer, address, version).await?;
    let Reading { entries, .. } = reader.read().await?;
    let entries = entries.unwrap_or_default();
    Ok(known(&entries, &reader.schema(&entries).await?))
}
