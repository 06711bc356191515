//! The last lines of the log, for operators who do not see where it goes. Bounded: [`BYTES_MAX`], the oldest make
//! way; a line is cut after [`TEXT_BYTES_MAX`].

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::SystemTime;

/// All lines together, with what is kept beside their texts.
const BYTES_MAX: usize = 256 * 1024;
const TEXT_BYTES_MAX: usize = 2_048;

/// A line of the log.
#[derive(Clone, Debug)]
pub struct LogLine {
    pub at: SystemTime,
    /// `ERROR`, `WARN`, `INFO` or `DEBUG`.
    pub level: &'static str,
    /// The part of the program.
    pub target: &'static str,
    /// The message and its fields.
    pub text: String,
}

impl LogLine {
    fn byte_len(&self) -> usize {
        size_of::<LogLine>() + self.text.capacity()
    }
}

/// The last lines of the log.
#[derive(Debug, Default)]
pub struct LogLines {
    kept: Mutex<Kept>,
    dropped: Dropped,
}

/// How many lines were not written where the log goes.
#[derive(Default)]
struct Dropped(OnceLock<Box<dyn Fn() -> u64 + Send + Sync>>);

impl fmt::Debug for Dropped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Dropped")
    }
}

#[derive(Debug, Default)]
struct Kept {
    lines: VecDeque<LogLine>,
    bytes: usize,
}

impl LogLines {
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on this tells how many lines were not written where the log goes, because it takes none.
    pub fn count_dropped(&self, dropped: impl Fn() -> u64 + Send + Sync + 'static) {
        // There is one log.
        let _ = self.dropped.0.set(Box::new(dropped));
    }

    /// Lines that were not written where the log goes.
    pub fn dropped(&self) -> u64 {
        self.dropped.0.get().map_or(0, |dropped| dropped())
    }

    /// Keeps a line.
    pub fn push(&self, mut line: LogLine) {
        if line.text.len() > TEXT_BYTES_MAX {
            let end = line.text.floor_char_boundary(TEXT_BYTES_MAX);
            line.text.truncate(end);
            line.text.push('…');
        }
        line.text.shrink_to_fit();
        let mut kept = self.kept();
        kept.bytes += line.byte_len();
        kept.lines.push_back(line);
        while kept.bytes > BYTES_MAX {
            let Some(oldest) = kept.lines.pop_front() else {
                break;
            };
            kept.bytes -= oldest.byte_len();
        }
    }

    /// The last of them, in their order.
    pub(crate) fn latest(&self, max: usize) -> Vec<LogLine> {
        let kept = self.kept();
        let before = kept.lines.len().saturating_sub(max);
        kept.lines.iter().skip(before).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: String) -> LogLine {
        LogLine {
            at: SystemTime::UNIX_EPOCH,
            level: "INFO",
            target: "helenus_proxy",
            text,
        }
    }

    #[test]
    fn the_last_lines_are_kept_within_the_bound() {
        let lines = LogLines::default();
        for n in 0..5_000 {
            lines.push(line(format!("{n} {}", "x".repeat(n % 3_000))));
            assert!(lines.kept().bytes <= BYTES_MAX);
        }
        let kept: usize = lines.kept().lines.iter().map(LogLine::byte_len).sum();
        assert_eq!(kept, lines.kept().bytes);
        let last = lines.latest(2);
        assert_eq!(last.len(), 2);
        assert!(last[0].text.starts_with("4998 ") && last[1].text.starts_with("4999 "));
        assert!(lines.latest(usize::MAX).len() > 100);
    }

    #[test]
    fn a_long_line_is_cut_between_characters() {
        let lines = LogLines::default();
        lines.push(line("ä".repeat(TEXT_BYTES_MAX)));
        lines.push(line(format!("x{}", "ä".repeat(TEXT_BYTES_MAX))));
        for line in lines.latest(2) {
            assert!(line.text.ends_with("ä…") && line.text.len() <= TEXT_BYTES_MAX + 3);
        }
    }
}
