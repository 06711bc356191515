//! Encoded columns, as metrics and for the dashboard.

use std::time::Instant;

use helenus_admin_api as api;
use helenus_catalogue::Written;
use helenus_engine::features::encodings::{EncodedColumn, EncodedTable};

use super::metrics::page::Page;
use crate::catalogue::encodings::Known;
use crate::process::Process;

/// `None` if encoded columns are off.
pub(super) fn view(shared: &Process) -> Option<api::Encodings> {
    if !shared.settings.load().payload.enabled {
        return None;
    }
    let known = &shared.catalogue.load().encodings;
    Some(api::Encodings {
        lease_held: shared.leases.catalogue.is_held(Instant::now()),
        problems: known.problems.clone(),
        columns: columns(known),
    })
}

/// By keyspace, table and name.
fn columns(known: &Known) -> Vec<api::EncodedColumn> {
    let tables = known
        .encodings
        .tables
        .values()
        .flat_map(|tables| tables.values());
    let of_table = |table| {
        let table: &EncodedTable = table;
        table
            .columns
            .iter()
            .map(move |column| column_view(table, column))
    };
    let mut columns: Vec<api::EncodedColumn> = tables.flat_map(|table| of_table(table)).collect();
    columns.sort_by(|a, b| {
        (&a.keyspace, &a.table, &a.column).cmp(&(&b.keyspace, &b.table, &b.column))
    });
    columns
}

fn column_view(table: &EncodedTable, column: &EncodedColumn) -> api::EncodedColumn {
    api::EncodedColumn {
        keyspace: table.keyspace.clone(),
        table: table.name.clone(),
        column: column.name.clone(),
        state: column.written.name().into(),
        codec: column.codec.name().into(),
        dictionary: column.dictionary.map(|id| id.0),
    }
}

pub(super) fn render(page: &mut Page, shared: &Process) {
    if !shared.settings.load().payload.enabled {
        return;
    }
    let known = &shared.catalogue.load().encodings;
    let name = "helenus_encoded_columns";
    page.family(
        name,
        "gauge",
        &["state"],
        "Columns in the catalogue of encoded ones, by what is written; wrong: what does not fit.",
    );
    for written in Written::ALL {
        page.sample(name, &[("state", written.name())], known.count(written));
    }
    page.sample(name, &[("state", "wrong")], known.problems.len());
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use helenus_catalogue::Form;
    use helenus_engine::features::encodings::Encodings;
    use helenus_payload::{Codec, DictionaryId};

    use super::*;
    use crate::config::Config;
    use crate::testing::process;

    fn known() -> Known {
        let column = |name: &str, written, dictionary: Option<u32>| EncodedColumn {
            fits: true,
            name: name.to_owned(),
            hidden: format!("{name}__encoded"),
            written,
            first: Form::Text,
            codec: dictionary.map_or(Codec::Smile, |_| Codec::Shape),
            dictionary: dictionary.map(DictionaryId),
        };
        let table = EncodedTable {
            keyspace: "shop".to_owned(),
            name: "users".to_owned(),
            columns: vec![
                column("profile", Written::Encoded, Some(3)),
                column("bio", Written::Text, None),
            ],
            dictionaries: BTreeMap::new(),
        };
        let mut encodings = Encodings::default();
        let tables = encodings.tables.entry("shop".to_owned()).or_default();
        tables.insert("users".to_owned(), Arc::new(table));
        Known {
            encodings: Arc::new(encodings),
            rejected: 0,
            problems: vec!["a problem".to_owned()],
        }
    }

    #[test]
    fn each_column_is_shown_with_its_state() {
        let shown = columns(&known());
        let told: Vec<_> = shown
            .iter()
            .map(|of| (&*of.column, &*of.state, &*of.codec, of.dictionary))
            .collect();
        let expected = [
            ("bio", "text", "smile", None),
            ("profile", "encoded", "shape", Some(3)),
        ];
        assert_eq!(told, expected);
    }

    #[test]
    fn columns_are_counted_by_state_where_they_are_switched_on() {
        let mut config = Config::default();
        let mut page = Page::default();
        render(&mut page, &process(config.clone()));
        assert_eq!(page.into_text(), "");
        config.payload.enabled = true;
        let shared = process(config);
        let catalogue = crate::catalogue::Known {
            encodings: known(),
            ..crate::catalogue::Known::default()
        };
        shared.catalogue.store(Arc::new(catalogue));
        let mut page = Page::default();
        render(&mut page, &shared);
        let text = page.into_text();
        for line in [
            "helenus_encoded_columns{state=\"text\"} 1",
            "helenus_encoded_columns{state=\"encoded\"} 1",
            "helenus_encoded_columns{state=\"encoded_only\"} 0",
            "helenus_encoded_columns{state=\"wrong\"} 1",
        ] {
            assert!(text.lines().any(|of| of == line), "{line}: {text}");
        }
        assert_eq!(view(&shared).map(|view| view.problems.len()), Some(1));
    }
}
