//! A table and its derived layouts as they are at the moment.

use anyhow::Result;
use helenus_catalogue::{Layout, LayoutState};
use helenus_rows::{Table, TableName};

use super::super::verdict::check_copies;
use crate::catalogue::{self, Known};
use crate::nodes::cluster::Cluster;
use crate::nodes::table;

pub(super) struct View {
    pub table: Table,
    pub known: Known,
}

impl View {
    /// None if the table has no derived layouts.
    pub(super) async fn load(cluster: &Cluster, name: &TableName) -> Result<Option<View>> {
        let known = catalogue::read(cluster, name).await?;
        if !known.layouts().iter().any(Layout::is_derived) {
            return Ok(None);
        }
        let table = table::load(cluster, name).await?;
        Ok(Some(View { table, known }))
    }

    /// Those that are read.
    pub(super) fn ready(&self) -> Vec<Layout> {
        self.of(|state| state == Some(LayoutState::Ready))
    }

    /// Those that are written. One that is behind will be compared as a whole.
    pub(super) fn written(&self) -> Vec<Layout> {
        let is_written = |state| matches!(state, Some(LayoutState::Ready | LayoutState::Writing));
        self.of(is_written)
    }

    pub(super) fn of(&self, is_meant: impl Fn(Option<LayoutState>) -> bool) -> Vec<Layout> {
        let derived = self.known.layouts().iter().filter(|of| of.is_derived());
        derived.filter(|of| is_meant(of.state())).cloned().collect()
    }

    /// Fails if one of these is no copy of the table.
    pub(super) async fn check(&self, cluster: &Cluster, entries: &[Layout]) -> Result<()> {
        check_copies(cluster, &self.table, entries).await
    }
}
