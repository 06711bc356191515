//! For tests: what the catalogue says.

use helenus_catalogue::{Encoding, Encodings, OfTable};

use crate::catalogue::Known;

/// Of a table with these encoded columns.
pub(super) fn known(columns: &[&Encoding]) -> Known {
    Known::of(OfTable {
        layouts: None,
        encodings: Some(Encodings {
            columns: columns.iter().copied().cloned().collect(),
            ..Encodings::default()
        }),
    })
}
