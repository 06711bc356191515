//! For tests: what the catalogue says.

use helenus_catalogue::{Layout, Layouts, OfTable};

use crate::catalogue::Known;

/// Of a table with these layouts.
pub(super) fn known(layouts: &[&Layout]) -> Known {
    Known::of(OfTable {
        layouts: Some(Layouts {
            layouts: layouts.iter().copied().cloned().collect(),
            ..Layouts::default()
        }),
        encodings: None,
    })
}
