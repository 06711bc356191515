//! Arrangements: where the layouts of a design may be held, and what each costs in copies of the table's data.
//!
//! ```text
//! copies in a data centre   replicas of the table, and for each layout
//!   beside the table        as many again: it is in the table's keyspace
//!   derived                 one, if it is held there: it is in a keyspace of its own
//! ```
//!
//! A copy counts as large as the table's, in whichever order it is.

use anyhow::{Context, Result, bail};
use clap::Args;
use helenus_layout::{
    Asked, CostModel, Design, Effort, Held, Layout, PLACES_MAX, PlaceOptions, SampledModel,
    cost_by_place, place, read_at,
};
use helenus_migrate::layouts::names::letter;
use helenus_migrate::layouts::replication::{self, Replication};

use super::workload::Workload;

pub(super) mod commands;

/// Replicas of a table of which nothing is known.
const TABLE_REPLICAS: u8 = 3;
/// About a second.
const EFFORT: Effort = Effort {
    evaluations_max: 1_000_000_000,
};

#[derive(Args)]
pub(super) struct ArrangeArgs {
    /// How the table's keyspace is replicated, such as "{'class': 'NetworkTopologyStrategy', 'dc1': 3, 'dc2': 3}": what
    /// layouts take is told for that [default: as it is, if nodes are asked]
    #[arg(long, value_name = "MAP", value_parser = replication::parse, conflicts_with = "table_replicas")]
    replication: Option<Replication>,
    /// Replicas of the table, if nothing is said of data centres [default: 3]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=50))]
    table_replicas: Option<u8>,
    /// Copies of the table and its layouts, in all data centres together, with which layouts are placed [default: with
    /// several data centres, those of the table and one of each layout in each]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=500))]
    copies_max: Option<u16>,
}

/// A data centre, or a cluster of which none is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub name: Option<String>,
    /// Of the table.
    pub replicas: u32,
}

impl Place {
    pub(super) fn label(&self) -> &str {
        self.name.as_deref().unwrap_or("cluster")
    }
}

/// Where the replication of the table is known from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    Nodes,
    Option,
    Assumed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// The table without layouts.
    Alone,
    /// In the table's keyspace.
    Beside,
    /// In keyspaces of their own, with one replica in each data centre where they are held.
    Derived,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Arrangement {
    pub kind: Kind,
    pub held: Vec<Held>,
    /// Mean of all queries.
    pub cost_us: f64,
    /// Means of those that are asked at each place.
    pub cost_by_place_us: Vec<Option<f64>>,
    /// If layouts were placed under a bound: nothing derived with as many copies costs less.
    pub lower_bound_us: Option<f64>,
}

impl Arrangement {
    /// Copies of layouts at each place.
    pub(super) fn layouts_at(&self, table: &[Place]) -> Vec<u32> {
        let at = |(at, place): (usize, &Place)| {
            let held = self.held.iter().filter(|held| held.places[at]).count() as u32;
            match self.kind {
                Kind::Alone => 0,
                Kind::Beside => held * place.replicas,
                Kind::Derived => held,
            }
        };
        table.iter().enumerate().map(at).collect()
    }

    /// Of the table and the layouts.
    pub(super) fn copies(&self, table: &[Place]) -> u32 {
        copies_of(table) + self.layouts_at(table).iter().sum::<u32>()
    }

    /// The replicas of the table at each place with which no place would have more copies than the table alone has now.
    /// None if that is not fewer, or none at one.
    pub(super) fn table_then(&self, table: &[Place]) -> Option<Vec<u32>> {
        let then = |(at, place): (usize, &Place)| {
            let held = self.held.iter().filter(|held| held.places[at]).count() as u32;
            match self.kind {
                Kind::Alone => 0,
                Kind::Beside => place.replicas / (1 + held),
                Kind::Derived => place.replicas.saturating_sub(held),
            }
        };
        let then: Vec<u32> = table.iter().enumerate().map(then).collect();
        then.iter().all(|replicas| *replicas > 0).then_some(then)
    }

    /// Places where a layout is held.
    pub(super) fn serves(&self, places: usize) -> Vec<bool> {
        let at = |at: usize| self.held.iter().any(|held| held.places[at]);
        (0..places).map(at).collect()
    }
}

fn copies_of(table: &[Place]) -> u32 {
    table.iter().map(|place| place.replicas).sum()
}

