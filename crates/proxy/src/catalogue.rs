//! The catalogue of layouts and encoded columns: read every few seconds, compared with the tables, put into
//! the snapshot.
//!
//! What was read is good for a lease ([`helenus_engine::layouts`]), which is renewed only once it is in
//! force. A reading whose tables could not be looked at renews nothing, nor does one that only a node that
//! lags behind may give ([`votes`]). There is one lease for both: it is renewed if all that is switched on
//! could be read.

mod dictionaries;
mod encoding_rows;
pub(crate) mod encodings;
mod known;
mod layout_rows;
pub(crate) mod layouts;
mod reader;
mod schema;
#[cfg(test)]
mod testing;
mod votes;

use std::collections::BTreeSet;
use std::fmt::Display;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use helenus_engine::encodings::Written;
use helenus_engine::layouts::REFRESH;
use helenus_engine::snapshot::Snapshot;
use helenus_wire::Version;

use self::dictionaries::Dictionaries;
pub(crate) use self::known::Known;
use self::reader::{Entries, Parts, Reader, Reading};
use self::schema::Schema;
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
pub const SCHEMA_AGE_MAX: Duration = Duration::from_secs(30);
/// The proxy serves clients after this time even if the catalogue could not be read: it can be read
/// from, and refuses writes with the reason.
const FIRST_MAX: Duration = Duration::from_secs(5);
const NO_CATALOGUE: &str =
    "it says that there is none, and lags behind in its schema if that is not so";

/// What was read, to notice a change.
#[derive(Default)]
struct Seen {
    entries: Entries,
    looked_up: LookedUp,
    /// What the entries mean for the tables.
    known: Known,
    schema_version: [u8; 16],
    /// When the tables were looked at.
    looked: Option<Instant>,
    /// Problems that have been logged.
    told: BTreeSet<String>,
}

/// What the entries are compared with.
#[derive(Default)]
struct LookedUp {
    schema: Schema,
    /// `None`: there is no table of them.
    dictionaries: Option<Dictionaries>,
}

impl LookedUp {
    fn is_like(&self, other: &LookedUp) -> bool {
        let keys = |of: &LookedUp| of.dictionaries.as_ref().map(Dictionaries::keys);
        self.schema == other.schema && keys(self) == keys(other)
    }

    fn known(&self, entries: &Entries) -> Known {
        Known {
            layouts: layouts::known(entries.layouts(), &self.schema),
            encodings: encodings::known(
                entries.encodings(),
                self.dictionaries.as_ref(),
                &self.schema,
            ),
        }
    }
}

/// Follows the catalogue until the proxy stops.
pub(crate) struct Watch {
    common: Arc<Process>,
    parts: Parts,
    /// Connections to the nodes that were asked last: one, unless it was not believed alone.
    readers: Vec<Reader>,
    seen: Seen,
    /// Whether the last attempt failed, and that was logged.
    is_failing: bool,
}

