//! Advice on changing layouts: the workload may have changed since those in use were designed, so that others
//! would pay for being built.
//!
//! Two things keep the advice from wavering. A change must save half as much again as its build costs, and
//! what counts against it must be as clear; and with a file for what was seen before, it must be seen several
//! times in a row. The file is the operator's: `advise` writes nothing to the cluster.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;
use helenus_catalogue::LayoutState;
use helenus_layout::{
    Advice, Build, Comparison, Design, Layout, Redesign, RedesignRules, SampledModel, Standing,
    Storage, Table, is_same_for, mean_cost_us,
};
use helenus_migrate::catalogue;
use helenus_migrate::layouts::names::letter;
use helenus_migrate::nodes::cluster::Cluster;
use helenus_migrate::nodes::table;
use helenus_rows::TableName;
use serde::{Deserialize, Serialize};

use super::coefficients::Costs;

const DAY_S: f64 = 86_400.0;
/// How long a workload may be expected to stay as it is, in days.
const HORIZON_DAYS: std::ops::RangeInclusive<f64> = 0.01..=365.0;

#[derive(Args)]
pub(super) struct DriftArgs {
    /// For how many days the workload is expected to stay as it is: in this time a change must save more than
    /// its build costs
    #[arg(
        long,
        value_name = "DAYS",
        default_value_t = 7.0,
        conflicts_with = "workload"
    )]
    horizon_days: f64,
    /// File in which it is remembered from one run to the next whether a change would pay: only three times in a
    /// row are enough then [default: one look is enough]
    #[arg(long, value_name = "FILE", conflicts_with = "workload")]
    state: Option<PathBuf>,
}

impl DriftArgs {
    pub(super) fn check(&self) -> Result<()> {
        if !HORIZON_DAYS.contains(&self.horizon_days) {
            bail!("--horizon-days must be a number from 0.01 to 365");
        }
        Ok(())
    }

    fn rules(&self) -> RedesignRules {
        let rules = RedesignRules::default();
        RedesignRules {
            horizon_s: self.horizon_days * DAY_S,
            evaluations: self.state.as_ref().map_or(1, |_| rules.evaluations),
            ..rules
        }
    }
}

/// A layout in the catalogue.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Entry {
    pub name: String,
    pub clustering: Vec<String>,
    /// Otherwise it is still being filled.
    pub ready: bool,
}

/// The layouts of the table, and the rate of its queries.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Present {
    pub entries: Vec<Entry>,
    /// Nodes that have each row.
    pub replicas: u32,
    pub queries_per_s: f64,
}

impl Present {
    pub(super) async fn read(
        cluster: &Cluster,
        name: &TableName,
        queries_per_s: f64,
    ) -> Result<Present> {
        let known = catalogue::read(cluster, name).await?;
        let entry = |layout: &helenus_catalogue::Layout| Entry {
            ready: layout.state() == Some(LayoutState::Ready),
            name: layout.name.clone(),
            clustering: layout.clustering.clone(),
        };
        Ok(Present {
            entries: known.layouts().iter().map(entry).collect(),
            replicas: table::replicas(cluster, &name.keyspace).await?,
            queries_per_s,
        })
    }
}

/// A layout in use, against the design.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct InUse {
    pub entry: Entry,
    /// How much more a query would cost on average without it, in microseconds.
    pub saves_us: f64,
    /// The layout of the design that it already is. None if the design does without it.
    pub is: Option<usize>,
}

pub(super) struct Drift {
    pub in_use: Vec<InUse>,
    /// For each layout of the design, the one in use that answers all queries as it does.
    pub stays: Vec<Option<Layout>>,
    /// Layouts of the design that would have to be built.
    pub build: Vec<usize>,
    pub comparison: Comparison,
    pub advice: Advice,
    pub rules: RedesignRules,
    pub standing: Standing,
    /// Comparisons are remembered.
    pub is_remembered: bool,
}

impl Drift {
    /// Names for the layouts of the design: of those that stay, their own; for the others, letters that are free.
    pub(super) fn names(&self) -> Vec<String> {
        let taken: Vec<&str> = self
            .in_use
            .iter()
            .map(|layout| &*layout.entry.name)
            .collect();
        let mut free = (0..26)
            .map(letter)
            .filter(|name| !taken.contains(&&*name.to_lowercase()));
        let name = |at: usize| {
            let own = self.in_use.iter().find(|layout| layout.is == Some(at));
            match own {
                Some(layout) => layout.entry.name.clone(),
                None => free.next().unwrap_or_else(|| letter(at)),
            }
        };
        (0..self.stays.len()).map(name).collect()
    }

    /// When the saving is as large as the build; None if nothing is saved.
    pub(super) fn pays_after_s(&self) -> Option<f64> {
        let saved_per_s = self.comparison.saved_per_s();
        (saved_per_s > 0.0).then(|| self.comparison.build_s / saved_per_s)
    }
}

/// The basis of a comparison.
pub(super) struct Basis<'a> {
    pub table: &'a Table,
    pub full_name: &'a str,
    pub model: &'a SampledModel<'a>,
    pub design: &'a Design,
    pub storage: Storage,
    pub rows_total: f64,
    pub costs: &'a Costs,
}

