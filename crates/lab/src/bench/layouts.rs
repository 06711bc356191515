//! `helenus bench layouts`.

use super::common::{Nodes, tell};
use super::variants::{self, checked};
use anyhow::Result;
use args::Held;
use design::Designs;
use helenus_console::open_files::raise_open_files_limit;
use helenus_console::terminal::{narrate, spinner};
use helenus_load::client::endpoint::Policy;
use helenus_load::experiments::arms::{HELENUS, TOKEN_AWARE};
use helenus_load::experiments::layouts::{
    Copies, Derived, Form, Instances, Nodes as NodesBelow, Orders, create,
};
use helenus_load::report::Report;
use nodes::OwnNodes;
use std::sync::Arc;
use std::time::Instant;
use table::cells_table;

mod args;
mod design;
mod losses;
mod nodes;
mod recovery;
mod synthetic;
mod table;

pub(super) use args::LayoutsArgs;

pub(super) async fn layouts(args: LayoutsArgs) -> Result<()> {
    let began = Instant::now();
    raise_open_files_limit();
    args.check()?;
    if args.recovery {
        return recovery::recovery(&args, began).await;
    }
    let common = &args.common;
    let rounds = common.rounds(2, 3)?;
    let variants = checked(args.variants())?;
    let mut skipped = Vec::new();
    let bar = spinner("generating orders");
    let orders = Arc::new(Orders::generate(args.scale(), args.branches)?);
    let instances = Instances::draw(&orders, args.instances as usize, common.seed);
    bar.set_message("designing layouts");
    let designs = Designs::of(&orders, &instances, args.added(), common.seed)?;
    let (synthetic, gaps) = args.synthetic()?;
    bar.finish_and_clear();
    let with_layouts = variants.iter().any(|variant| variant.name == HELENUS);
    let parts = args.parts(&designs, with_layouts, &mut skipped);
    for line in &skipped {
        eprintln!("{line}");
    }

    let mut nodes = Nodes::up_with(common, |spec| args.places(spec)).await?;
    let bar = spinner("creating tables");
    let say = &mut narrate(&bar, began);
    let direct = args.endpoint(TOKEN_AWARE, &nodes.contact_points, Policy::TokenAware);
    let copies: Vec<Copies> = parts.iter().map(|part| part.copies.clone()).collect();
    create(&copies, &orders, &direct, common.replicas(), say).await?;
    // They must find the layouts in the catalogue when they start.
    let proxies = variants::start(variants, &nodes.contact_points, &bar).await?;
    let mut report = nodes.report("layouts", common, rounds);
    variants::describe(&mut report, &proxies);
    describe(&mut report, &designs, &parts);
    report.notes.extend(skipped);
    let all_gaps = gaps.iter().chain(&designs.gaps);
    let gap_max = all_gaps.copied().fold(0.0, f64::max);
    report.set_ratio("anneal_gap_max", &[gap_max]);
    let mut experiment = args.experiment(rounds, &nodes, &parts, &proxies, began)?;
    (experiment.orders, experiment.synthetic) = (orders, synthetic);
    experiment.instances = Arc::new(instances);
    let open = {
        let mut own = nodes.own.as_ref().map(OwnNodes::new);
        let mut below = own.as_mut().map(|own| own as &mut dyn NodesBelow);
        experiment.prepare(&mut below, &mut report, say).await?
    };
    nodes.cap_cpu(common, &mut report)?;
    {
        let mut own = nodes.own.as_ref().map(OwnNodes::new);
        let mut below = own.as_mut().map(|own| own as &mut dyn NodesBelow);
        experiment.run(&open, &mut below, &mut report, say).await?;
    }
    bar.finish_and_clear();
    let cells = cells_table(&report, &experiment.arms);
    tell(&report, common, Some(cells))?;
    drop(open);
    drop(proxies);
    nodes.down()
}

fn describe(report: &mut Report, designs: &Designs, parts: &[Held]) {
    for part in parts {
        let name = format!("tables of {}", part.writer);
        let form = match part.copies.form {
            Form::Indexed => ", with SAI indexes on custkey, orderdate and clerk",
            _ => "",
        };
        let text = format!("{}{form}", part.chosen.describe());
        report.settings.insert(name, text);
    }
    if designs.annealed.is_none() {
        let line = "Simulated annealing found as good a design as the certified one, so there is no arm \
                    of its own for it.";
        report.notes.push(line.into());
    }
    let line = "A layout is one more copy on each replica of its table, as are views and tables copied by hand: \
                disk grows with their number. Derived layouts have one replica each: beside all of the table's \
                (helenus-derived), or each in place of one of these (helenus-equal-disk).";
    report.notes.push(line.into());
    let is_apart = |part: &Held| part.copies.derived == Some(Derived::Apart);
    if parts.iter().any(is_apart) {
        let line = "Each node is a data centre, and the table and each layout of helenus-equal-disk are held in one of \
                    them. Direct arms ask all; proxies are in the first, and ask others only for what it does not hold.";
        report.notes.push(line.into());
    }
}
