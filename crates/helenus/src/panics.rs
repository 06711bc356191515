//! A panic in any thread or task of a proxy ends the process: what has lost a task would keep its clients and its share of
//! the port, and answer nobody. Whoever supervises the process starts it again.

use std::time::Duration;

use crate::log_output;

/// For the last lines of the log: whoever should take them may not.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// From now on any panic is reported, after all that has been logged before it, and then aborts the process. The hook
/// runs where the panic is, before anything could catch it.
pub(crate) fn end_process_on_panic() {
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let _ = std::thread::Builder::new().spawn(|| {
            std::thread::sleep(LAST_WORDS);
            std::process::abort();
        });
        log_output::flush();
        report(panic);
        std::process::abort();
    }));
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::unix::process::ExitStatusExt;
    use std::process::{Command, Stdio};
    use std::sync::Arc;

    use helenus_proxy::LogLines;
    use tracing_subscriber::layer::SubscriberExt;

    use super::*;

    /// Where the process panics that is to end.
    const PANICS: &str = "HELENUS_TEST_PANICS";
    const TEST: &str = "panics::tests::a_panic_ends_the_process_wherever_it_is";
    /// More than a pipe holds.
    const LINES: usize = 5_000;

    fn panic_in(place: &str) {
        let (writer, _flush) = log_output::standard_error(&Arc::new(LogLines::default()));
        let text = tracing_subscriber::fmt::layer()
            .with_ansi(false)
            .with_writer(writer);
        let subscriber = tracing_subscriber::registry().with(text);
        tracing::subscriber::with_default(subscriber, || {
            let lines = if place == "thread whose log nobody reads" {
                LINES
            } else {
                10
            };
            for line in 0..lines {
                tracing::warn!(line, "something that takes some bytes in the log");
            }
        });
        end_process_on_panic();
        let place = place.to_owned();
        // As a proxy has them: a thread with a runtime for each worker, and one for the rest.
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread();
            let runtime = { runtime }.enable_all().build().expect("a runtime");
            let local = tokio::task::LocalSet::new();
            local.block_on(&runtime, async move {
                let text = format!("in a {place}");
                // The runtime catches the panic of a task, and goes on.
                let _ = match &*place {
                    "task" => tokio::spawn(async move { panic!("{text}") }).await,
                    "local task" => tokio::task::spawn_local(async move { panic!("{text}") }).await,
                    "blocking task" => tokio::task::spawn_blocking(move || panic!("{text}")).await,
                    _ => panic!("{text}"),
                };
            });
        });
        let _ = thread.join();
    }

    #[test]
    fn a_panic_ends_the_process_wherever_it_is() {
        if let Ok(place) = std::env::var(PANICS) {
            return panic_in(&place);
        }
        for place in [
            "thread",
            "task",
            "local task",
            "blocking task",
            "thread whose log nobody reads",
        ] {
            let program = std::env::current_exe().expect("this program");
            let mut test = Command::new(program)
                .args(["--exact", "--nocapture", TEST])
                .env(PANICS, place)
                .stdout(Stdio::null())
                .stderr(Stdio::piped())
                .spawn()
                .expect("it runs");
            let mut stderr = test.stderr.take().expect("a pipe");
            let is_read = place != "thread whose log nobody reads";
            let mut said = String::new();
            if is_read {
                stderr.read_to_string(&mut said).expect("text");
            }
            let ended = test.wait().expect("it ends");
            let abort = rustix::process::Signal::ABORT.as_raw();
            assert_eq!(ended.signal(), Some(abort), "in a {place}: {said}");
            if is_read {
                let last = said.find("line=9").expect("what was logged before");
                let panic = said.find(&format!("in a {place}")).expect("the panic");
                assert!(last < panic, "{said}");
            }
        }
    }
}
