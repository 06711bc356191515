//! Whether a command may still write what it works on: another may have taken that over.
//!
//! Whoever takes over puts entries with another number into the catalogue. A command reads the catalogue again and again
//! while it writes, and relies on what it has read for [`LEASE`], counted from when it asked. So a write leaves at
//! most that long after another has taken over, also if the process had been stopped in between. Who takes over waits for
//! that, and for what was sent before (`super::settle`). Not covered is a process that is stopped between its look at
//! the clock and the sending.

use std::time::Duration;

use anyhow::Result;
use helenus_catalogue::LEASE;
use helenus_rows::TableName;
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::belief::read;
use super::entries::Known;
use crate::nodes::cluster::Cluster;

/// The catalogue is read again this long after it was.
const RENEWED_AFTER: Duration = Duration::from_secs(5);

type Check<'a> = Box<dyn Fn(&Known) -> Result<()> + 'a>;

/// A command's claim to entries of a table.
pub(crate) struct Claim<'a> {
    cluster: &'a Cluster,
    table: &'a TableName,
    /// Fails if they are no longer as the command has put them in.
    check: Check<'a>,
    lease: Lease,
}

impl<'a> Claim<'a> {
    pub(crate) fn new(
        cluster: &'a Cluster,
        table: &'a TableName,
        check: impl Fn(&Known) -> Result<()> + 'a,
    ) -> Claim<'a> {
        Claim {
            cluster,
            table,
            check: Box::new(check),
            lease: Lease::default(),
        }
    }

    /// To be called right before each write.
    ///
    /// # Errors
    /// Another command has taken over, or the catalogue cannot be read.
    pub(crate) async fn renew(&self) -> Result<()> {
        self.lease.renew(|| self.look()).await
    }

    /// Reads the catalogue, however long ago that was.
    pub(crate) async fn look(&self) -> Result<()> {
        (self.check)(&read(self.cluster, self.table).await?)
    }

    /// What was done, or why not: if another command has taken over, what was asked for may not exist any more.
    pub(crate) async fn explained<T>(&self, done: Result<T>) -> Result<T> {
        if done.is_err() {
            self.look().await?;
        }
        done
    }
}

/// Since when a reading counts.
#[derive(Default)]
struct Lease(Mutex<Option<Instant>>);

impl Lease {
    /// Looks, unless somebody has done so a short while ago. While one looks, all others wait.
    async fn renew(&self, look: impl AsyncFn() -> Result<()>) -> Result<()> {
        let mut asked = self.0.lock().await;
        if asked.is_some_and(|asked| asked.elapsed() < RENEWED_AFTER) {
            return Ok(());
        }
        loop {
            let now = Instant::now();
            look().await?;
            *asked = Some(now);
            if now.elapsed() < LEASE {
                return Ok(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use anyhow::bail;
    use tokio::time::{advance, sleep};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn one_reading_serves_all_writes_of_a_while() {
        let (lease, looks) = (Lease::default(), Cell::new(0));
        let look = async || {
            looks.set(looks.get() + 1);
            Ok(())
        };
        for (wait, expected) in [
            (Duration::ZERO, 1),
            (RENEWED_AFTER / 2, 1),
            (RENEWED_AFTER / 2, 2),
        ] {
            advance(wait).await;
            lease.renew(look).await.expect("not superseded");
            assert_eq!(looks.get(), expected);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn after_a_stop_no_write_leaves_before_the_catalogue_was_read() {
        let (lease, is_superseded) = (Lease::default(), Cell::new(false));
        let look = async || {
            let was = is_superseded.get();
            sleep(Duration::from_millis(20)).await;
            match was {
                true => bail!("somebody else is at work"),
                false => Ok(()),
            }
        };
        lease.renew(look).await.expect("not superseded");
        is_superseded.set(true);
        advance(LEASE).await;
        // Several were about to write when the process was stopped.
        let writes = (0..4).map(|_| lease.renew(look));
        let written = futures::future::join_all(writes).await;
        assert!(written.iter().all(Result::is_err), "{written:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_reading_that_took_too_long_is_repeated() {
        let (lease, looks) = (Lease::default(), Cell::new(0));
        let look = async || {
            looks.set(looks.get() + 1);
            // The process was stopped while it waited for the first answer, and was superseded then.
            match looks.get() {
                1 => sleep(LEASE).await,
                _ => bail!("somebody else is at work"),
            }
            Ok(())
        };
        assert!(lease.renew(look).await.is_err());
    }
}
