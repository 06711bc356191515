//! Statements whose meaning is known: from their text, and from what a node said on PREPARE.

pub mod asked;
pub(in crate::statement) mod cache;
pub(crate) mod description;
mod handed_over;
pub mod id_lookup_cache;
pub(crate) mod preparing;
pub(crate) mod registry;
pub(crate) mod standing;
pub(crate) mod told;
pub(crate) mod unprepared;

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;

use helenus_cql::{Facts, Kind, modification};
use helenus_wire::{PreparedIds, PreparedView, Version, write};

pub use self::handed_over::PassedStatement;
use crate::features::{InStatement, InTimedForm};
use crate::keys::ClientRequestKey;
use crate::pipeline::retry::resendable::OfSchema;
use crate::rewrite::timed_write::timed;
use crate::snapshot::Snapshot;
use crate::statement::digest::{DIGEST_BYTES_MAX, Digest};
use crate::statement::in_keys::InKeys;
use crate::statement::learned::Learned;
use crate::statement::number::statement_number;
use crate::statement::of_text::OfText;
use crate::statement::prepared::asked::Asked;
use crate::statement::prepared::description::Description;
use crate::statement::prepared::registry::Entry;
use crate::statement::prepared::standing::Standing;
use crate::statement::routing_key::Recipe;
use crate::statement::system::query::{self, SystemQuery};

/// A statement by its text, with properties learned of it.
#[derive(Debug)]
pub struct Statement {
    pub text: Box<str>,
    pub facts: Facts,
    /// A read of tables that exist once per node and must always come from the same one, whatever
    /// the keyspace in force.
    node_local: bool,
    /// A read whose answer may serve several clients that ask at the same time.
    pub shareable: bool,
    /// A read of `system.local`, `system.peers` or `system.peers_v2` that the proxy answers.
    pub(super) system: Option<SystemQuery>,
    pub(crate) learned: Learned,
    /// The form of the statement over parts of the ring, as far as the nodes know it; of itself, if it is one that
    /// the proxy has made of another.
    in_range: Mutex<InRange>,
    /// State of features, kept with it.
    pub(crate) features: InStatement,
    /// A number equal for statements that differ in white space and comments only, once somebody has asked.
    number: OnceLock<u64>,
    /// Its text as it is shown, without values, once somebody has asked.
    digest: OnceLock<Digest>,
    byte_len: usize,
}

impl Statement {
    pub fn new(text: &str) -> Statement {
        let facts = helenus_cql::facts(text);
        let keyspace = facts.keyspace.as_ref().map(|name| name.as_str());
        let system = query::parse(&facts);
        let node_local =
            facts.kind == Kind::Describe || matches!(keyspace, Some(ks) if is_node_local(ks));
        // A function may give each caller something else: uuid(), or one of the user's.
        let shareable = facts.kind == Kind::Select
            && !node_local
            && facts.select.as_ref().is_some_and(|s| !s.calls);
        let shown = text.len().min(DIGEST_BYTES_MAX);
        let own = size_of::<Statement>() - size_of::<Facts>();
        Statement {
            shareable,
            byte_len: own + text.len() + shown + facts.byte_len(),
            text: text.into(),
            facts,
            node_local,
            system,
            learned: Learned::default(),
            in_range: Mutex::default(),
            features: InStatement::default(),
            number: OnceLock::new(),
            digest: OnceLock::new(),
        }
    }

    /// A number equal for statements that differ in white space and comments only.
    pub(crate) fn number(&self) -> u64 {
        *self.number.get_or_init(|| statement_number(&self.text))
    }

    /// Its text as it is shown, without values.
    pub(crate) fn digest(&self) -> &Digest {
        self.digest
            .get_or_init(|| Digest::of(&self.text, &self.facts))
    }

    /// Bytes that it takes, with what it is shown as.
    pub(crate) fn byte_len(&self) -> usize {
        self.byte_len
    }

    /// True if it reads tables that exist once per node and must always come from the same one.
    pub(crate) fn is_node_local(&self, keyspace: Option<&str>) -> bool {
        let unnamed = self.facts.keyspace.is_none() && self.is_read();
        self.node_local || unnamed && keyspace.is_some_and(is_node_local)
    }

    pub(crate) fn is_read(&self) -> bool {
        self.facts.kind == Kind::Select
    }

