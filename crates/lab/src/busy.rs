//! `helenus busy`: a process that only uses CPU and memory, as other work on a node's machine would. For
//! experiments; hidden from the help.

use anyhow::Result;
use clap::Args;
use std::hint::black_box;
use std::io::Read;

const PAGE_BYTES: usize = 4096;

/// Allocate, write and free memory until the input ends.
#[derive(Args, Debug)]
pub struct BusyArgs {
    /// Memory allocated at a time
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=4096))]
    mib: u32,
}

/// Starts with the first byte of the input, so that it can be moved into a control group before, and ends
/// with the input: also when whoever started it dies.
///
/// # Errors
/// The input cannot be read.
pub fn run(args: BusyArgs) -> Result<()> {
    let mut input = std::io::stdin();
    let mut first = [0];
    if input.read(&mut first)? == 0 {
        return Ok(());
    }
    let bytes = args.mib as usize * 1024 * 1024;
    std::thread::spawn(move || {
        loop {
            work(bytes);
        }
    });
    // The thread ends with the process.
    std::io::copy(&mut input, &mut std::io::sink())?;
    Ok(())
}

fn work(bytes: usize) {
    let mut memory = vec![0u8; bytes];
    for page in memory.chunks_mut(PAGE_BYTES) {
        page[0] = page[0].wrapping_add(1);
    }
    black_box(&memory);
}
