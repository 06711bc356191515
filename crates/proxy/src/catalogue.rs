//! Flags and catalogue of layouts and encoded columns: read every few seconds, compared with the tables, put into
//! the snapshot.
//!
//! The catalogue as read is good for a lease ([`helenus_engine::rewrite::leases`]), which is renewed only once it
//! is in force. The lease on the flags is renewed by any node that answers; that on the catalogue only by a reading
//! that can have followed from the one before ([`Belief`]), whose tables could be looked at, and that is not one
//! which only a node that lags behind may give ([`votes`]).

mod away;
mod dictionaries;
pub(crate) mod encodings;
mod known;
pub(crate) mod layouts;
mod marks;
mod news;
pub(crate) mod reader;
mod schema;
mod seen;
mod stored;
#[cfg(test)]
pub(crate) mod testing;
mod votes;

use std::collections::BTreeSet;
use std::fmt::Display;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use helenus_catalogue::{Belief, Catalogue, Doubt, Feature, Flag, Written, waits};
use helenus_engine::snapshot::Snapshot;
use helenus_wire::{Version, code};
use tokio::sync::watch;

pub(crate) use self::known::Known;
use self::marks::Marks;
pub(crate) use self::news::LayoutNews;
use self::reader::{Flags, ReadError, Reader, Reading, features};
pub use self::seen::SCHEMA_AGE_MAX;
use self::seen::{LookedUp, Seen, look_up};
use self::votes::{Told, Verdict, Votes};
use crate::config::Config;
use crate::conn::{ConnError, Dialer};
use crate::control;
use crate::process::Process;

/// Events come in bursts, and before their node answers for what has changed.
const EVENT_DELAY: Duration = Duration::from_millis(200);
/// How long what workers have told may take on its way into the catalogue.
const TELL_MAX: Duration = Duration::from_secs(3);
/// After the first round in which no node could tell. The pauses grow up to [`waits::refresh`]: each round may be a login at each
/// node.
const PAUSE: Duration = Duration::from_millis(500);
/// The proxy serves clients after this time even if the catalogue could not be read: it can be read
/// from, and refuses writes with the reason.
const FIRST_MAX: Duration = Duration::from_secs(5);
/// Reasons why the catalogue cannot be read that are logged until it can be.
const FAILURES_TOLD: usize = 16;