    /// Keyspace and table, given the session's keyspace.
    pub(crate) fn table<'a>(&'a self, session: Option<&'a str>) -> Option<(&'a str, &'a str)> {
        let table = self.facts.table.as_ref()?;
        let keyspace = self
            .facts
            .keyspace
            .as_ref()
            .map(|k| k.as_str())
            .or(session)?;
        Some((keyspace, table.as_str()))
    }

    /// True if what is made of it is kept with it. A write with its values in the text hardly comes twice.
    pub(crate) fn keeps_plans(&self) -> bool {
        self.is_read() || self.facts.markers > 0
    }

    /// Its form over parts of the ring, as far as the nodes know it.
    pub(crate) fn in_range(&self) -> MutexGuard<'_, InRange> {
        self.in_range.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// True if the nodes are to be asked to prepare it now; if so, they are being asked from now on.
    pub(crate) fn begin_preparing(&self, now: Instant) -> bool {
        let mut known = self.in_range();
        let is_due = match &*known {
            InRange::Unknown { .. } => true,
            InRange::Refused { until, .. } => *until <= now,
            InRange::Asked(_) | InRange::Known(_) => false,
        };
        if is_due {
            *known = InRange::Asked(Vec::new());
        }
        is_due
    }

    /// The nodes do not know it any more.
    pub(crate) fn forget_range(&self) {
        let mut known = self.in_range();
        if matches!(&*known, InRange::Known(_)) {
            *known = InRange::default();
        }
    }
}

impl OfText for Statement {
    fn of_text(text: &str) -> Statement {
        Statement::new(text)
    }
}

/// Tables of these keyspaces hold what one node knows, not what the cluster stores.
pub(crate) fn is_node_local(keyspace: &str) -> bool {
    matches!(
        keyspace,
        "system" | "system_views" | "system_virtual_schema" | "system_schema"
    )
}

/// A statement known by id.
#[derive(Debug)]
pub struct Prepared {
    pub id: Box<[u8]>,
    pub statement: Arc<Statement>,
    /// Keyspace in force when it was prepared; needed to prepare it again.
    pub keyspace: Option<Box<str>>,
    /// Keyspace and table that it reads or writes, if there is just one.
    pub table: Option<(Box<str>, Box<str>)>,
    pub result_metadata_id: Option<Box<[u8]>>,
    /// The specifications of its result's columns.
    pub result_metadata: Box<[u8]>,
    /// All that clients are told of it.
    pub(crate) description: Description,
    pub(crate) standing: Standing,
    pub(super) key: Recipe,
    /// The keys of an `IN` on its partition key.
    pub(crate) in_keys: Option<InKeys>,
    /// Names of the markers by position.
    pub names: Vec<Box<str>>,
    /// How often clients ask for it.
    pub(crate) asked: Arc<Asked>,
    /// It gives a list another value as a whole.
    pub(crate) replaces_list: OfSchema,
    /// Its form with a marker for its timestamp, if it can have one.
    timed_form: OnceLock<Option<Box<TimedForm>>>,
}

impl Prepared {
    pub fn new(
        statement: Arc<Statement>,
        keyspace: Option<&str>,
        view: &PreparedView<'_>,
        snapshot: &Snapshot,
    ) -> Prepared {
        let table = view
            .markers
            .first()
            .or(view.result_columns.first())
            .map(|spec| (spec.keyspace.into(), spec.table.into()));
        let key = Recipe::of_prepared(&statement.facts, keyspace, view, snapshot);
        let table = table.or_else(|| {
            let (ks, table) = statement.table(keyspace)?;
            Some((ks.into(), table.into()))
        });
        let in_keys = table
            .as_ref()
            .and_then(|(keyspace, table): &(Box<str>, Box<str>)| {
                InKeys::of(
                    &statement.facts,
                    snapshot.schema().partition_key(keyspace, table)?,
                )
            });
        Prepared {
            id: view.id.into(),
            table,
            in_keys,
            statement,
            keyspace: keyspace.map(Into::into),
            result_metadata_id: view.result_metadata_id.map(Into::into),
            result_metadata: view.result_metadata.into(),
            description: Description::of(view),
            standing: Standing::default(),
            key,
            names: view.markers.iter().map(|m| m.name.into()).collect(),
            asked: Arc::default(),
            replaces_list: OfSchema::default(),
            timed_form: OnceLock::new(),
        }
    }

