//! Layouts, as metrics and for the dashboard.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use helenus_admin_api::{Layout, Layouts};
use helenus_engine::features::layouts::LayoutStats;
use helenus_layout::plan::{Copy, LogicalTable};

use super::metrics::page::Page;
use crate::catalogue::layouts::Known;
use crate::process::Process;

/// `None` if layouts are off.
pub(super) fn view(shared: &Process) -> Option<Layouts> {
    if !shared.settings.load().layouts.enabled {
        return None;
    }
    let known = &shared.catalogue.load().layouts;
    Some(Layouts {
        lease_held: shared.leases.catalogue.is_held(Instant::now()),
        problems: known.problems.clone(),
        layouts: layouts(known, &shared.stats.features.layouts.list()),
    })
}

/// In the order of their tables' names, and of the catalogue.
fn layouts(known: &Known, stats: &[Arc<LayoutStats>]) -> Vec<Layout> {
    let names = known.layouts.names();
    let tables = names.filter_map(|(keyspace, table)| known.layouts.table(keyspace, table));
    let of_table = |table: &Arc<LogicalTable>| {
        let table = table.clone();
        let copies = 0..table.copies.len();
        copies.filter_map(move |at| Some(layout_view(&table, table.copies.get(at)?, stats)))
    };
    tables.flat_map(of_table).collect()
}

fn layout_view(table: &LogicalTable, copy: &Copy, stats: &[Arc<LayoutStats>]) -> Layout {
    let columns = copy.layout.columns();
    let mut stats = stats.iter();
    let own = stats.find(|of| of.keyspace == table.keyspace && of.physical == copy.physical);
    Layout {
        keyspace: table.keyspace.clone(),
        table: table.name.clone(),
        physical: copy.physical.clone(),
        clustering: columns
            .filter_map(|column| table.clustering.get(column))
            .map(|column| column.name.clone())
            .collect(),
        is_read: copy.readable,
        reads: own.map_or(0, |of| of.reads.load(Ordering::Relaxed)),
    }
}

pub(super) fn render(page: &mut Page, shared: &Process) {
    if !shared.settings.load().layouts.enabled {
        return;
    }
    let known = &shared.catalogue.load().layouts;
    let name = "helenus_layouts";
    page.family(
        name,
        "gauge",
        &["state"],
        "Layouts in the catalogue, by what is done with them.",
    );
    let states = [
        ("read", known.readable),
        ("written", known.written),
        ("wrong", known.problems.len()),
    ];
    for (state, count) in states {
        page.sample(name, &[("state", state)], count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use helenus_engine::features::layouts;
    use helenus_engine::stats::{Stats, add};
    use helenus_layout::plan::ClusteringColumn;

    fn known(copies: Vec<Copy>) -> Known {
        let clustering = ["day", "clerk", "id"].map(|name| ClusteringColumn {
            name: name.to_owned(),
            cql_type: "int".to_owned(),
            descending: false,
        });
        let table = LogicalTable {
            keyspace: "shop".to_owned(),
            name: "orders".to_owned(),
            partition_key: vec!["region".to_owned()],
            clustering: clustering.to_vec(),
            columns: Vec::new(),
            indexed: false,
            may_hold_times: false,
            copies,
            distinct: std::collections::HashMap::new(),
            rows: None,
        };
        let mut layouts = layouts::Layouts::default();
        let tables = layouts.tables.entry("shop".to_owned()).or_default();
        tables.insert("orders".to_owned(), Arc::new(table));
        Known {
            layouts: Arc::new(layouts),
            ..Known::default()
        }
    }

    #[test]
    fn each_layout_is_shown_with_its_order_and_its_reads() {
        let copy = |physical: &str, order: &[usize], readable| Copy {
            keyspace: None,
            physical: physical.to_owned(),
            layout: helenus_layout::Layout::new(order).expect("a permutation"),
            readable,
            further: Vec::new(),
            outlived: Vec::new(),
        };
        let stats = Stats::default();
        add(
            &stats.features.layouts.of(("shop", "orders", "a"), 10).reads,
            7,
        );
        add(
            &stats
                .features
                .layouts
                .of(("other", "orders", "b"), 10)
                .reads,
            9,
        );
        let copies = vec![copy("a", &[1, 0, 2], true), copy("b", &[2, 1, 0], false)];
        let shown = layouts(&known(copies), &stats.features.layouts.list());
        let told: Vec<_> = shown
            .iter()
            .map(|of| (&*of.physical, of.clustering.join(","), of.is_read, of.reads))
            .collect();
        let expected = [
            ("a", "clerk,day,id".to_owned(), true, 7),
            ("b", "id,clerk,day".to_owned(), false, 0),
        ];
        assert_eq!(told, expected);
        assert_eq!(
            layouts(&known(Vec::new()), &stats.features.layouts.list()),
            []
        );
    }
}