/// Why nothing is renewed by what a node tells.
#[derive(Debug, thiserror::Error)]
enum Unread {
    #[error(transparent)]
    Reading(#[from] ReadError),
    #[error(transparent)]
    Doubt(#[from] Doubt),
}

impl From<ConnError> for Unread {
    fn from(error: ConnError) -> Unread {
        Unread::Reading(error.into())
    }
}

/// Follows the catalogue until the proxy stops.
pub(crate) struct Watch {
    common: Arc<Process>,
    features: Vec<Feature>,
    /// Connections to the nodes that were asked last: one, unless it was not believed alone.
    readers: Vec<Reader>,
    /// Another connection to a node that has told its flags, while no node can tell the catalogue: what does not depend on
    /// the catalogue must not wait for all who are asked for it in vain.
    flag_reader: Option<Reader>,
    /// Who of those that were just asked for all has told its flags.
    flags_told_by: Option<SocketAddr>,
    seen: Seen,
    /// Why the last attempts failed, as it was logged; none if the last one did not.
    failures: BTreeSet<String>,
    /// The log says that a reading was not believed.
    is_doubting: bool,
    /// The catalogue was read although no flag asked for it.
    has_looked: bool,
}

impl Watch {
    /// `None` if layouts and encoded columns are off. Otherwise the catalogue has been read once, unless no node answered.
    pub(crate) async fn start(common: Arc<Process>) -> Option<Watch> {
        let features = features(&common.settings.load());
        if features.is_empty() {
            return None;
        }
        let mut watch = Watch {
            common,
            features,
            readers: Vec::new(),
            flag_reader: None,
            flags_told_by: None,
            seen: Seen::default(),
            failures: BTreeSet::new(),
            is_doubting: false,
            has_looked: false,
        };
        if tokio::time::timeout(FIRST_MAX, watch.renew())
            .await
            .is_err()
        {
            tracing::warn!(
                "the catalogue could not be read within {FIRST_MAX:?}; until it can be, {} of tables that depend on it \
                 are refused",
                watch.refused()
            );
        }
        watch.tell_news(news::Told::default()).await;
        Some(watch)
    }

    /// `end`: the proxy ends. News of workers until then is put into the catalogue.
    pub(crate) async fn run(mut self, mut end: watch::Receiver<()>) {
        loop {
            let before = Instant::now();
            let changed = tokio::select! {
                _ = end.changed() => {
                    let news = self.hear_news();
                    return self.tell_news(news).await;
                }
                () = tokio::time::sleep(waits::refresh()) => false,
                () = self.common.schema_changed.notified() => true,
                () = self.common.layout_news.come() => {
                    // There may be many.
                    tokio::time::sleep(EVENT_DELAY).await;
                    false
                }
            };
            let news = self.hear_news();
            if self.seen.unmarked.has_run_out(before, Instant::now()) {
                self.show_unmarked();
            }
            if changed {
                tokio::time::sleep(EVENT_DELAY).await;
                self.seen.looked = None;
            }
            self.renew().await;
            self.tell_news(news).await;
        }
    }

    /// Reads flags and catalogue from the first node that can tell, or from several if one alone does not
    /// count. Goes on until both are known.
    async fn renew(&mut self) {
        let mut pause = PAUSE;
        loop {
            let (addresses, owners) = self.addresses();
            let mut votes = Votes::among(owners, self.decided());
            for address in addresses {
                self.renew_flags().await;
                self.flags_told_by = None;
                match self.renew_from(address, &mut votes).await {
                    Ok(Verdict::Counts(_)) => {
                        if !votes.has_doubts() {
                            self.readers.retain(|reader| reader.address == address);
                        }
                        self.flag_reader = None;
                        self.is_doubting = false;
                        if !std::mem::take(&mut self.failures).is_empty() {
                            tracing::info!(node = %address, "the catalogue can be read again");
                        }
                        return;
                    }
                    Ok(Verdict::Doubtful) => {}
                    Err(e) => {
                        self.on_failure(address, &e);
                        if !matches!(e, Unread::Reading(ReadError::Conn(_))) {
                            self.on_doubt(&e);
                        }
                        self.keep_flags_of(address).await;
                    }
                }
            }
            if votes.has_doubts() {
                self.on_doubt(&"nodes differ in their schema, and a majority must agree: see `nodetool describecluster`");
            }
            // The nodes that would tell may be away themselves.
            self.seen.away.note(&self.common);
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(waits::refresh());
        }
    }

    /// Acts on what workers have told: layouts that have missed writes are not read from now on.
    fn hear_news(&mut self) -> news::Told {
        let mut told = self.common.layout_news.drain();
        let catalogue = self.seen.belief.catalogue();
        let missing = self.seen.away.look_around(&self.common, catalogue);
        missing.into_iter().for_each(|missed| told.miss(missed));
        let noted = self.seen.unmarked.note(&told, self.seen.belief.catalogue());
        if noted.is_empty() {
            return told;
        }
        for (table, layout) in &noted {
            tracing::error!(
                %table,
                layout,
                "a layout misses writes, and is not read until `helenus layouts sweep` has compared it: {}",
                told.why(table)
            );
        }
        self.show_unmarked();
        told
    }

    /// Puts in force what is known of layouts that have missed writes.
    fn show_unmarked(&mut self) {
        let catalogue = self.seen.belief.catalogue();
        let catalogue = self.seen.unmarked.shown_in(catalogue, Instant::now());
        let mut known = self.seen.looked_up.known(&catalogue, &self.features);
        known
            .encodings
            .keep_what_is_still(&self.seen.known.encodings);
        known.flag(&self.seen.belief, &self.features);
        self.put_in_force(known);
    }

    /// Tells others of it, and hears what they tell.
    async fn tell_news(&mut self, mut told: news::Told) {
        if let Some(reader) = self.readers.pop() {
            let telling = self.tell_by(reader, &mut told);
            // The lease must not be lost over it.
            if let Ok(reader) = tokio::time::timeout(waits::scaled(TELL_MAX), telling).await {
                self.readers.push(reader);
            }
        }
        self.common.layout_news.give_back(told);
    }

    async fn tell_by(&self, mut reader: Reader, told: &mut news::Told) -> Reader {
        let local_dc = self.common.snapshot.load().nodes().local_dc().to_owned();
        let mut marks = Marks {
            common: &self.common,
            catalogue: self.seen.belief.catalogue(),
            unmarked: &self.seen.unmarked,
            local_dc: &local_dc,
            is_cut_off: false,
        };
        marks.tell(&mut reader, told).await;
        reader
    }

    /// A majority's verdict on the present schema.
    fn decided(&self) -> Option<Told> {
        let is_still = self.seen.schema_version == self.common.snapshot.load().schema().version();
        self.seen.decided.clone().filter(|_| is_still)
    }

    /// Reads the flags where they could be read before, if that is long ago.
    async fn renew_flags(&mut self) {
        if self.common.leases.flags.unread_for(Instant::now()) < waits::refresh() {
            return;
        }
        let Some(mut reader) = self.flag_reader.take() else {
            return;
        };
        if let Ok(told) = reader.flags().await {
            self.take_flags(&told);
            self.flag_reader = Some(reader);
        }
    }

    /// Remembers a node, which could not tell the catalogue, if it has told its flags a moment ago.
    async fn keep_flags_of(&mut self, address: SocketAddr) {
        if self.flag_reader.is_none() && self.flags_told_by == Some(address) {
            self.flag_reader = self.connect(address).await.ok();
        }
    }

    fn take_flags(&mut self, told: &Flags) {
        if self.seen.belief.on_flags(&told.flags) {
            self.flag();
        }
        self.common.leases.flags.renew(told.sent);
    }

    async fn connect(&self, address: SocketAddr) -> Result<Reader, ReadError> {
        let dialer = (**self.common.dialer.load()).clone();
        let config = self.common.settings.load_full();
        let version = self.common.snapshot.load().version();
        Reader::connect(&config, &dialer, address, version).await
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
            let mut nodes = snapshot.nodes().all().iter();
            let at = nodes.position(|node| node.address() == *of);
            let stats = at.and_then(|at| stats.get(at));
            stats.is_some_and(|stats| stats.links_up.load(Ordering::Relaxed) > 0)
        };
        addresses.sort_by_cached_key(|address| (!is_read(address), !has_link(address)));
        (addresses, owners)
    }

    /// Requests that the engine refuses without a lease.
    fn refused(&self) -> &'static str {
        match self.features.contains(&Feature::Encodings) {
            true => "reads and writes",
            false => "writes",
        }
    }

