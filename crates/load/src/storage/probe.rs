//! The measurement of a storage: four phases of a second each, in files that take at most
//! [`FILE_BYTES_MAX`] and are gone afterwards.
//!
//! The large file loses its name as soon as it is open, so it cannot outlive this process. The one
//! for appends keeps its name, because some file systems need not make durable what has none
//! (btrfs); it is small, and removed when the phase ends, in whatever way, or else by the next
//! measurement.
//!
//! Limits: disks have caches of their own, which may answer reads of what was just written, and a
//! rotating disk moves its heads less within one small file than across all its data.

use super::figures::Figures;
use anyhow::{Context, Result, ensure};
use hdrhistogram::Histogram;
use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rustix::fs::{Advice, OFlags, fadvise, statvfs};
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Of the large file.
const FILE_BYTES_MAX: u64 = 192 << 20;
/// Space that must be left on the file system besides.
const SPARE_BYTES: u64 = 1 << 30;
const BLOCK_BYTES: usize = 1 << 20;
/// Of random reads, and what the kernel wants buffers and offsets to be multiples of.
const PAGE_BYTES: usize = 4096;
const APPEND_BYTES: usize = 300;
const APPENDS_MAX: u64 = 2_000;
const PHASE: Duration = Duration::from_secs(1);
const NAME: &str = ".helenus-storage-probe-";

/// Measures the storage of an existing folder. `now_s`: seconds since 1970.
pub(super) fn measure(folder: &Path, now_s: u64) -> Result<Figures> {
    measure_for(folder, now_s, PHASE, FILE_BYTES_MAX)
}

/// With phases of at most this length, and a file of at most so many bytes.
pub(super) fn measure_for(
    folder: &Path,
    now_s: u64,
    phase: Duration,
    file_bytes: u64,
) -> Result<Figures> {
    remove_leftovers(folder);
    let free = statvfs(folder).with_context(|| format!("cannot look at {}", folder.display()))?;
    let free_bytes = free.f_bavail.saturating_mul(free.f_frsize);
    ensure!(
        free_bytes >= file_bytes + SPARE_BYTES,
        "only {} MiB are free in {}",
        free_bytes >> 20,
        folder.display()
    );
    let (appends, append_seconds) = appends(folder, phase)?;
    let (file, is_direct) = open_nameless(folder)?;
    let mut block = Block::new();
    let (written, write_seconds) = write(&file, &mut block, phase, file_bytes)?;
    if !is_direct {
        forget(&file, Advice::Sequential)?;
    }
    let (read, read_seconds) = read(&file, &mut block, phase, written)?;
    if !is_direct {
        forget(&file, Advice::Random)?;
    }
    let (reads, random_seconds) = random_reads(&file, &mut block, phase, written)?;
    let us = |times: &Histogram<u64>, share| times.value_at_quantile(share) as f64 / 1000.0;
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    Ok(Figures {
        measured_unix_s: now_s,
        append_sync_us_p50: us(&appends, 0.5),
        append_sync_us_p99: us(&appends, 0.99),
        append_syncs_per_second: appends.len() as f64 / append_seconds,
        write_mib_per_second: mib(written) / write_seconds,
        read_mib_per_second: mib(read) / read_seconds,
        random_read_us_p50: us(&reads, 0.5),
        random_read_us_p99: us(&reads, 0.99),
        random_reads_per_second: reads.len() as f64 / random_seconds,
        file_mib: written >> 20,
        is_direct,
    })
}

/// Memory that starts at a multiple of [`PAGE_BYTES`], which direct access needs, with random
/// content: some storage compresses.
struct Block {
    memory: Vec<u8>,
    start: usize,
}

impl Block {
    fn new() -> Self {
        let mut memory = vec![0; BLOCK_BYTES + PAGE_BYTES];
        ChaCha8Rng::seed_from_u64(1).fill_bytes(&mut memory);
        let start = memory.as_ptr().align_offset(PAGE_BYTES);
        Self { memory, start }
    }

    fn bytes(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..self.start + BLOCK_BYTES]
    }
}

/// Nanoseconds of each append with its fdatasync, and the seconds of all.
fn appends(folder: &Path, phase: Duration) -> Result<(Histogram<u64>, f64)> {
    let named = Named::create(folder)?;
    let mut times = times()?;
    let began = Instant::now();
    while times.is_empty() || (began.elapsed() < phase && times.len() < APPENDS_MAX) {
        let before = Instant::now();
        (&named.file)
            .write_all(&[7; APPEND_BYTES])
            .context("cannot append to a file")?;
        named.file.sync_data().context("cannot sync a file")?;
        record(&mut times, before);
    }
    Ok((times, seconds(began)))
}

