//! Runs named checks one after the other and prints one line for each.

use std::future::Future;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

pub(crate) struct Checks {
    driver: String,
    pub failed: usize,
}

impl Checks {
    pub(crate) fn new(driver: &str) -> Self {
        Self {
            driver: driver.to_owned(),
            failed: 0,
        }
    }

    pub(crate) async fn run<T>(
        &mut self,
        name: &str,
        check: impl Future<Output = Result<T>>,
    ) -> Option<T> {
        match check.await {
            Ok(value) => {
                println!("ok {}/{name}", self.driver);
                Some(value)
            }
            Err(error) => {
                self.failed += 1;
                let why: String = format!("{error:#}")
                    .replace('\n', " ")
                    .chars()
                    .take(600)
                    .collect();
                println!("FAIL {}/{name}: {why}", self.driver);
                None
            }
        }
    }
}

/// Fails the check unless both values are the same.
#[macro_export]
macro_rules! equal {
    ($found:expr, $wanted:expr, $what:expr) => {{
        let (found, wanted) = (&$found, &$wanted);
        anyhow::ensure!(
            found == wanted,
            "{}: found {found:?}, wanted {wanted:?}",
            $what
        );
    }};
}

/// Asks again and again until the answer is yes.
pub(crate) async fn eventually(
    what: &str,
    mut ask: impl AsyncFnMut() -> Result<bool>,
) -> Result<()> {
    let began = Instant::now();
    while !ask().await? {
        if began.elapsed() > Duration::from_secs(15) {
            bail!("not within 15 s: {what}");
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    Ok(())
}
