//! Scenarios: steps of workers at the same time.

mod logins;
mod memory;
mod permits;
mod scans;
mod statements;
mod turns;

use std::time::Instant;

use shuttle::sync::mpsc::{Receiver, Sender, channel};

pub use logins::logins;
pub use memory::memory;
pub use permits::permits;
pub use scans::scans;
pub use statements::statements;
pub use turns::turns;

/// How workers tell each other something: those to write to, and for each the one that it reads.
fn channels<M: Send + 'static>(workers: usize) -> (Vec<Sender<M>>, Vec<Receiver<M>>) {
    (0..workers).map(|_| channel()).unzip()
}

/// Time does not pass.
#[allow(clippy::disallowed_methods)]
fn begin() -> Instant {
    use std::sync::LazyLock;
    static BEGIN: LazyLock<Instant> = LazyLock::new(Instant::now);
    *BEGIN
}