    /// Each reason is told once, until the catalogue can be read again.
    fn on_failure(&mut self, node: SocketAddr, error: &Unread) {
        let told = error.to_string();
        let is_new = self.failures.len() < FAILURES_TOLD && !self.failures.contains(&told);
        if !is_new {
            tracing::debug!(%node, "the catalogue cannot be read: {error}");
            return;
        }
        self.failures.insert(told);
        tracing::warn!(
            %node,
            "the catalogue cannot be read: {error}; if that lasts, {} of tables that depend on it are refused{}",
            self.refused(),
            match error {
                Unread::Reading(error) => remedy(error),
                Unread::Doubt(_) => "",
            }
        );
    }

    /// Logs that a reading does not count, also if others could not be asked before.
    fn on_doubt(&mut self, why: &dyn Display) {
        if !std::mem::replace(&mut self.is_doubting, true) {
            tracing::warn!(
                "what a node says of the catalogue is not used: {why}; if that lasts, {} of tables that depend on it are refused",
                self.refused()
            );
        }
    }

    async fn renew_from(
        &mut self,
        address: SocketAddr,
        votes: &mut Votes,
    ) -> Result<Verdict, Unread> {
        let known = self.readers.iter().position(|r| r.address == address);
        let mut reader = match known {
            Some(at) => self.readers.swap_remove(at),
            None => self.connect(address).await?,
        };
        let done = self.renew_by(&mut reader, votes).await;
        // One that has answered is asked again, without another login.
        let has_answered = match &done {
            Ok(_) | Err(Unread::Doubt(_)) => true,
            Err(Unread::Reading(e)) => matches!(e, ReadError::Conn(ConnError::Node { .. })),
        };
        if has_answered {
            self.readers.push(reader);
        }
        done
    }

