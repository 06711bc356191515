//! `helenus man` and `helenus completions`: both are made from the command line's own definition.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Args;
use clap_mangen::Man;

/// Print the manual page, or write one page for each command into a folder.
#[derive(Args)]
pub(crate) struct ManArgs {
    /// Folder for the pages (`helenus.1`, `helenus-serve.1`, …); created if it does not exist.
    dir: Option<PathBuf>,
}

/// Print the completions of a shell.
#[derive(Args)]
pub(crate) struct CompletionsArgs {
    shell: clap_complete::Shell,
}

pub(crate) fn man(args: ManArgs, command: clap::Command) -> Result<()> {
    let mut command = command.disable_help_subcommand(true);
    // Gives subcommands their full names.
    command.build();
    if let Some(dir) = args.dir {
        let written = std::fs::create_dir_all(&dir).and_then(|()| write_pages(command, &dir));
        return written.with_context(|| format!("cannot write pages to {}", dir.display()));
    }
    let mut text = Vec::new();
    page(command).render(&mut text)?;
    print(&text)
}

fn write_pages(command: clap::Command, dir: &Path) -> std::io::Result<()> {
    let shown = command.get_subcommands().filter(|c| !c.is_hide_set());
    for subcommand in shown.cloned() {
        write_pages(subcommand, dir)?;
    }
    page(command).generate_to(dir).map(|_| ())
}

fn page(command: clap::Command) -> Man {
    Man::new(command)
        .source(concat!("helenus ", env!("CARGO_PKG_VERSION")))
        .manual("Helenus")
}

pub(crate) fn completions(args: CompletionsArgs, mut command: clap::Command) -> Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, "helenus", &mut script);
    print(&script)
}

/// Unlike `print!`, without a panic when the reader has left.
fn print(text: &[u8]) -> Result<()> {
    match std::io::stdout().write_all(text) {
        Err(e) if e.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        written => Ok(written?),
    }
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, ValueEnum};

    use super::*;

    #[test]
    fn every_command_that_is_shown_has_a_page() {
        let dir = tempfile::tempdir().expect("a folder");
        let pages = dir.path().join("man1");
        let dir = Some(pages.clone());
        man(ManArgs { dir }, crate::Cli::command()).expect("pages");
        for command in crate::Cli::command().get_subcommands() {
            let page = pages.join(format!("helenus-{}.1", command.get_name()));
            assert_eq!(page.exists(), !command.is_hide_set(), "{}", page.display());
        }
        let page = std::fs::read_to_string(pages.join("helenus-serve.1")).expect("a page");
        assert!(page.contains("HELENUS_CONTACT_POINTS"), "{page}");
    }

    #[test]
    fn completions_name_the_commands() {
        for shell in clap_complete::Shell::value_variants() {
            let mut script = Vec::new();
            let mut command = crate::Cli::command();
            clap_complete::generate(*shell, &mut command, "helenus", &mut script);
            let script = String::from_utf8(script).expect("text");
            assert!(script.contains("completions"), "{shell}");
        }
    }
}