impl Watch {
    /// `None` if layouts and encoded columns are off. Otherwise the catalogue has been read once, unless no node answered.
    pub(crate) async fn start(common: Arc<Process>) -> Option<Watch> {
        let parts = Parts::of(&common.settings.load());
        if !parts.layouts && !parts.encodings {
            return None;
        }
        let mut watch = Watch {
            common,
            parts,
            readers: Vec::new(),
            seen: Seen::default(),
            is_failing: false,
        };
        if tokio::time::timeout(FIRST_MAX, watch.renew())
            .await
            .is_err()
        {
            tracing::warn!(
                "the catalogue could not be read within {FIRST_MAX:?}; {} are refused until it can be",
                watch.refused()
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
            let (addresses, owners) = self.addresses();
            let mut votes = Votes::among(owners);
            for address in addresses {
                match self.renew_from(address, &mut votes).await {
                    Ok(Verdict::Counts(_)) => {
                        if !votes.has_doubts() {
                            self.readers.retain(|reader| reader.address == address);
                        }
                        if std::mem::take(&mut self.is_failing) {
                            tracing::info!(node = %address, "the catalogue can be read again");
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
                    "too few nodes say the same of the catalogue, or of the tables that it names; if that \
                     lasts, {} are refused. Look at `nodetool describecluster`",
                    self.refused()
                );
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// The nodes that answered last come first; those without a link, which may be down, last. Also how many owners
    /// of tokens these are.
    fn addresses(&self) -> (Vec<SocketAddr>, usize) {
        let snapshot = self.common.snapshot.load();
        let config = self.common.settings.load();
        // No node is the lost one.
        let none = SocketAddr::from(([0, 0, 0, 0], 0));
        let (mut addresses, owners) =
            voters(&snapshot, control::in_order(&snapshot, &config, none));
        let is_read = |of: &SocketAddr| self.readers.iter().any(|r| r.address == *of);
        let stats = self.common.stats.nodes();
        let has_link = |of: &SocketAddr| {
            let at = snapshot.nodes.iter().position(|node| node.address == *of);
            let stats = at.and_then(|at| stats.get(at));
            stats.is_some_and(|stats| stats.links_up.load(Ordering::Relaxed) > 0)
        };
        addresses.sort_by_cached_key(|address| (!is_read(address), !has_link(address)));
        (addresses, owners)
    }

    /// What the engine refuses without a lease.
    fn refused(&self) -> &'static str {
        match self.parts.encodings {
            true => "reads and writes",
            false => "writes",
        }
    }

    fn on_failure(&mut self, node: SocketAddr, error: &dyn Display) {
        match std::mem::replace(&mut self.is_failing, true) {
            false => tracing::warn!(
                %node,
                "the catalogue cannot be read: {error}; if that lasts, {} are refused. The role of \
                 cluster.username needs SELECT on the keyspace helenus",
                self.refused()
            ),
            true => tracing::debug!(%node, "the catalogue cannot be read: {error}"),
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
        let (told, looked_up) = self.ask(&mut reader).await?;
        self.readers.push(reader);
        let verdict = votes.hear(&told, &self.seen.entries);
        if let Verdict::Counts(sent) = verdict {
            if let Some((looked_up, schema_version)) = looked_up {
                self.see(told.entries, looked_up, told.known);
                self.seen.schema_version = schema_version;
                self.seen.looked = Some(Instant::now());
            }
            self.common.layouts.renew(sent);
        }
        Ok(verdict)
    }

    /// What a node says, with what it was compared with and the version of its schema if that had to be
    /// looked up.
    async fn ask(
        &self,
        reader: &mut Reader,
    ) -> Result<(Told, Option<(LookedUp, [u8; 16])>), ConnError> {
        let Reading { sent, entries } = reader.read(self.parts).await?;
        let schema_version = self.common.snapshot.load().schema_version;
        let now = Instant::now();
        let is_recent = |looked: Instant| now < looked + SCHEMA_AGE_MAX;
        let is_known = entries == self.seen.entries
            && self.seen.schema_version == schema_version
            && self.seen.known.problems().next().is_none()
            && self.seen.looked.is_some_and(is_recent);
        let (known, looked_up) = match is_known {
            true => (self.seen.known.clone(), None),
            false => {
                let looked_up = look_up(reader, &entries, &self.seen.looked_up).await?;
                (looked_up.known(&entries), Some((looked_up, schema_version)))
            }
        };
        let told = Told {
            sent,
            entries,
            known,
        };
        Ok((told, looked_up))
    }

    fn see(&mut self, entries: Entries, looked_up: LookedUp, mut known: Known) {
        known
            .encodings
            .keep_what_is_still(&self.seen.known.encodings);
        if self.seen.entries != entries || !self.seen.looked_up.is_like(&looked_up) {
            self.put_in_force(known.clone());
        }
        self.seen.entries = entries;
        self.seen.looked_up = looked_up;
        self.seen.known = known;
    }

    fn put_in_force(&mut self, known: Known) {
        for problem in known.problems() {
            if !self.seen.told.contains(problem) {
                tracing::error!("{problem}");
            }
        }
        self.seen.told = known.problems().cloned().collect();
        if self.parts.layouts {
            let tables = known.layouts.layouts.tables.values();
            let refused = known.layouts.layouts.refused.values();
            tracing::info!(
                tables = tables.map(|tables| tables.len()).sum::<usize>(),
                readable = known.layouts.readable,
                written = known.layouts.written,
                refused = refused.map(|tables| tables.len()).sum::<usize>(),
                "layouts have changed"
            );
        }
        if self.parts.encodings {
            tracing::info!(
                announced = known.encodings.count(Written::Announced),
                text = known.encodings.count(Written::Text),
                both = known.encodings.count(Written::Both),
                encoded = known.encodings.count(Written::Encoded),
                encoded_only = known.encodings.count(Written::EncodedOnly),
                "encoded columns have changed"
            );
        }
        self.common.catalogue.store(Arc::new(known));
        let snapshot: Snapshot = (*self.common.snapshot.load_full()).clone();
        self.common.publish(snapshot);
    }
}

/// Who is asked: the nodes that are used, and those that are to join, because one of them may have replaced
/// another that is still listed. Only one of these is there, so that both count once.
fn voters(snapshot: &Snapshot, mut used: Vec<SocketAddr>) -> (Vec<SocketAddr>, usize) {
    let owners = used.len() + snapshot.joining_owners;
    used.extend(snapshot.joining.iter().map(|mover| mover.address));
    (control::contact::in_order_once(used), owners)
}

async fn look_up(
    reader: &mut Reader,
    entries: &Entries,
    before: &LookedUp,
) -> Result<LookedUp, ConnError> {
    let none = Dictionaries::default();
    let known = before.dictionaries.as_ref().unwrap_or(&none);
    Ok(LookedUp {
        schema: reader.schema(entries).await?,
        dictionaries: reader.dictionaries(known, entries.encodings()).await?,
    })
}

/// For `helenus check`: what a node says of what is switched on.
pub(crate) async fn probe(
    config: &Config,
    dialer: &Dialer,
    address: SocketAddr,
    version: Version,
) -> Result<Known, ConnError> {
    let mut reader = Reader::connect(config, dialer, address, version).await?;
    let Reading { entries, .. } = reader.read(Parts::of(config)).await?;
    let looked_up = look_up(&mut reader, &entries, &LookedUp::default()).await?;
    Ok(looked_up.known(&entries))
}

#[cfg(test)]
mod tests {
    use helenus_engine::snapshot::Mover;

    use super::*;

    #[test]
    fn nodes_that_may_have_replaced_others_are_asked_and_count_once() {
        let address = |number: u8| SocketAddr::from(([10, 0, 0, number], 9042));
        let joins = |number: u8| Mover {
            host_id: [number; 16],
            address: address(number),
        };
        let mut snapshot = Snapshot::unknown();
        snapshot.joining = vec![joins(2), joins(3)];
        snapshot.joining_owners = 1;
        let (asked, owners) = voters(&snapshot, vec![address(1)]);
        assert_eq!((asked, owners), ([1, 2, 3].map(address).to_vec(), 2));
        // The replacement has the address of what it replaces.
        snapshot.joining_owners = 0;
        let (asked, owners) = voters(&snapshot, [1, 2, 3].map(address).to_vec());
        assert_eq!((asked.len(), owners), (3, 3));
    }
}
