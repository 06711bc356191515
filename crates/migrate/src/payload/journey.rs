//! A column on its way from one state to the next, there or back. Each state is entered only when every proxy
//! knows the one before (the engine's `encodings` says why).

use std::time::Duration;

use anyhow::{Result, bail};
use helenus_catalogue::{Encoding, Feature, Form, Written};
use helenus_cql::Name;
use helenus_rows::{Column, Table};

use super::dictionary::Dictionaries;
use super::entry::{self, PROGRESS, check_unchanged};
use super::moving::{Moved, Mover};
use super::pace::Pace;
use super::values::Change;
use super::{proxies, target};
use crate::catalogue::claim::Claim;
use crate::catalogue::settle::Settle;
use crate::catalogue::{self, Known, flags};
use crate::nodes::cluster::Cluster;
use crate::nodes::{hints, table};

/// Looks at the whole table for values that were left. Two are needed if clients write meanwhile.
const LOOKS: u32 = 5;
const HINTS_LEFT: &str =
    "a value that comes that late could be missed, or show when a newer one expires";

pub(super) struct Journey<'a> {
    pub cluster: &'a Cluster,
    pub table: &'a Table,
    /// As it is in the catalogue.
    pub entry: Encoding,
    pub settle: Settle,
    /// If none, no proxy runs.
    pub has_proxies: bool,
    pub pace: &'a Pace,
}

