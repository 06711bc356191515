//! The tables' layouts and encoded columns, as the catalogue and the schema tell of them.

use std::sync::Arc;

use helenus_catalogue::{Belief, Feature};
use helenus_engine::rewrite::leases::Flagged;

use super::{encodings, layouts};

#[derive(Clone, Debug, Default)]
pub(crate) struct Known {
    pub layouts: layouts::Known,
    pub encodings: encodings::Known,
}

impl Known {
    /// Number of problems of which a node that lags behind in its schema may tell, too.
    pub(crate) fn rejected(&self) -> usize {
        self.layouts.rejected + self.encodings.rejected
    }

    /// Problems, as sentences.
    pub(crate) fn problems(&self) -> impl Iterator<Item = &String> {
        self.layouts.problems.iter().chain(&self.encodings.problems)
    }

    /// Notes which tables depend on the catalogue. Returns whether these are others than before.
    pub(crate) fn flag(&mut self, belief: &Belief, features: &[Feature]) -> bool {
        let flagged = |feature| flagged(belief, features, feature);
        let (of_layouts, of_encodings) = (flagged(Feature::Layouts), flagged(Feature::Encodings));
        let is_same = self.layouts.layouts.flagged == of_layouts
            && self.encodings.encodings.flagged == of_encodings;
        if !is_same {
            Arc::make_mut(&mut self.layouts.layouts).flagged = of_layouts;
            Arc::make_mut(&mut self.encodings.encodings).flagged = of_encodings;
        }
        !is_same
    }

    /// The tables that depend on the catalogue, and how many of them are lost.
    pub(crate) fn flagged(&self) -> (usize, usize) {
        let of = [
            &self.layouts.layouts.flagged,
            &self.encodings.encodings.flagged,
        ];
        (
            of.iter().map(|flagged| flagged.len()).sum(),
            of.iter().map(|flagged| flagged.lost()).sum(),
        )
    }
}

fn flagged(belief: &Belief, features: &[Feature], feature: Feature) -> Flagged {
    let mut flagged = Flagged::default();
    if features.contains(&feature) {
        for table in belief.flagged(&[feature]) {
            flagged.add(&table.keyspace, &table.table);
        }
        for table in belief.lost(&[feature]) {
            flagged.add_lost(&table.keyspace, &table.table);
        }
    }
    flagged
}