    pub(crate) fn ids(&self) -> PreparedIds<'_> {
        PreparedIds {
            statement: &self.id,
            result_metadata: self.result_metadata_id.as_deref(),
        }
    }

    /// Its form with a marker for its timestamp, if it is a write that can have one. It takes as much memory again.
    pub(crate) fn timed_form(&self) -> Option<&TimedForm> {
        let made = || TimedForm::of(self).map(Box::new);
        self.timed_form.get_or_init(made).as_deref()
    }

    /// In place of that one, which has the same id: what was counted of it goes on.
    pub(crate) fn in_place_of(mut self, known: &Prepared) -> Prepared {
        self.asked = known.asked.clone();
        self
    }

    /// Bytes that it takes, its statement included.
    pub(crate) fn byte_len(&self) -> usize {
        let names: usize = self.names.iter().map(|name| name.len()).sum();
        let names = names + self.names.len() * size_of::<Box<str>>();
        let own = size_of::<Prepared>()
            + size_of::<Asked>()
            + 2 * self.id.len()
            + self.result_metadata.len();
        own + names + self.statement.byte_len()
    }

    /// True if it may be about something in a keyspace.
    pub(crate) fn may_be_in(&self, keyspace: &str) -> bool {
        let of_table = self.table.as_ref().map(|(keyspace, _)| &**keyspace);
        // A batch has several.
        self.statement.facts.kind == Kind::Batch || of_table.is_none_or(|own| own == keyspace)
    }

    /// Clients may know it by another description.
    pub fn note_changed(&self) {
        self.standing.note_changed();
    }

    /// True if clients may know it with other columns than its result has by now. Those of v3 and v4 then always get
    /// the columns with the rows.
    pub(crate) fn may_have_changed(&self) -> bool {
        self.standing.may_have_changed()
    }

    /// Appends what stands in front of the options: of an EXECUTE, or of a QUERY if nothing is prepared.
    pub(crate) fn write_asked(
        prepared: Option<&Prepared>,
        text: &str,
        version: Version,
        out: &mut Vec<u8>,
    ) {
        let Some(prepared) = prepared else {
            return write::long_string(out, text);
        };
        write::short_bytes(out, &prepared.id);
        if version == Version::V5 {
            let id = prepared.result_metadata_id.as_deref();
            write::short_bytes(out, id.unwrap_or_default());
        }
    }
}

impl Entry for Prepared {
    fn id(&self) -> &[u8] {
        &self.id
    }

    fn byte_len(&self) -> usize {
        Prepared::byte_len(self)
    }

    fn standing(&self) -> &Standing {
        &self.standing
    }
}

/// A write with a marker for its timestamp.
#[derive(Debug)]
pub(crate) struct TimedForm {
    /// The text with the marker, and what the nodes know of it.
    pub timed: Arc<Statement>,
    /// The marker's number.
    pub timestamp_at: u16,
    pub features: InTimedForm,
}

impl TimedForm {
    /// `None` if it is conditional, adds to what is there, means something else each time, may be of several
    /// partitions, or says itself when it was written.
    pub(crate) fn of(prepared: &Prepared) -> Option<TimedForm> {
        let statement = &prepared.statement;
        let facts = &statement.facts;
        let is_plain = facts.idempotent_but_for_lists
            && !facts.lwt
            && !facts.counterish
            && !facts.using_timestamp;
        // With IN it may be of several partitions.
        let has_in = match facts.kind {
            Kind::Insert => false,
            _ => modification(&statement.text, facts).is_none_or(|change| !change.ins.is_empty()),
        };
        if !is_plain || has_in {
            return None;
        }
        let (keyspace, _) = prepared.table.as_ref()?;
        let (text, timestamp_at) = timed(&statement.text, facts, keyspace)?;
        let timed = Statement::new(&text);
        // The marker must be where it is said to be, and nothing else have changed.
        let is_as_expected = timed.facts.kind == facts.kind
            && timed.facts.using_timestamp
            && timed.facts.markers == facts.markers + 1;
        is_as_expected.then(|| TimedForm {
            timed: Arc::new(timed),
            timestamp_at,
            features: InTimedForm::default(),
        })
    }

    /// The statement that the nodes have prepared of it.
    pub(crate) fn known(&self) -> Option<Arc<Prepared>> {
        match &*self.timed.in_range() {
            InRange::Known(prepared) => Some(prepared.clone()),
            _ => None,
        }
    }
}

/// The nodes' knowledge of a statement over parts of the ring.
#[derive(Debug)]
pub(crate) enum InRange {
    /// Nothing. So many pages could have been read in parts.
    Unknown {
        pages: u8,
    },
    /// A node is preparing it. These aggregates go on when it answers.
    Asked(Vec<Waiter>),
    Known(Arc<Prepared>),
    /// They do not prepare this text.
    Refused {
        text: Box<str>,
        until: Instant,
    },
}

impl Default for InRange {
    fn default() -> Self {
        InRange::Unknown { pages: 0 }
    }
}

/// A request of some worker that waits until nodes have a statement over parts of the ring.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiter {
    pub worker: usize,
    pub request: ClientRequestKey,
}
