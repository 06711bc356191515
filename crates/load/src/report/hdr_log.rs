//! Interval histograms in the log format of HdrHistogram, version 2, which its tools read.
//!
//! Latencies are in nanoseconds, as these tools expect, and the greatest one of each line is in
//! milliseconds. A thread of its own compresses and writes, so that no client waits for it.

use anyhow::{Context, Result, anyhow};
use hdrhistogram::Histogram;
use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::{IntervalLogWriterBuilder, Tag};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};

const NS_PER_MS: f64 = 1e6;
/// Intervals that wait to be written.
const WAITING_MAX: usize = 256;

/// Latencies of one interval under one tag.
#[derive(Debug)]
struct Interval {
    tag: String,
    latency_ns: Histogram<u64>,
    /// Since the log began.
    start: Duration,
    length: Duration,
}

#[derive(Debug)]
pub struct HdrLog {
    path: PathBuf,
    intervals: SyncSender<Interval>,
    writer: JoinHandle<Result<()>>,
}

impl HdrLog {
    /// Replaces a file of this name. Times in the log count from now.
    pub fn create(path: &Path) -> Result<Self> {
        let cannot = || format!("cannot write {}", path.display());
        let file = File::create(path).with_context(cannot)?;
        let (intervals, received) = sync_channel(WAITING_MAX);
        let began = SystemTime::now();
        let writer = std::thread::Builder::new()
            .name("hdr-log".into())
            .spawn(move || write(BufWriter::new(file), began, &received))?;
        Ok(Self {
            path: path.to_owned(),
            intervals,
            writer,
        })
    }

    /// Intervals without a latency are left out. [`HdrLog::finish`] tells if anything could not be written.
    pub fn add(&self, tag: String, latency_ns: Histogram<u64>, start: Duration, length: Duration) {
        if !latency_ns.is_empty() {
            // An error means that the writer has ended, with an error of its own.
            let _ = self.intervals.send(Interval {
                tag,
                latency_ns,
                start,
                length,
            });
        }
    }

    pub fn finish(self) -> Result<()> {
        drop(self.intervals);
        let ended = self.writer.join();
        let written = ended.unwrap_or_else(|_| Err(anyhow!("its thread has failed")));
        written.with_context(|| format!("cannot write {}", self.path.display()))
    }
}

fn write(mut to: impl Write, began: SystemTime, intervals: &Receiver<Interval>) -> Result<()> {
    let mut serializer = V2DeflateSerializer::new();
    let mut log = IntervalLogWriterBuilder::new()
        .add_comment(
            "[Latencies of helenus load in nanoseconds, one tag per arm and kind of query]",
        )
        .add_comment("[Histogram log format version 1.3]")
        .with_start_time(began)
        .with_base_time(began)
        .with_max_value_divisor(NS_PER_MS)
        .begin_log_with(&mut to, &mut serializer)?;
    for interval in intervals {
        let tag = plain(&interval.tag);
        let written = log.write_histogram(
            &interval.latency_ns,
            interval.start,
            interval.length,
            Tag::new(&tag),
        );
        written.map_err(|error| anyhow!("{error:?}"))?;
    }
    Ok(to.flush()?)
}

/// A tag ends at a comma or a space.
fn plain(tag: &str) -> String {
    let is_end = |c: char| c == ',' || c.is_whitespace();
    tag.replace(is_end, "_")
}

#[cfg(test)]
mod tests {
    use super::*;
    use hdrhistogram::serialization::Deserializer;
    use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};

    fn histogram(latencies_ns: &[u64]) -> Histogram<u64> {
        let mut histogram = Histogram::new_with_bounds(1_000, 600_000_000_000, 3).unwrap();
        for &latency_ns in latencies_ns {
            histogram.record(latency_ns).unwrap();
        }
        histogram
    }

    #[test]
    fn what_is_written_is_read_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log.hdr");
        let log = HdrLog::create(&path).unwrap();
        let second = Duration::from_secs(1);
        let add = |tag: &str, latencies_ns: &[u64], start| {
            log.add(tag.into(), histogram(latencies_ns), start, second);
        };
        add("a, b.read", &[1_500_000, 2_500_000], Duration::ZERO);
        add("a.write", &[], Duration::ZERO);
        add("a.write", &[7_000_000], second);
        log.finish().unwrap();
        let text = std::fs::read(&path).unwrap();
        let mut seen = Vec::new();
        for entry in IntervalLogIterator::new(&text) {
            if let LogEntry::Interval(interval) = entry.unwrap() {
                let tag = interval.tag().unwrap().as_str().to_owned();
                let bytes = base64_of(interval.encoded_histogram());
                let read: Histogram<u64> = Deserializer::new().deserialize(&mut &*bytes).unwrap();
                let max = interval.max();
                seen.push((tag, interval.start_timestamp(), read.len(), max));
                assert!((read.max() as f64 / 1e6 - max).abs() < 0.01);
            }
        }
        assert_eq!(seen.len(), 2);
        let (tag, start, count, max) = &seen[0];
        assert_eq!((&**tag, *start, *count), ("a__b.read", Duration::ZERO, 2));
        assert!((max - 2.5).abs() < 0.01, "{max}");
        assert_eq!((&*seen[1].0, seen[1].1), ("a.write", second));
        let text = String::from_utf8(text).unwrap();
        assert!(text.contains("[StartTime: ") && text.contains("[BaseTime: "));
    }

    /// The crate leaves this to its users.
    fn base64_of(text: &str) -> Vec<u8> {
        const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let digits = text.bytes().filter(|&letter| letter != b'=');
        let digits: Vec<u32> = digits
            .map(|letter| DIGITS.iter().position(|&digit| digit == letter).unwrap() as u32)
            .collect();
        let mut bytes = Vec::new();
        for group in digits.chunks(4) {
            let bits = group.iter().fold(0, |bits, digit| bits << 6 | digit);
            let bits = bits << (6 * (4 - group.len()));
            bytes.extend_from_slice(&bits.to_be_bytes()[1..group.len()]);
        }
        bytes
    }

    #[test]
    fn a_file_that_cannot_be_created_is_an_error_at_once_and_a_full_disk_at_the_end() {
        let error = HdrLog::create(Path::new("/nowhere/x.hdr")).unwrap_err();
        assert!(error.to_string().contains("/nowhere/x.hdr"), "{error}");
        let full = HdrLog::create(Path::new("/dev/full")).unwrap();
        full.add(
            "a".into(),
            histogram(&[5_000]),
            Duration::ZERO,
            Duration::ZERO,
        );
        assert!(full.finish().is_err());
    }
}