/// Bytes written, and the seconds until they were durable.
fn write(file: &File, block: &mut Block, phase: Duration, most: u64) -> Result<(u64, f64)> {
    let began = Instant::now();
    let mut at = 0;
    while at == 0 || (began.elapsed() < phase && at + BLOCK_BYTES as u64 <= most) {
        // No two blocks are the same.
        block.bytes()[..8].copy_from_slice(&at.to_le_bytes());
        file.write_all_at(block.bytes(), at)
            .context("cannot write a file")?;
        at += BLOCK_BYTES as u64;
    }
    file.sync_data().context("cannot sync a file")?;
    Ok((at, seconds(began)))
}

fn read(file: &File, block: &mut Block, phase: Duration, length: u64) -> Result<(u64, f64)> {
    let began = Instant::now();
    let mut at = 0;
    while at == 0 || (began.elapsed() < phase && at < length) {
        file.read_exact_at(block.bytes(), at)
            .context("cannot read a file")?;
        at += BLOCK_BYTES as u64;
    }
    Ok((at, seconds(began)))
}

/// Nanoseconds of each read, and the seconds of all.
fn random_reads(
    file: &File,
    block: &mut Block,
    phase: Duration,
    length: u64,
) -> Result<(Histogram<u64>, f64)> {
    let mut rng = ChaCha8Rng::seed_from_u64(2);
    let mut times = times()?;
    let began = Instant::now();
    while times.is_empty() || began.elapsed() < phase {
        let page = rng.random_range(0..length / PAGE_BYTES as u64);
        let before = Instant::now();
        file.read_exact_at(&mut block.bytes()[..PAGE_BYTES], page * PAGE_BYTES as u64)
            .context("cannot read a file")?;
        record(&mut times, before);
    }
    Ok((times, seconds(began)))
}

fn times() -> Result<Histogram<u64>> {
    Ok(Histogram::new_with_bounds(1, 60_000_000_000, 3)?)
}

fn record(times: &mut Histogram<u64>, since: Instant) {
    let ns = u64::try_from(since.elapsed().as_nanos()).unwrap_or(u64::MAX);
    times.saturating_record(ns.max(1));
}

fn seconds(since: Instant) -> f64 {
    since.elapsed().as_secs_f64().max(1e-9)
}

/// Has the kernel drop what it has cached of the file, all of which is durable.
fn forget(file: &File, next: Advice) -> Result<()> {
    fadvise(file, 0, None, Advice::DontNeed).map_err(std::io::Error::from)?;
    fadvise(file, 0, None, next).map_err(std::io::Error::from)?;
    Ok(())
}

/// A file without a name, and whether it bypasses the page cache.
fn open_nameless(folder: &Path) -> Result<(File, bool)> {
    let path = path(folder);
    let flags = i32::try_from(OFlags::DIRECT.bits()).unwrap_or(0);
    let open = |flags: i32| {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true);
        options.custom_flags(flags).open(&path)
    };
    let direct = open(flags);
    let is_direct = direct.is_ok();
    let opened = direct.or_else(|_| {
        // Some file systems create the file before they refuse.
        let _ = fs::remove_file(&path);
        open(0)
    });
    let file = opened.with_context(|| format!("cannot create a file in {}", folder.display()))?;
    fs::remove_file(&path).with_context(|| format!("cannot remove {}", path.display()))?;
    Ok((file, is_direct))
}

/// A file that is removed when it is dropped.
struct Named {
    file: File,
    path: PathBuf,
}

impl Named {
    fn create(folder: &Path) -> Result<Self> {
        let path = path(folder);
        let file = OpenOptions::new().append(true).create_new(true).open(&path);
        let file = file.with_context(|| format!("cannot create a file in {}", folder.display()))?;
        Ok(Self { file, path })
    }
}

impl Drop for Named {
    fn drop(&mut self) {
        // The next measurement removes it otherwise.
        let _ = fs::remove_file(&self.path);
    }
}

/// Measurements of one process may run side by side, in tests.
fn path(folder: &Path) -> PathBuf {
    let (process, thread) = (std::process::id(), std::thread::current().id());
    folder.join(format!("{NAME}{process}-{thread:?}"))
}

/// Removes files of processes that no longer exist.
fn remove_leftovers(folder: &Path) {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    for entry in entries {
        let name = entry.file_name();
        let process = name
            .to_str()
            .and_then(|name| name.strip_prefix(NAME))
            .and_then(|rest| rest.split('-').next()?.parse::<u32>().ok());
        if process.is_some_and(|process| !Path::new(&format!("/proc/{process}")).exists()) {
            let _ = fs::remove_file(entry.path());
        }
    }
}
