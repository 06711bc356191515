//! `helenus bench layouts --recovery`.

use super::args::LayoutsArgs;
use super::design::Designs;
use super::losses::OwnLosses;
use super::table::recovery_table;
use crate::bench::common::{Nodes, tell};
use crate::bench::variants::{self, checked};
use anyhow::{Context, Result};
use helenus_console::terminal::{narrate, spinner};
use helenus_load::client::endpoint::Policy;
use helenus_load::experiments::arms::{HELENUS, TOKEN_AWARE};
use helenus_load::experiments::layouts::{Copies, Instances, Orders, create};
use std::sync::Arc;
use std::time::Instant;

pub(super) async fn recovery(args: &LayoutsArgs, began: Instant) -> Result<()> {
    let common = &args.common;
    let rounds = common.rounds(2, 5)?;
    let mut variants = checked(args.variants())?;
    variants.retain(|variant| variant.name == HELENUS);
    let bar = spinner("generating orders");
    let orders = Arc::new(Orders::generate(args.scale(), args.branches)?);
    let instances = Instances::draw(&orders, args.instances as usize, common.seed);
    let designs = Designs::of(&orders, &instances, args.added(), common.seed)?;
    bar.finish_and_clear();
    let parts = args.parts_of_recovery(&designs);

    // A node asks itself first then, so that what it has lost can be told.
    let mut nodes = Nodes::up_with(common, |spec| spec.yaml("dynamic_snitch", "false")).await?;
    let bar = spinner("creating tables");
    let say = &mut narrate(&bar, began);
    let direct = args.endpoint(TOKEN_AWARE, &nodes.contact_points, Policy::TokenAware);
    let copies: Vec<Copies> = parts.iter().map(|part| part.copies.clone()).collect();
    create(&copies, &orders, &direct, common.replicas(), say).await?;
    let proxies = variants::start(variants, &nodes.contact_points, &bar).await?;
    let mut report = nodes.report("layouts", common, rounds);
    variants::describe(&mut report, &proxies);
    for part in &parts {
        let name = format!("tables of {}", part.writer);
        report.settings.insert(name, part.chosen.describe());
    }
    let mut experiment = args.experiment_of_recovery(&nodes, &parts, &proxies, began)?;
    experiment.orders = orders;
    experiment.fill_for_recovery(&mut report, say).await?;
    nodes.cap_cpu(common, &mut report)?;
    let cluster = nodes.own.as_mut();
    let mut losses = OwnLosses::of(cluster.context("the nodes are this command's")?)?;
    losses.complete_catalogue()?;
    experiment.recover(&mut losses, &mut report, say).await?;
    bar.finish_and_clear();
    let cells = recovery_table(&report);
    tell(&report, common, Some(cells))?;
    drop(proxies);
    nodes.down()
}