    async fn renew_by(
        &mut self,
        reader: &mut Reader,
        votes: &mut Votes,
    ) -> Result<Verdict, Unread> {
        let told = reader.flags().await?;
        self.take_flags(&told);
        self.flags_told_by = Some(reader.address);
        let Flags { sent, flags } = told;
        if self.seen.belief.needs_catalogue() {
            return self.renew_catalogue(reader, flags, votes).await;
        }
        // Once, as far as it can be read: somebody may have dropped a flag by hand, and whoever was started since knows nothing
        // else of the table.
        if !self.has_looked
            && let Ok(Verdict::Counts(sent)) = self.renew_catalogue(reader, flags, votes).await
        {
            self.has_looked = true;
            return Ok(Verdict::Counts(sent));
        }
        // Tables that no flag points to are not there.
        self.common.leases.catalogue.renew(sent);
        Ok(Verdict::Counts(sent))
    }

    async fn renew_catalogue(
        &mut self,
        reader: &mut Reader,
        mut flags: BTreeSet<Flag>,
        votes: &mut Votes,
    ) -> Result<Verdict, Unread> {
        let local_dc = self.common.snapshot.load().nodes().local_dc().to_owned();
        let Reading { sent, catalogue } = reader.catalogue(&local_dc).await?;
        let unexplained = |flags: &BTreeSet<Flag>| match &catalogue {
            Some(catalogue) => Belief::unexplained(catalogue, flags),
            None => BTreeSet::new(),
        };
        let mut lost = unexplained(&flags);
        if !lost.is_empty() {
            // They may have been dropped after they were read, and their rows then.
            let now = reader.flags().await?.flags;
            flags.retain(|flag| now.contains(flag));
            lost = unexplained(&flags);
        }
        let mut belief = self.seen.belief.clone();
        belief.on_catalogue(catalogue, flags)?;
        let catalogue = belief.catalogue();
        self.seen.unmarked.settle(catalogue, Instant::now());
        let (known, looked_up) = self.compare(reader, catalogue, &local_dc).await?;
        let told = Told {
            sent,
            catalogue: catalogue.clone(),
            unexplained: lost,
            known,
        };
        let verdict = votes.hear(&told);
        if let Verdict::Counts(sent) = verdict {
            self.seen.decided = Some(told.clone()).filter(Told::is_doubtful);
            self.see(belief, looked_up, told.known);
            self.common.leases.catalogue.renew(sent);
        }
        Ok(verdict)
    }

    /// Layouts and encoded columns of the catalogue for a node's tables, with what it was compared with and the
    /// version of the node's schema if that had to be looked up.
    async fn compare(
        &self,
        reader: &mut Reader,
        catalogue: &Catalogue,
        local_dc: &str,
    ) -> Result<(Known, Option<(LookedUp, [u8; 16])>), ConnError> {
        let schema_version = self.common.snapshot.load().schema().version();
        if self
            .seen
            .is_still(catalogue, schema_version, Instant::now())
        {
            return Ok((self.seen.known.clone(), None));
        }
        let looked_up = look_up(reader, catalogue, &self.seen.looked_up, local_dc).await?;
        let catalogue = self.seen.unmarked.shown_in(catalogue, Instant::now());
        let known = looked_up.known(&catalogue, &self.features);
        Ok((known, Some((looked_up, schema_version))))
    }

