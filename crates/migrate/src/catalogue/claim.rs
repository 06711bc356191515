//! The right of a command to go on writing what it works on: another may have taken that over.
//!
//! Whoever takes over puts entries with another number into the catalogue. A command reads the catalogue again and again
//! while it writes, and relies on what it has read for [`lease`], counted from when it asked. So a write leaves at
//! most that long after another has taken over, also if the process had been stopped, or the machine had slept, in between
//! (the clock is `helenus_proxy::boot_time`). Who takes over waits for that, and for what was sent before (`super::settle`). Not covered is a process that is stopped between its look at
//! the clock and the sending.

use std::time::Duration;

use anyhow::{Error, Result};
use helenus_catalogue::waits::{lease, scaled};
use helenus_proxy::boot_time;
use helenus_rows::TableName;
use tokio::sync::Mutex;

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

    /// To be called right before each write, and before what is written to is emptied, dropped or altered.
    ///
    /// # Errors
    /// Another command has taken over, or the catalogue cannot be read.
    pub(crate) async fn renew(&self) -> Result<()> {
        self.lease.renew(boot_time::now, || self.look()).await
    }

    async fn look(&self) -> Result<()> {
        (self.check)(&read(self.cluster, self.table).await?)
    }

    /// The result, or its cause: if another command has taken over, what was asked for may not exist any more.
    pub(crate) async fn explained<T>(&self, done: Result<T>) -> Result<T> {
        match done {
            Ok(done) => Ok(done),
            Err(why) => {
                let known = read(self.cluster, self.table).await;
                Err(cause(why, known, &self.check))
            }
        }
    }
}

/// Looks at what must be so for what is done next, until the look is no older than a reading of the catalogue may be. For
/// what no entry stands for.
///
/// # Errors
/// It is not so.
pub(crate) async fn look_right_before(look: impl AsyncFn() -> Result<()>) -> Result<()> {
    Lease::default().renew(boot_time::now, look).await
}

/// Why something has failed: that another command has taken over, where the catalogue says so, and else what was said. A
/// catalogue that cannot be read, perhaps for the same reason, says nothing of it.
fn cause(why: Error, known: Result<Known>, check: impl Fn(&Known) -> Result<()>) -> Error {
    let checked = known.map(|known| check(&known));
    match checked {
        Ok(Err(superseded)) => superseded,
        Ok(Ok(())) | Err(_) => why,
    }
}

/// Since when a reading counts, by the clock that [`Lease::renew`] is given.
#[derive(Default)]
struct Lease(Mutex<Option<Duration>>);

impl Lease {
    /// Looks, unless somebody has done so a short while ago. While one looks, all others wait.
    async fn renew(
        &self,
        now: impl Fn() -> Duration,
        look: impl AsyncFn() -> Result<()>,
    ) -> Result<()> {
        let mut asked = self.0.lock().await;
        if asked.is_some_and(|asked| now().saturating_sub(asked) < scaled(RENEWED_AFTER)) {
            return Ok(());
        }
        loop {
            let began = now();
            look().await?;
            *asked = Some(began);
            if now().saturating_sub(began) < lease() {
                return Ok(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use anyhow::{anyhow, bail};
    use helenus_catalogue::LEASE;

    use super::*;

    /// A clock that goes on when it is told to.
    #[derive(Default)]
    struct Clock(Cell<Duration>);

    impl Clock {
        fn now(&self) -> Duration {
            self.0.get()
        }

        fn advance(&self, by: Duration) {
            self.0.set(self.0.get() + by);
        }
    }

    #[tokio::test]
    async fn one_reading_serves_all_writes_of_a_while() {
        let (lease, clock, looks) = (Lease::default(), Clock::default(), Cell::new(0));
        let look = async || {
            looks.set(looks.get() + 1);
            Ok(())
        };
        for (wait, expected) in [
            (Duration::ZERO, 1),
            (RENEWED_AFTER / 2, 1),
            (RENEWED_AFTER / 2, 2),
        ] {
            clock.advance(wait);
            let renewed = lease.renew(|| clock.now(), look).await;
            renewed.expect("not superseded");
            assert_eq!(looks.get(), expected);
        }
    }

    #[tokio::test]
    async fn after_a_stop_no_write_leaves_before_the_catalogue_was_read() {
        let (lease, clock) = (Lease::default(), Clock::default());
        let is_superseded = Cell::new(false);
        let look = async || {
            let was = is_superseded.get();
            tokio::task::yield_now().await;
            clock.advance(Duration::from_millis(20));
            match was {
                true => bail!("somebody else is at work"),
                false => Ok(()),
            }
        };
        let renew = || lease.renew(|| clock.now(), look);
        renew().await.expect("not superseded");
        is_superseded.set(true);
        clock.advance(LEASE);
        // Several were about to write when the process was stopped.
        let writes = (0..4).map(|_| renew());
        let written = futures::future::join_all(writes).await;
        assert!(written.iter().all(Result::is_err), "{written:?}");
    }

    #[tokio::test]
    async fn a_reading_that_took_too_long_is_repeated() {
        let (lease, clock, looks) = (Lease::default(), Clock::default(), Cell::new(0));
        let look = async || {
            looks.set(looks.get() + 1);
            // The process was stopped while it waited for the first answer, and was superseded then.
            match looks.get() {
                1 => clock.advance(LEASE),
                _ => bail!("somebody else is at work"),
            }
            Ok(())
        };
        assert!(lease.renew(|| clock.now(), look).await.is_err());
    }

    #[test]
    fn what_failed_is_told_unless_the_catalogue_says_that_another_has_taken_over() {
        let told = |known: Result<Known>, is_superseded: bool| {
            let check = |_: &Known| match is_superseded {
                true => bail!("somebody else is at work"),
                false => Ok(()),
            };
            cause(anyhow!("the disk is full"), known, check).to_string()
        };
        assert_eq!(told(Ok(Known::default()), false), "the disk is full");
        assert_eq!(told(Ok(Known::default()), true), "somebody else is at work");
        let unread = || Err(anyhow!("no node answers"));
        assert_eq!(told(unread(), true), "the disk is full");
    }
}
