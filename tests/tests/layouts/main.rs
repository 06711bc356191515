//! Tables with layouts before real nodes.

mod batch;
mod client;
mod derived;
mod schema;
mod selects;
mod statement;
mod through;
mod told;
mod values;
mod writes;

use std::time::Instant;

use anyhow::{Context, Result};
use client::Session;
use derived::Counts;
use helenus_tests::proxy::Proxy;
use helenus_tests::raw::{ONE, QUORUM};
use helenus_tests::{kinds, pool};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use schema::TestTable;
use through::History;

/// A number from the environment.
fn setting(name: &str, default: u64) -> Result<u64> {
    match std::env::var(name) {
        Ok(text) => text
            .parse()
            .with_context(|| format!("{name} is not a number")),
        Err(_) => Ok(default),
    }
}

fn create_keyspace(name: &str, replicas: u64) -> String {
    format!(
        "CREATE KEYSPACE {name} WITH replication = \
         {{'class': 'SimpleStrategy', 'replication_factor': {replicas}}}"
    )
}

#[test]
fn a_layout_answers_a_derived_select_as_the_table_does() -> Result<()> {
    let seed = setting("HELENUS_SEED", rand::random::<u32>().into())?;
    let tables = setting("HELENUS_LAYOUT_TABLES", 12)?;
    println!("seed {seed} (HELENUS_SEED), {tables} tables (HELENUS_LAYOUT_TABLES)");
    let cluster = pool::take(kinds::brisk()).context("the node does not start")?;
    let mut session = Session::open(cluster.address(1)?, 5)?;
    session.run(&create_keyspace("ks", 1))?;
    let mut counts = Counts::default();
    let began = Instant::now();
    for number in 0..tables {
        // A table of its own for each seed, so that any of them can be replayed.
        let seed = seed + number;
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let table = TestTable::random(&mut rng, "ks", &format!("t{number}"));
        for text in table.create() {
            session.run(&text).with_context(|| text.clone())?;
        }
        let mut check = || {
            derived::fill(&mut session, &mut rng, &table, 300, &mut counts)?;
            derived::compare(&mut session, &mut rng, &table, 150, &mut counts)?;
            if number % 8 == 0 {
                // New rows above those on disk.
                cluster.nodetool(1, &["flush", "ks"])?;
            }
            derived::fill(&mut session, &mut rng, &table, 50, &mut counts)?;
            derived::compare(&mut session, &mut rng, &table, 150, &mut counts)
        };
        check()
            .with_context(|| format!("replay with HELENUS_SEED={seed} HELENUS_LAYOUT_TABLES=1"))?;
    }
    println!("{counts:?} in {:.0?}", began.elapsed());
    assert!(
        counts.written > 50 * tables as usize,
        "hardly anything was written"
    );
    assert!(
        counts.invalid < counts.selects / 2,
        "most statements were refused"
    );
    assert!(
        counts.chosen > 10 * tables as usize,
        "layouts were hardly ever chosen"
    );
    assert!(counts.rows > counts.compared, "most answers were empty");
    Ok(())
}