impl Journey<'_> {
    /// Until all rows have their value encoded. What was moved by this attempt.
    pub(super) async fn encode(&mut self) -> Result<Moved> {
        loop {
            match self.written()? {
                Written::Announced => {
                    self.settle("the column is announced").await;
                    // One may have been started meanwhile.
                    self.check_proxies().await?;
                    self.add_hidden().await?;
                    self.enter(Written::Text).await?;
                }
                Written::Text => {
                    self.settle("proxies get ready to read both columns").await;
                    self.check_proxies().await?;
                    self.enter(Written::Both).await?;
                }
                Written::Both => {
                    self.settle_all("proxies begin to write both columns")
                        .await?;
                    self.enter(Written::Encoded).await?;
                }
                Written::Encoded => {
                    let dictionaries = Dictionaries::load(self.cluster, &self.table.name).await?;
                    let change = Change::encode(&self.entry, &dictionaries)?;
                    let moved = self.move_values(change).await?;
                    self.check_proxies().await?;
                    self.enter(Written::EncodedOnly).await?;
                    self.forget().await?;
                    return Ok(moved);
                }
                Written::EncodedOnly => return Ok(Moved::default()),
            }
        }
    }

    /// Until the column is as if it had never been encoded. What was moved by this attempt.
    pub(super) async fn decode(&mut self) -> Result<Moved> {
        let mut moved = Moved::default();
        loop {
            match self.written()? {
                Written::EncodedOnly => self.enter(Written::Encoded).await?,
                Written::Encoded => {
                    self.settle("proxies begin to delete texts again").await;
                    self.enter(Written::Both).await?;
                }
                Written::Both => {
                    self.settle_all("proxies begin to write both columns")
                        .await?;
                    self.enter(Written::Text).await?;
                }
                Written::Text => {
                    let dictionaries = Dictionaries::load(self.cluster, &self.table.name).await?;
                    moved = self.move_values(Change::Decode(dictionaries)).await?;
                    self.enter(Written::Announced).await?;
                    self.forget().await?;
                }
                Written::Announced => {
                    self.settle("proxies forget the column of encoded values")
                        .await;
                    self.drop_hidden().await?;
                    let known = catalogue::read(self.cluster, &self.table.name).await?;
                    check_unchanged(&known, &self.table.name, &self.entry)?;
                    let column = &self.entry.column;
                    entry::remove(self.cluster, &self.table.name, &known, column).await?;
                    return Ok(moved);
                }
            }
        }
    }

    fn written(&self) -> Result<Written> {
        match self.entry.written() {
            Some(written) => Ok(written),
            None => bail!(
                "the state {:?} of column {} is unknown: it was made by another version of helenus",
                self.entry.state,
                self.entry.column
            ),
        }
    }

    async fn enter(&mut self, state: Written) -> Result<()> {
        let table = &self.table.name;
        let known = catalogue::read(self.cluster, table).await?;
        check_unchanged(&known, table, &self.entry)?;
        let entry = Encoding {
            state: state.name().to_owned(),
            ..self.entry.clone()
        };
        entry::put(self.cluster, table, &known, &entry).await?;
        self.entry = entry;
        Ok(())
    }

    /// Until every proxy knows the state. Also after an interruption: it may have been entered a moment ago.
    async fn settle(&self, what: &str) {
        self.settle.wait(what).await;
    }

    /// [`Self::settle`], and until no write of an earlier state can come any more.
    async fn settle_all(&self, what: &str) -> Result<()> {
        let quiet = match self.settle.is_at_once() {
            true => Duration::ZERO,
            false => hints::unseen_max(self.cluster),
        };
        self.settle.wait(what).await;
        hints::wait_for_none(self.cluster, quiet, HINTS_LEFT).await
    }

    fn claim(&self) -> Claim<'_> {
        entry::claim(self.cluster, &self.table.name, &self.entry)
    }

    async fn check_proxies(&self) -> Result<()> {
        match self.has_proxies {
            true => proxies::check(self.cluster).await,
            false => Ok(()),
        }
    }

    /// Moves all values, those included that are written until all proxies know the state.
    async fn move_values(&self, change: Change) -> Result<Moved> {
        let claim = self.claim();
        let moved = self.move_under(&claim, change).await;
        claim.explained(moved).await
    }

    async fn move_under(&self, claim: &Claim<'_>, change: Change) -> Result<Moved> {
        let Journey {
            cluster,
            table,
            entry,
            ..
        } = self;
        let mover = Mover::new(cluster, table, entry, claim, change, self.pace).await?;
        mover.move_noted(entry).await?;
        self.settle_all("the last values in the other column are written")
            .await?;
        for _ in 0..LOOKS {
            if mover.move_rest().await? == 0 {
                return Ok(mover.moved);
            }
        }
        bail!(
            "values still appear in the column that they are moved from, {} of them so far: does somebody write \
             {} past the proxies? All values can be read as they are; run this again when that has stopped",
            mover.moved.values(),
            table.name
        )
    }

    async fn add_hidden(&self) -> Result<()> {
        let Journey { cluster, table, .. } = self;
        let hidden = &self.entry.hidden;
        if self.has_hidden().await? {
            return Ok(());
        }
        // Values older than the moment of the DROP would be taken for dropped with it.
        if target::dropped(cluster, &table.name)
            .await?
            .contains(hidden)
        {
            bail!(
                "column {hidden} of {} was dropped before, so it cannot hold older values again: take the column \
                 back (helenus payload disable {} {}) and run this again, which gives it another name",
                table.name,
                table.name,
                self.entry.column
            );
        }
        let name = Name::from_stored(hidden.as_str());
        let add = format!(
            "ALTER TABLE {} ADD {} blob",
            table.name.to_cql(),
            name.to_cql()
        );
        self.claim().renew().await?;
        cluster.run(&add).await?;
        cluster.agree().await
    }

    async fn drop_hidden(&self) -> Result<()> {
        let Journey { cluster, table, .. } = self;
        if !self.has_hidden().await? {
            return Ok(());
        }
        let name = Name::from_stored(self.entry.hidden.as_str());
        let drop = format!("ALTER TABLE {} DROP {}", table.name.to_cql(), name.to_cql());
        // It has values again if another command has turned back meanwhile.
        self.claim().renew().await?;
        cluster.run(&drop).await?;
        cluster.agree().await
    }

    async fn has_hidden(&self) -> Result<bool> {
        let now = table::load(self.cluster, &self.table.name).await?;
        let is_it = |column: &Column| column.name == self.entry.hidden;
        Ok(now.regulars.iter().any(is_it))
    }

    async fn forget(&self) -> Result<()> {
        PROGRESS
            .forget(self.cluster, &self.table.name, &self.entry.column)
            .await
    }
}

/// Takes an entry for this command, whoever has worked on it before: what was moved in the same direction counts.
pub(super) async fn take_over(
    cluster: &Cluster,
    table: &Table,
    known: &Known,
    entry: &Encoding,
    to: Form,
) -> Result<Encoding> {
    let anew = entry::begun_anew(entry, to);
    entry::put(cluster, &table.name, known, &anew).await?;
    flags::raise(cluster, &table.name, Feature::Encodings).await?;
    match entry.is_to(to) {
        true => {
            let before = entry::task(entry, &table.name);
            let anew = entry::task(&anew, &table.name);
            anew.take_over(cluster, &before).await?;
        }
        false => PROGRESS.forget(cluster, &table.name, &entry.column).await?,
    }
    Ok(anew)
}