pub(super) fn judge(args: &DriftArgs, present: Present, basis: &Basis<'_>) -> Result<Drift> {
    let entries = present.entries.iter();
    let layouts = entries.map(|entry| layout_of(basis.table, entry));
    let layouts: Vec<Layout> = layouts.collect::<Result<_>>()?;
    let rules = args.rules();
    let (build, is) = matched(basis, &layouts);
    let cost_us = cost_with(basis, &layouts);
    let without = |left_out: usize| {
        let others = layouts.iter().enumerate().filter(|(at, _)| *at != left_out);
        cost_with(
            basis,
            &others.map(|(_, layout)| layout.clone()).collect::<Vec<_>>(),
        )
    };
    let in_use = present.entries.iter().zip(&is).enumerate();
    let in_use = in_use.map(|(at, (entry, is))| InUse {
        entry: entry.clone(),
        saves_us: (without(at) - cost_us).max(0.0),
        is: *is,
    });
    let in_use: Vec<InUse> = in_use.collect();
    let built = Build {
        rows: basis.rows_total,
        layouts: build.len(),
        replicas: present.replicas,
        write_row_us: basis.costs.write_row_us,
        storage: basis.storage,
    };
    let comparison = Comparison {
        cost_us,
        // Without anything to build nothing is saved, whatever rounding makes of equal costs; nor by a design
        // that is smaller than what is in use.
        best_cost_us: match build.is_empty() {
            true => cost_us,
            false => basis.design.cost_us.min(cost_us),
        },
        queries_per_s: present.queries_per_s,
        build_s: built.seconds(&basis.costs.coefficients),
    };
    let stays = (0..basis.design.layouts.len()).map(|at| {
        let found = is.iter().position(|is| *is == Some(at));
        found.and_then(|in_use| layouts.get(in_use).cloned())
    });
    let stays: Vec<Option<Layout>> = stays.collect();
    let seen = Seen::new(basis.full_name, &present.entries);
    let before = args
        .state
        .as_deref()
        .map(|path| seen.read(path))
        .transpose()?;
    let mut redesign = Redesign::resume(rules, before.unwrap_or_default());
    let advice = redesign.on_comparison(&comparison);
    let standing = redesign.standing();
    if let Some(path) = &args.state {
        seen.write(path, standing)?;
    }
    Ok(Drift {
        in_use,
        stays,
        build,
        comparison,
        advice,
        rules,
        standing,
        is_remembered: args.state.is_some(),
    })
}

/// With the table itself.
fn cost_with(basis: &Basis<'_>, layouts: &[Layout]) -> f64 {
    let own = Layout::own(basis.table.clustering());
    mean_cost_us(basis.model, &[std::slice::from_ref(&own), layouts].concat())
}

/// Layouts of the design that there is nothing like yet; and for each layout in use, which of the design it
/// is. Orders that no query tells apart are the same.
fn matched(basis: &Basis<'_>, in_use: &[Layout]) -> (Vec<usize>, Vec<Option<usize>>) {
    let (model, designed) = (basis.model, &basis.design.layouts);
    let own = Layout::own(basis.table.clustering());
    let mut is = vec![None; in_use.len()];
    let mut build: Vec<usize> = Vec::new();
    for (at, layout) in designed.iter().enumerate() {
        let same = |other: &Layout| is_same_for(model, layout, other);
        let there = in_use.iter().position(same);
        let is_there = match there {
            Some(there) => {
                is[there].get_or_insert(at);
                true
            }
            // A second copy only insures the first.
            None => same(&own) || build.iter().any(|before| same(&designed[*before])),
        };
        if !is_there {
            build.push(at);
        }
    }
    (build, is)
}

fn layout_of(table: &Table, entry: &Entry) -> Result<Layout> {
    let columns = entry.clustering.iter().map(|name| table.column(name));
    let columns: Option<Vec<usize>> = columns.collect();
    let fits = |columns: &Vec<usize>| columns.len() == table.clustering();
    let layout = columns
        .filter(fits)
        .and_then(|columns| Layout::new(&columns));
    layout.with_context(|| {
        format!(
            "layout {} in the catalogue does not have the clustering columns of the table: see helenus layouts \
             status",
            entry.name
        )
    })
}

/// Contents of the file.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Remembered {
    table: String,
    /// The clustering columns of each layout in use.
    layouts: Vec<Vec<String>>,
    in_a_row: u32,
    advised: bool,
}

/// The table and layouts that are compared this time.
struct Seen<'a> {
    table: &'a str,
    layouts: Vec<Vec<String>>,
}

impl<'a> Seen<'a> {
    fn new(table: &'a str, entries: &[Entry]) -> Seen<'a> {
        let layouts = entries.iter().map(|entry| entry.clustering.clone());
        Seen {
            table,
            layouts: layouts.collect(),
        }
    }

    /// The standing of earlier comparisons of these layouts.
    fn read(&self, path: &Path) -> Result<Standing> {
        let shown = path.display();
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Ok(Standing::default());
            }
            Err(error) => return Err(error).with_context(|| format!("cannot read {shown}")),
        };
        let before: Remembered = serde_json::from_str(&text).with_context(|| {
            format!("{shown} was not written by helenus layouts advise --state: name another file, or remove it")
        })?;
        if before.table != self.table {
            bail!(
                "{shown} is about {}, not about {}: name a file for each table",
                before.table,
                self.table
            );
        }
        match before.layouts == self.layouts {
            true => Ok(Standing {
                in_a_row: before.in_a_row,
                advised: before.advised,
            }),
            // They were changed meanwhile, so nothing that was seen is about these.
            false => Ok(Standing::default()),
        }
    }

    /// All of it or nothing.
    fn write(&self, path: &Path, standing: Standing) -> Result<()> {
        let shown = path.display();
        let remembered = Remembered {
            table: self.table.to_owned(),
            layouts: self.layouts.clone(),
            in_a_row: standing.in_a_row,
            advised: standing.advised,
        };
        let text = serde_json::to_string_pretty(&remembered)?;
        let mut new = path.as_os_str().to_owned();
        new.push(".new");
        std::fs::write(&new, text + "\n")
            .and_then(|()| std::fs::rename(&new, path))
            .with_context(|| format!("cannot write {shown}"))
    }
}

#[cfg(test)]
mod tests;
