//! The demo's table with layouts: one airport's flights, asked by three keys.

use super::data::KEYSPACE;
use super::progress::{done, step};
use crate::load::show;
use anyhow::{Context, Result, ensure};
use helenus_load::client::endpoint::Endpoint;
use helenus_load::run::Progress;
use helenus_load::workload::flights::dataset::Dataset;
use helenus_load::workload::flights::three_keys::{self, LAYOUTS, TABLE};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Instant;

/// Creates the table and starts `helenus layouts create`, which waits until every proxy knows of the
/// layouts: that takes it half a minute, in which other tables can be loaded.
pub(super) async fn create(helenus: &Endpoint, node: &str) -> Result<Child> {
    let session = helenus.connect().await?;
    three_keys::create_table(&session, KEYSPACE).await?;
    let myself = std::env::current_exe().context("cannot find this program's own file")?;
    let mut command = Command::new(myself);
    command.args(["layouts", "create", &format!("{KEYSPACE}.{TABLE}")]);
    for (name, order) in LAYOUTS {
        command.args(["--layout", &format!("{name}={}", order.join(","))]);
    }
    command
        .args(["--contact", node])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("cannot start `helenus layouts create`")
}

/// Waits for the layouts, and loads the flights, which Helenus writes to all of them.
pub(super) async fn fill(helenus: &Endpoint, data: &Arc<Dataset>, creating: Child) -> Result<()> {
    step(format!(
        "Layouts of {KEYSPACE}.{TABLE}: each copy sorted by another key"
    ));
    let waiting = tokio::task::spawn_blocking(move || creating.wait_with_output());
    let created = waiting
        .await
        .context("the thread that waits for the layouts failed")??;
    ensure!(
        created.status.success(),
        "`helenus layouts create` failed: {}{}",
        String::from_utf8_lossy(&created.stdout),
        String::from_utf8_lossy(&created.stderr)
    );
    for (name, order) in LAYOUTS {
        done(format!(
            "layout {name}: PRIMARY KEY ((origin, month), {})",
            order.join(", ")
        ));
    }
    let begin = Instant::now();
    let progress = Arc::new(Progress::default());
    let batches = three_keys::batch_count(data);
    let shown = show(progress.clone(), format!("{batches} batches of flights"));
    let flights = three_keys::fill(helenus, KEYSPACE, data, 48, progress).await?;
    shown.stop();
    done(format!(
        "{flights} flights, each written to the table and both layouts as one mutation, in {:.0} s",
        begin.elapsed().as_secs_f64()
    ));
    Ok(())
}
