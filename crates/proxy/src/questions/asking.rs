//! Questions of the admin server to workers.

use std::time::Duration;

use helenus_engine::features::{self, records};
use helenus_engine::shared::WorkerMessage;
use helenus_engine::worker_status::{Report, Wanted};

use crate::process::Process;
use crate::questions::Open;

/// A worker that has not answered by then is left out.
const PATIENCE: Duration = Duration::from_secs(2);

/// Answers of workers so far.
#[derive(Debug)]
pub(crate) struct Answers {
    pub reports: Vec<Report>,
    /// Workers that have said nothing in time.
    pub silent: usize,
}

impl Process {
    /// Asks all workers.
    pub(crate) async fn ask_workers(&self, wanted: Wanted) -> Answers {
        let open = self.questions.open();
        let ticket = open.ticket;
        let asked = self.tell_workers(&WorkerMessage::Report { ticket, wanted });
        collect(open, asked).await
    }

    /// Asks all workers for what they remember of requests; also how many have said nothing in time.
    pub(crate) async fn ask_for_records(
        &self,
        wanted: records::Wanted,
    ) -> (Vec<records::Report>, usize) {
        let wanted = features::Wanted::Records(wanted);
        let answers = self.ask_workers(Wanted::Feature(wanted)).await;
        let reports = answers.reports.into_iter();
        let reports = reports.filter_map(|report| match report {
            Report::Feature(features::Report::Records(report)) => Some(report),
            _ => None,
        });
        (reports.collect(), answers.silent)
    }

    /// Asks one worker.
    pub(crate) async fn ask_worker(&self, index: usize, wanted: Wanted) -> Answers {
        let open = self.questions.open();
        let ticket = open.ticket;
        let is_there = self.tell_worker(index, WorkerMessage::Report { ticket, wanted });
        collect(open, usize::from(is_there)).await
    }
}

async fn collect(mut open: Open<'_>, asked: usize) -> Answers {
    let mut reports = Vec::with_capacity(asked);
    let all = async {
        while reports.len() < asked {
            match open.answers.recv().await {
                Some(report) => reports.push(report),
                None => break,
            }
        }
    };
    // Whoever is silent is counted below.
    let _ = tokio::time::timeout(PATIENCE, all).await;
    Answers {
        silent: asked - reports.len(),
        reports,
    }
}