pub(super) struct Arranged {
    pub table: Vec<Place>,
    pub source: Source,
    /// Layouts with their names.
    pub layouts: Vec<(String, Layout)>,
    /// First the table alone.
    pub all: Vec<Arrangement>,
}

impl Arranged {
    pub(super) fn name(&self, layout: &Layout) -> &str {
        let found = self.layouts.iter().find(|(_, other)| other == layout);
        found.map_or("?", |(name, _)| name)
    }

    /// How much disk an arrangement takes of what the table alone takes now.
    pub(super) fn disk(&self, arrangement: &Arrangement) -> f64 {
        f64::from(arrangement.copies(&self.table)) / f64::from(copies_of(&self.table))
    }
}

/// More than any cluster has.
const DATA_CENTRES_MAX: usize = 32;

pub(super) struct Basis<'a> {
    pub workload: &'a Workload,
    pub model: &'a SampledModel<'a>,
    pub design: &'a Design,
    /// Of the design's layouts.
    pub names: &'a [String],
    /// Names of layouts in use.
    pub taken: &'a [String],
    pub permuted: &'a [usize],
    /// As the nodes say it.
    pub replication: Option<&'a str>,
}

pub(super) fn arrange(args: &ArrangeArgs, basis: &Basis<'_>) -> Result<Arranged> {
    let (table, source) = replicated(args, basis.replication)?;
    if table.len() > DATA_CENTRES_MAX {
        bail!(
            "the replication names {} data centres, more than {DATA_CENTRES_MAX}",
            table.len()
        );
    }
    let asked = asked(basis, &table)?;
    let columns = basis.workload.table.clustering();
    let mut arranged = Arranged {
        table,
        source,
        layouts: distinct(basis.design, basis.names, columns),
        all: Vec::new(),
    };
    let places = arranged.table.len();
    let of = |kind: Kind, held: Vec<Held>| {
        let cost_by_place_us = cost_by_place(basis.model, columns, &held, &asked);
        Arrangement {
            kind,
            held,
            cost_us: mean(&cost_by_place_us, &asked),
            cost_by_place_us,
            lower_bound_us: None,
        }
    };
    let layouts: Vec<Layout> = arranged.layouts.iter().map(|(_, l)| l.clone()).collect();
    let held = |at: &dyn Fn(usize) -> Vec<bool>| {
        let held = layouts.iter().enumerate().map(|(layout, of)| Held {
            layout: of.clone(),
            places: at(layout),
        });
        held.filter(|held| held.copies() > 0).collect::<Vec<_>>()
    };
    let read = read_at(basis.model, columns, &layouts, &asked);
    let mut all = vec![of(Kind::Alone, Vec::new())];
    all.push(of(Kind::Beside, held(&|_| vec![true; places])));
    all.push(of(Kind::Derived, held(&|layout| read[layout].clone())));
    for only in 0..places {
        let here = |layout: usize| {
            (0..places)
                .map(|at| at == only && read[layout][at])
                .collect()
        };
        all.push(of(Kind::Derived, held(&here)));
    }
    for arrangement in all {
        let is_new = arrangement.kind == Kind::Alone || !arrangement.held.is_empty();
        if is_new && !arranged.all.contains(&arrangement) {
            arranged.all.push(arrangement);
        }
    }
    if let Some(copies_max) = copies_max(args, &arranged.table, layouts.len())? {
        let options = PlaceOptions {
            permuted: basis.permuted.to_vec(),
            known: layouts,
            asked: asked.clone(),
            copies_max,
            effort: EFFORT,
        };
        for placement in place(basis.model, columns, &options) {
            let placed = of(Kind::Derived, placement.held);
            let same = |of: &&mut Arrangement| (of.kind, &of.held) == (placed.kind, &placed.held);
            let bound = Some(placement.lower_bound_us);
            match arranged.all.iter_mut().find(same) {
                Some(same) => same.lower_bound_us = bound,
                None => arranged.all.push(Arrangement {
                    lower_bound_us: bound,
                    ..placed
                }),
            }
        }
        name_others(&mut arranged, basis.taken);
    }
    Ok(arranged)
}

