//! Filling tables without giving up at the first time-out: nodes whose CPU is capped, or which have just
//! started, may not keep up for a while.

use anyhow::{Context, Result};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::task::JoinSet;

/// How often a write is tried.
pub(crate) const ATTEMPTS: u32 = 8;
/// Tests do not wait for nodes.
const PAUSE: Duration = Duration::from_millis(if cfg!(test) { 1 } else { 250 });

/// The wait before an attempt, which grows so that nodes catch up.
pub(crate) async fn pause_before(attempt: u32) {
    tokio::time::sleep(PAUSE * attempt).await;
}

/// Performs the writes of all numbers below `count`, `clients` at a time. Failed writes are tried again.
pub(crate) async fn fill<W, F>(count: u64, clients: usize, write: W) -> Result<()>
where
    W: Fn(u64) -> F + Send + Sync + 'static,
    F: Future<Output = Result<()>> + Send + 'static,
{
    let (write, next) = (Arc::new(write), Arc::new(AtomicU64::new(0)));
    let mut tasks: JoinSet<Result<()>> = JoinSet::new();
    for _ in 0..clients {
        let (write, next) = (write.clone(), next.clone());
        tasks.spawn(async move {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= count {
                    return Ok(());
                }
                let mut attempt = 1;
                while let Err(error) = write(number).await {
                    if attempt == ATTEMPTS {
                        return Err(error);
                    }
                    pause_before(attempt).await;
                    attempt += 1;
                }
            }
        });
    }
    while let Some(ended) = tasks.join_next().await {
        ended.context("a filling client has failed")??;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::bail;

    #[tokio::test]
    async fn what_fails_is_tried_again_and_everything_is_written() {
        let written = Arc::new(AtomicU64::new(0));
        let tries = Arc::new(AtomicU64::new(0));
        let (of_writes, of_tries) = (written.clone(), tries.clone());
        fill(100, 7, move |number| {
            let (written, tries) = (of_writes.clone(), of_tries.clone());
            async move {
                if tries.fetch_add(1, Ordering::Relaxed).is_multiple_of(3) {
                    bail!("timed out");
                }
                written.fetch_add(number, Ordering::Relaxed);
                Ok(())
            }
        })
        .await
        .unwrap();
        assert_eq!(written.load(Ordering::Relaxed), 99 * 100 / 2);
        assert!(tries.load(Ordering::Relaxed) > 100);
    }

    #[tokio::test]
    async fn what_never_succeeds_ends_the_filling() {
        let failed = fill(10, 2, |_| async { bail!("no such table") }).await;
        assert_eq!(failed.unwrap_err().to_string(), "no such table");
    }
}
