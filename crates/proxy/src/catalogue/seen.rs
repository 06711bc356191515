//! The last reading of the catalogue, and what it was compared with.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use helenus_catalogue::{Belief, Catalogue, Feature};

use super::away::Away;
use super::dictionaries::Dictionaries;
use super::known::Known;
use super::news::Unmarked;
use super::reader::Reader;
use super::schema::Schema;
use super::votes::Told;
use super::{encodings, layouts};
use crate::conn::ConnError;

/// The tables are looked at again after this time, even if nothing is known to have changed.
pub const SCHEMA_AGE_MAX: Duration = Duration::from_secs(30);

/// The last reading, to notice a change.
#[derive(Default)]
pub(super) struct Seen {
    pub belief: Belief,
    pub looked_up: LookedUp,
    /// The tables' layouts and encoded columns.
    pub known: Known,
    pub schema_version: [u8; 16],
    /// Problems and losses, if a majority of the nodes has told of them.
    pub decided: Option<Told>,
    /// When the tables were looked at.
    pub looked: Option<Instant>,
    /// Layouts that have missed writes although the catalogue does not tell yet.
    pub unmarked: Unmarked,
    /// Nodes that are away, for layouts that miss writes because of that.
    pub away: Away,
    /// Problems that have been logged.
    pub told: BTreeSet<String>,
}

/// Schema and dictionaries, with which the catalogue is compared.
#[derive(Default)]
pub(super) struct LookedUp {
    pub schema: Schema,
    /// `None`: there is no table of them.
    pub dictionaries: Option<Dictionaries>,
}

impl Seen {
    /// True if the tables still are as they were looked at, as far as is known.
    pub(super) fn is_still(
        &self,
        catalogue: &Catalogue,
        schema_version: [u8; 16],
        now: Instant,
    ) -> bool {
        catalogue == self.belief.catalogue()
            && self.schema_version == schema_version
            && (self.decided.is_some() || !self.looked_up.may_be_mended())
            && self
                .looked
                .is_some_and(|looked| now < looked + SCHEMA_AGE_MAX)
    }
}

impl LookedUp {
    /// True if something in it is wrong that may be right a moment later although neither catalogue nor schema have
    /// changed: dictionaries are rows. Problems with tables last as long as their schema.
    fn may_be_mended(&self) -> bool {
        let dictionaries = self.dictionaries.as_ref();
        dictionaries.is_some_and(|of| !of.problems.is_empty())
    }

    pub(super) fn is_like(&self, other: &LookedUp) -> bool {
        let keys = |of: &LookedUp| of.dictionaries.as_ref().map(Dictionaries::keys);
        self.schema == other.schema && keys(self) == keys(other)
    }

    /// The layouts or encoded columns of the catalogue, for these features.
    pub(super) fn known(&self, catalogue: &Catalogue, features: &[Feature]) -> Known {
        let mut known = Known::default();
        if features.contains(&Feature::Layouts) {
            known.layouts = layouts::known(catalogue, &self.schema);
        }
        if features.contains(&Feature::Encodings) {
            known.encodings = encodings::known(catalogue, self.dictionaries.as_ref(), &self.schema);
        }
        known
    }
}

/// Reads from a node what the catalogue is compared with.
pub(super) async fn look_up(
    reader: &mut Reader,
    catalogue: &Catalogue,
    before: &LookedUp,
    local_dc: &str,
) -> Result<LookedUp, ConnError> {
    let none = Dictionaries::default();
    let known = before.dictionaries.as_ref().unwrap_or(&none);
    Ok(LookedUp {
        schema: reader.schema(catalogue).await?,
        dictionaries: reader.dictionaries(known, catalogue, local_dc).await?,
    })
}