#[test]
fn the_proxy_answers_for_tables_with_layouts_as_a_node_does_for_plain_ones() -> Result<()> {
    let seed = setting("HELENUS_SEED", rand::random::<u32>().into())?;
    let tables = setting("HELENUS_LAYOUT_TABLES", 12)?;
    let operations = setting("HELENUS_LAYOUT_OPERATIONS", 6_000)?.div_ceil(tables);
    let nodes = setting("HELENUS_LAYOUT_NODES", 1)?;
    println!(
        "seed {seed} (HELENUS_SEED), {tables} tables (HELENUS_LAYOUT_TABLES), {operations} operations \
         each (HELENUS_LAYOUT_OPERATIONS, for all)"
    );
    let kind = kinds::brisk().nodes(nodes as u16);
    let cluster = pool::take(kind).context("the nodes do not start")?;
    let address = cluster.address(1)?;
    let mut node = Session::open(address, 5)?;
    through::KEYSPACES
        .iter()
        .chain([&through::DERIVED])
        .try_for_each(|name| node.run(&create_keyspace(name, nodes)))?;
    schema::CATALOGUE
        .iter()
        .try_for_each(|text| node.run(text))?;
    let mut histories = Vec::new();
    for number in 0..tables {
        let mut rng = ChaCha8Rng::seed_from_u64(seed + number);
        let table = TestTable::random(&mut rng, through::KEYSPACES[0], &format!("t{number}"));
        let table = match seed.wrapping_add(number) % 3 {
            0 => table,
            _ => table.counted(),
        };
        let table = match seed.wrapping_add(number) % 2 {
            0 => table,
            _ => table.derived(through::DERIVED),
        };
        let mut texts = table.create();
        texts.push(table.create_in(through::KEYSPACES[1]));
        for text in texts {
            node.run(&text).with_context(|| text.clone())?;
        }
        table.register(|text: &str| node.client.query(text).expect(text));
        histories.push((seed + number, rng, table));
    }
    let proxy = Proxy::start_patient(&cluster.contact_points(), &["layouts.enabled=true"])?;
    let began = Instant::now();
    let all_tables: Vec<&TestTable> = histories.iter().map(|(_, _, table)| table).collect();
    let hidden = told::compare(proxy.address, address, &all_tables)?;
    let mut beside = all_tables
        .iter()
        .filter(|table| !table.logical.is_derived());
    let beside = beside.next();
    if let Some(table) = beside {
        told::alter(proxy.address, address, table)?;
    }
    println!(
        "{hidden} rows about layouts left out in {:.1?}",
        began.elapsed()
    );
    assert!(
        hidden > 0 || beside.is_none(),
        "there is nothing to leave out"
    );
    let began = Instant::now();
    let mut all = Vec::new();
    for (seed, rng, table) in histories {
        let version = if seed % 2 == 0 { 4 } else { 5 };
        let mut history = History {
            sessions: [
                Session::open(proxy.address, version)?,
                Session::open(address, version)?,
            ],
            table: &table,
            rng,
            consistency: if nodes > 1 { QUORUM } else { ONE },
            timestamp: 1_000_000,
            is_altered: seed % 4 == 1,
            counts: through::Counts::default(),
        };
        history.run(operations as usize).with_context(|| {
            format!(
                "replay with HELENUS_SEED={seed} HELENUS_LAYOUT_TABLES=1 \
                 HELENUS_LAYOUT_OPERATIONS={operations}"
            )
        })?;
        all.push(history.counts);
    }
    let (_, metrics) = proxy.admin_get("/metrics", None)?;
    let metric = |name: &str| {
        let line = metrics
            .lines()
            .find(|line| line.starts_with(&format!("{name} ")));
        let number = line.and_then(|line| line.rsplit(' ').next());
        number
            .and_then(|number| number.parse::<f64>().ok())
            .unwrap_or(0.0)
    };
    let of_layouts = metric("helenus_layout_reads_total");
    let sorted = metric("helenus_layout_reads_sorted_total");
    println!(
        "{of_layouts} reads of layouts, {sorted} of them sorted, {} repeated on the table, in {:.0?}",
        metric("helenus_layout_reads_fallen_back_total"),
        began.elapsed()
    );
    let sum = |of: fn(&through::Counts) -> usize| all.iter().map(of).sum::<usize>();
    let (selects, invalid) = (sum(|c| c.selects), sum(|c| c.invalid));
    println!(
        "{} operations: {} writes, {} batches, {} refused; {selects} selects with {} rows; {invalid} errors",
        sum(|c| c.operations),
        sum(|c| c.writes),
        sum(|c| c.batches),
        sum(|c| c.refused),
        sum(|c| c.rows),
    );
    assert!(invalid < selects / 2, "most statements were refused");
    assert!(
        of_layouts > selects as f64 / 20.0,
        "layouts were hardly ever read"
    );
    assert!(tables < 6 || sorted > 10.0, "hardly any answer was sorted");
    assert!(sum(|c| c.rows) > selects / 2, "most answers were empty");
    Ok(())
}
