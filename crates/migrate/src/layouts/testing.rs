//! For tests: what the catalogue says.

use helenus_catalogue::{Layout, Layouts, OfTable};

use crate::catalogue::Known;

/// A layout with that number of its filling.
pub(super) fn layout(name: &str, created: i64) -> Layout {
    Layout {
        name: name.to_owned(),
        created,
        ..Layout::default()
    }
}

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