    fn see(&mut self, belief: Belief, looked_up: Option<(LookedUp, [u8; 16])>, mut known: Known) {
        let is_same = belief.catalogue() == self.seen.belief.catalogue();
        self.seen.belief = belief;
        if let Some((looked_up, schema_version)) = looked_up {
            known
                .encodings
                .keep_what_is_still(&self.seen.known.encodings);
            let is_like = self.seen.looked_up.is_like(&looked_up);
            self.seen.looked_up = looked_up;
            self.seen.schema_version = schema_version;
            self.seen.looked = Some(Instant::now());
            if !is_same || !is_like {
                known.flag(&self.seen.belief, &self.features);
                self.put_in_force(known);
                return;
            }
        }
        self.flag();
    }

    /// Puts in force which tables depend on the catalogue, if these are others than before.
    fn flag(&mut self) {
        let mut known = self.seen.known.clone();
        if known.flag(&self.seen.belief, &self.features) {
            let (flagged, lost) = known.flagged();
            tracing::info!(flagged, lost, "other tables depend on the catalogue");
            self.publish(known);
        }
    }

    fn put_in_force(&mut self, known: Known) {
        for problem in known.problems() {
            if !self.seen.told.contains(problem) {
                tracing::error!("{problem}");
            }
        }
        self.seen.told = known.problems().cloned().collect();
        if self.features.contains(&Feature::Layouts) {
            let tables = known.layouts.layouts.tables.values();
            tracing::info!(
                tables = tables.map(|tables| tables.len()).sum::<usize>(),
                readable = known.layouts.readable,
                written = known.layouts.written,
                "layouts have changed"
            );
        }
        if self.features.contains(&Feature::Encodings) {
            tracing::info!(
                announced = known.encodings.count(Written::Announced),
                text = known.encodings.count(Written::Text),
                both = known.encodings.count(Written::Both),
                encoded = known.encodings.count(Written::Encoded),
                encoded_only = known.encodings.count(Written::EncodedOnly),
                "encoded columns have changed"
            );
        }
        self.publish(known);
    }

    fn publish(&mut self, known: Known) {
        self.seen.known = known.clone();
        self.common.catalogue.store(Arc::new(known));
        let snapshot: Snapshot = (*self.common.snapshot.load_full()).clone();
        self.common.publish(snapshot);
    }
}

/// The remedy, where it is known.
pub(crate) fn remedy(error: &ReadError) -> &'static str {
    match error {
        ReadError::Conn(ConnError::Node {
            code: code::UNAUTHORIZED,
            ..
        }) => ". The role of cluster.username needs SELECT on the keyspace helenus",
        _ => "",
    }
}

/// Who is asked: the nodes that are used, and those that are to join, because one of them may have replaced
/// another that is still listed. Only one of these is there, so that both count once.
fn voters(snapshot: &Snapshot, mut used: Vec<SocketAddr>) -> (Vec<SocketAddr>, usize) {
    let owners = used.len() + snapshot.nodes().joining_owners();
    used.extend(snapshot.nodes().joining().iter().map(|mover| mover.address));
    (control::contact::in_order_once(used), owners)
}

/// For `helenus check`: what a node says of what is switched on.
pub(crate) async fn probe(
    config: &Config,
    dialer: &Dialer,
    address: SocketAddr,
    version: Version,
    local_dc: &str,
) -> Result<Known, ReadError> {
    let mut reader = Reader::connect(config, dialer, address, version).await?;
    if reader.flags().await?.flags.is_empty() {
        return Ok(Known::default());
    }
    let Reading { catalogue, .. } = reader.catalogue(local_dc).await?;
    let catalogue = catalogue.unwrap_or_default();
    let looked_up = look_up(&mut reader, &catalogue, &LookedUp::default(), local_dc).await?;
    Ok(looked_up.known(&catalogue, &features(config)))
}

#[cfg(test)]
mod tests;
