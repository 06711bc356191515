//! Taking over the clients of the proxy before this one: see `passing.rs`.

use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use helenus_engine::session::handover::passed::{NotAdopted, PassedClient};
use tokio::net::UnixStream;
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::handover::ask_for_clients;
use crate::handover::packets::{self, Passed, Taken};
use crate::process::{Arriving, Process, ToWorker};

/// For the workers, to take clients in.
const PATIENCE: Duration = Duration::from_secs(5);

/// Takes over clients until the other proxy has no more of them.
pub(crate) async fn adopt_all(common: Arc<Process>, mut stream: UnixStream) {
    let mut adopting = Adopting {
        common,
        next_worker: 0,
        adopted: 0,
        refused: 0,
    };
    let ended = adopting.run(&mut stream).await;
    let Adopting {
        adopted, refused, ..
    } = adopting;
    match ended {
        Ok(()) => tracing::info!(
            adopted,
            refused,
            "the clients of the proxy before this one are served"
        ),
        // It has ended, or has no clients.
        Err(e) if is_closed(&e) => tracing::info!(
            adopted,
            refused,
            "the proxy before this one passes no further clients on"
        ),
        // The other one goes on with the rest.
        Err(e) => tracing::warn!(adopted, refused, "no further clients are taken over: {e:#}"),
    }
}

/// True if the other proxy has closed the connection: an older one does so once it has left.
fn is_closed(error: &anyhow::Error) -> bool {
    let kind = error.downcast_ref::<std::io::Error>().map(|e| e.kind());
    matches!(
        kind,
        Some(ErrorKind::BrokenPipe | ErrorKind::ConnectionReset)
    )
}

struct Adopting {
    common: Arc<Process>,
    /// They take turns.
    next_worker: usize,
    adopted: usize,
    refused: usize,
}

/// Clients that workers have taken in, and do not serve yet.
struct TakenIn {
    outcomes: Vec<Option<String>>,
    confirm: Vec<oneshot::Sender<()>>,
}

impl Adopting {
    async fn run(&mut self, stream: &mut UnixStream) -> Result<()> {
        ask_for_clients(stream)
            .await
            .context("the proxy before this one does not pass them on")?;
        while let Some((passed, sockets)) = packets::receive(stream).await? {
            match passed {
                Passed::Statements(statements) => {
                    for statement in statements {
                        self.common.adopt_statement(statement);
                    }
                    packets::send(stream, &Taken::Statements, &[]).await?;
                }
                Passed::Clients(clients) => self.take_over(stream, clients, sockets).await?,
            }
        }
        Ok(())
    }

    async fn take_over(
        &mut self,
        stream: &mut UnixStream,
        clients: Vec<PassedClient>,
        sockets: Vec<OwnedFd>,
    ) -> Result<()> {
        ensure!(
            clients.len() == sockets.len(),
            "{} sockets for {} clients",
            sockets.len(),
            clients.len()
        );
        let TakenIn { outcomes, confirm } = self.take_in(clients, sockets).await?;
        let refused = outcomes.iter().flatten().count();
        self.adopted += outcomes.len() - refused;
        self.refused += refused;
        packets::send(stream, &Taken::Clients(outcomes), &[]).await?;
        // Without waiting in between: they are this one's from now on.
        for confirm in confirm {
            // A worker that has ended has closed its clients.
            let _ = confirm.send(());
        }
        Ok(())
    }

    /// Spreads clients over the workers.
    async fn take_in(
        &mut self,
        clients: Vec<PassedClient>,
        sockets: Vec<OwnedFd>,
    ) -> Result<TakenIn> {
        let mut outcomes: Vec<Option<String>> = vec![None; clients.len()];
        if self.common.server_tls.load().is_some() {
            outcomes.fill(Some(NotAdopted::NotEncrypted.to_string()));
            let confirm = Vec::new();
            return Ok(TakenIn { outcomes, confirm });
        }
        let workers = self.common.worker_count();
        ensure!(workers > 0, "there are no workers");
        let mut of_workers: Vec<(Vec<usize>, Vec<_>)> = Vec::new();
        of_workers.resize_with(workers, Default::default);
        for (at, client) in clients.into_iter().zip(sockets).enumerate() {
            let (places, arriving) = &mut of_workers[self.next_worker % workers];
            places.push(at);
            arriving.push(client);
            self.next_worker += 1;
        }
        let mut awaited = Vec::new();
        let mut confirm = Vec::new();
        for (worker, (places, clients)) in of_workers.into_iter().enumerate() {
            let (sender, said) = oneshot::channel();
            let (go, confirmed) = oneshot::channel();
            let arriving = Arriving {
                clients,
                outcomes: sender,
                confirmed,
            };
            if !places.is_empty() {
                self.common
                    .send_to_worker(worker, ToWorker::Adopt(arriving));
                awaited.push((places, said));
                confirm.push(go);
            }
        }
        for (places, said) in awaited {
            let Ok(Ok(said)) = timeout(PATIENCE, said).await else {
                bail!("a worker does not take them in");
            };
            for (at, outcome) in places.into_iter().zip(said) {
                outcomes[at] = outcome;
            }
        }
        Ok(TakenIn { outcomes, confirm })
    }
}
