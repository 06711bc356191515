//! Where the lines of the log go: to standard error, by a thread of its own. A terminal, a pipe or a journal that takes
//! none for a while stops nobody who logs: beyond [`LINES_MAX`] lines that wait, new ones are dropped and counted.

use std::fmt;
use std::sync::{Arc, Mutex};

use helenus_proxy::LogLines;
use tracing::{Event, Level, Subscriber};
use tracing_appender::non_blocking::{NonBlocking, NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

/// Some megabytes at most.
const LINES_MAX: usize = 8_192;

/// Of the thread that writes, for whoever ends the process.
static WRITING: Mutex<Option<WorkerGuard>> = Mutex::new(None);

/// Writes the lines that wait, if that takes no longer than a second. Those logged afterwards are lost.
pub(crate) fn flush() {
    // Whoever else is at it ends the process, too.
    if let Ok(mut writing) = WRITING.try_lock() {
        drop(writing.take());
    }
}

/// Writes what waits when it is dropped.
pub(crate) struct Flush;

impl Drop for Flush {
    fn drop(&mut self) {
        flush();
    }
}

/// Writes to standard error.
pub(crate) fn standard_error(kept: &Arc<LogLines>) -> (NonBlocking, Flush) {
    let (writer, guard) = NonBlockingBuilder::default()
        .buffered_lines_limit(LINES_MAX)
        .lossy(true)
        .thread_name("log")
        .finish(std::io::stderr());
    let dropped = writer.error_counter();
    kept.count_dropped(move || dropped.dropped_lines() as u64);
    if let Ok(mut writing) = WRITING.lock() {
        *writing = Some(guard);
    }
    (writer, Flush)
}

/// True if standard error is a journal's, which takes a line's priority from its beginning (systemd.exec(5)).
pub(crate) fn is_journal() -> bool {
    let Ok(stream) = std::env::var("JOURNAL_STREAM") else {
        return false;
    };
    let own = rustix::fs::fstat(rustix::stdio::stderr());
    own.is_ok_and(|own| stream == format!("{}:{}", own.st_dev, own.st_ino))
}

/// A format, with the priority of each line in front of it if it is for a journal.
pub(crate) struct Prioritised<F> {
    pub(crate) for_journal: bool,
    pub(crate) format: F,
}

impl<S, N, F> FormatEvent<S, N> for Prioritised<F>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
    F: FormatEvent<S, N>,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        if self.for_journal {
            write!(writer, "<{}>", priority(*event.metadata().level()))?;
        }
        self.format.format_event(context, writer, event)
    }
}

/// As in syslog(3).
fn priority(level: Level) -> u8 {
    match level {
        Level::ERROR => 3,
        Level::WARN => 4,
        Level::INFO => 6,
        _ => 7,
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::process::{Command, Stdio};

    use tracing_subscriber::layer::SubscriberExt;

    use super::*;

    /// Set in the process whose standard error is a pipe that nobody reads.
    const LOGS: &str = "HELENUS_TEST_LOGS";
    /// More than a pipe holds.
    const LINES: usize = 50_000;

    #[test]
    fn who_logs_does_not_wait_for_a_pipe_that_nobody_reads() {
        if std::env::var_os(LOGS).is_some() {
            let kept = Arc::new(LogLines::default());
            let (writer, flush) = standard_error(&kept);
            let text = tracing_subscriber::fmt::layer().with_writer(writer);
            let subscriber = tracing_subscriber::registry().with(text);
            tracing::subscriber::with_default(subscriber, || {
                for line in 0..LINES {
                    tracing::warn!(line, "something that takes some bytes in the log");
                }
            });
            println!("dropped {}", kept.dropped());
            drop(flush);
            return;
        }
        let program = std::env::current_exe().expect("this program");
        let name = "log_output::tests::who_logs_does_not_wait_for_a_pipe_that_nobody_reads";
        let mut test = Command::new(program)
            .args(["--exact", "--nocapture", name])
            .env(LOGS, "1")
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it runs");
        let mut said = String::new();
        let mut stdout = test.stdout.take().expect("a pipe");
        stdout.read_to_string(&mut said).expect("text");
        assert!(test.wait().expect("it ends").success(), "{said}");
        let dropped = said.lines().find_map(|line| line.strip_prefix("dropped "));
        let dropped: usize = dropped.and_then(|n| n.parse().ok()).expect("a number");
        assert!((1..LINES).contains(&dropped), "{dropped}");
    }

    #[test]
    fn a_journal_gets_the_priority_of_each_line() {
        let written = Arc::new(Mutex::new(Vec::new()));
        for for_journal in [true, false] {
            let format = tracing_subscriber::fmt::format().without_time();
            let text = tracing_subscriber::fmt::layer()
                .event_format(Prioritised {
                    for_journal,
                    format,
                })
                .with_ansi(false)
                .with_writer(Mutex::new(Shared(written.clone())));
            tracing::subscriber::with_default(tracing_subscriber::registry().with(text), || {
                tracing::error!("one");
                tracing::info!("two");
            });
        }
        let written = String::from_utf8(written.lock().expect("whole").clone()).expect("text");
        let begins: Vec<&str> = written.lines().map(|line| line.trim_start()).collect();
        assert!(begins[0].starts_with("<3>"), "{written}");
        assert!(begins[1].starts_with("<6>"), "{written}");
        assert!(begins[2].starts_with("ERROR"), "{written}");
    }

    struct Shared(Arc<Mutex<Vec<u8>>>);

    impl std::io::Write for Shared {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().expect("whole").extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
}