fn replicated(args: &ArrangeArgs, of_nodes: Option<&str>) -> Result<(Vec<Place>, Source)> {
    let (replication, source) = match (&args.replication, args.table_replicas, of_nodes) {
        (Some(said), ..) => (said.clone(), Source::Option),
        (None, None, Some(of_nodes)) => {
            let parsed = replication::parse(of_nodes);
            let parsed = parsed.context("say with --replication how the table is replicated")?;
            (parsed, Source::Nodes)
        }
        (None, replicas, _) => {
            let place = Place {
                name: None,
                replicas: replicas.unwrap_or(TABLE_REPLICAS).into(),
            };
            return Ok((vec![place], Source::Assumed));
        }
    };
    let replicas = replication.replicas()?.into_iter();
    let places = replicas.map(|(name, replicas)| Place { name, replicas });
    Ok((places.collect(), source))
}

/// How often each query is asked at each place.
fn asked(basis: &Basis<'_>, table: &[Place]) -> Result<Asked> {
    let lines = &basis.workload.statements;
    for line in lines {
        let Some(name) = &line.data_center else {
            continue;
        };
        if !table.iter().any(|place| place.name.as_ref() == Some(name)) {
            let known: Vec<&str> = table.iter().filter_map(|p| p.name.as_deref()).collect();
            let known = match &known[..] {
                [] => "say with --replication in which it has some".to_owned(),
                some => format!("it has some in {}", some.join(", ")),
            };
            bail!(
                "line {}: the table is not known to have replicas in the data centre {name}: {known}",
                line.number
            );
        }
    }
    let model = basis.model;
    let weight = |query: usize, place: &Place| {
        let statement = model.query(query).map(|query| query.statement);
        let line = statement.and_then(|number| lines.get(number));
        match line.and_then(|line| line.data_center.as_ref()) {
            None => model.weight(query) / table.len() as f64,
            some if some == place.name.as_ref() => model.weight(query),
            Some(_) => 0.0,
        }
    };
    let queries = 0..model.queries();
    let of_place = |place: &Place| queries.clone().map(|query| weight(query, place)).collect();
    Ok(table.iter().map(of_place).collect())
}

fn mean(by_place: &[Option<f64>], asked: &[Vec<f64>]) -> f64 {
    let (mut cost, mut total) = (0.0, 0.0);
    for (mean, weights) in by_place.iter().zip(asked) {
        let weight: f64 = weights.iter().sum();
        cost += mean.unwrap_or(0.0) * weight;
        total += weight;
    }
    cost / total
}

/// The layouts of a design that can be made: each once, and not in the table's own order.
fn distinct(design: &Design, names: &[String], columns: usize) -> Vec<(String, Layout)> {
    let own = Layout::own(columns);
    let mut distinct: Vec<(String, Layout)> = Vec::new();
    for (name, layout) in names.iter().zip(&design.layouts) {
        let is_known = distinct.iter().any(|(_, other)| other == layout);
        if *layout != own && !is_known {
            distinct.push((name.clone(), layout.clone()));
        }
    }
    distinct
}

/// Copies of layouts that may be placed. None if nothing is to be placed.
fn copies_max(args: &ArrangeArgs, table: &[Place], layouts: usize) -> Result<Option<usize>> {
    let of_table = copies_of(table);
    let Some(copies_max) = args.copies_max else {
        let is_divided = table.len() > 1 && table.len() <= PLACES_MAX;
        return Ok(is_divided.then_some(table.len() * layouts));
    };
    if table.len() > PLACES_MAX {
        bail!(
            "layouts can be placed in {PLACES_MAX} data centres, not in {}",
            table.len()
        );
    }
    match u32::from(copies_max).checked_sub(of_table) {
        Some(copies @ 1..) => Ok(Some(copies as usize)),
        _ => bail!(
            "--copies-max {copies_max} leaves nothing for layouts, because the table alone has {of_table} copies: allow \
             more, or say with --replication to how many replicas of the table you would go down"
        ),
    }
}

/// Names the layouts that are in no design by free letters.
fn name_others(arranged: &mut Arranged, taken: &[String]) {
    let own = |at: usize| letter(at).to_lowercase();
    let taken = taken
        .iter()
        .chain(arranged.layouts.iter().map(|(name, _)| name));
    let taken: Vec<String> = taken.map(|name| name.to_lowercase()).collect();
    let mut free = (0..26).filter(|at| !taken.contains(&own(*at))).map(letter);
    let held = arranged.all.iter().flat_map(|of| &of.held);
    for held in held {
        let is_known = arranged.layouts.iter().any(|(_, l)| *l == held.layout);
        if !is_known && let Some(name) = free.next() {
            arranged.layouts.push((name, held.layout.clone()));
        }
    }
}

#[cfg(test)]
mod tests;
