//! Commands of the laboratory in a program that is built without it (`--no-default-features`, as packages are).

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Result, bail};
use clap::error::{ContextKind, ContextValue, ErrorKind};

/// The program that is built with the laboratory.
const PROGRAM: &str = "helenus-lab";
/// Set for the program that a command is handed to.
const PASSED_ON: &str = "HELENUS_LAB_PASSED_ON";
const COMMANDS: [&str; 7] = [
    "bench", "cluster", "demo", "load", "mirror", "replay", "sim",
];

/// Hands a command of the laboratory to the program that knows it; every other is a mistake.
pub(crate) fn run(words: &[OsString], cli: clap::Command) -> Result<()> {
    let named = words.first().map(|word| word.to_string_lossy());
    let named = named.unwrap_or_default();
    if !COMMANDS.contains(&&*named) {
        let mut error = clap::Error::new(ErrorKind::InvalidSubcommand).with_cmd(&cli);
        let named = ContextValue::String(named.into_owned());
        error.insert(ContextKind::InvalidSubcommand, named);
        error.exit();
    }
    // A program of that name may be this one once more.
    if std::env::var_os(PASSED_ON).is_some() {
        bail!("{PROGRAM} is a program without `{named}`: build it with all commands");
    }
    // Beside this one, or on the PATH.
    let beside = std::env::current_exe().map(|own| own.with_file_name(PROGRAM));
    let beside = beside.ok().filter(|path| path.is_file());
    let program = beside.unwrap_or_else(|| PathBuf::from(PROGRAM));
    let mut command = Command::new(&program);
    let error = command.args(words).env(PASSED_ON, "1").exec();
    bail!(
        "`helenus {named}` is a command of {PROGRAM}, which cannot be run ({error}): put that program beside \
         this one or on the PATH, or build Helenus from its sources with all commands"
    );
}
