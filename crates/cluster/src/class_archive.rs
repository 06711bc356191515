//! The archive of Cassandra's classes (class data sharing): they are mapped instead of read, checked and linked.
//! For tests: Java says of archives made beside an agent that they are not for production.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::error::{Context, Error, Result, invalid};
use crate::java;

/// Options with which Java accepts an archive although nodes have an agent (jamm), for making and for using it.
const WITH_AGENT: [&str; 2] = [
    "-XX:+UnlockDiagnosticVMOptions",
    "-XX:+AllowArchivingWithJavaAgent",
];

fn file(lib: &Path) -> PathBuf {
    lib.with_file_name("classes.jsa")
}

/// Arguments for `java`: the archive of the jars in `lib`, or none. Java goes on without one that does not fit.
pub(crate) fn used(lib: &Path) -> Vec<String> {
    let file = file(lib);
    if !file.is_file() {
        return Vec::new();
    }
    let mut arguments = WITH_AGENT.map(String::from).to_vec();
    // It would say so on the standard output of each node.
    arguments.push("-Xlog:cds=off".into());
    arguments.push(format!("-XX:SharedArchiveFile={}", file.display()));
    arguments
}

/// The archive of the jars in `lib`; none if this machine's Java makes none (it can from version 13 on). `run` starts
/// and stops a node with the arguments that have it written.
///
/// Concurrent callers are safe: one makes it, the other waits on a file lock.
pub(crate) fn ensure(
    lib: &Path,
    run: impl FnOnce(Vec<String>) -> Result<()>,
) -> Result<Option<PathBuf>> {
    ensure_with(lib, run, passes)
}

/// `passes`: whether Java runs with these arguments.
fn ensure_with(
    lib: &Path,
    run: impl FnOnce(Vec<String>) -> Result<()>,
    passes: impl Fn(&[String]) -> Result<bool>,
) -> Result<Option<PathBuf>> {
    let file = file(lib);
    // After an update of Java or of the jars it does not.
    let fits = |file: &Path| Ok::<bool, Error>(file.is_file() && passes(&on_trial(file, lib))?);
    if fits(&file)? {
        return Ok(Some(file));
    }
    let lock_path = lib.with_file_name("classes.lock");
    let lock = File::create(&lock_path).during("creating", &lock_path)?;
    lock.lock().during("locking", &lock_path)?;
    if fits(&file)? {
        return Ok(Some(file));
    }
    // Java does not write one while it uses another.
    let partial = lib.with_file_name("classes.partial");
    for old in [&file, &partial] {
        remove_if_present(old)?;
    }
    let mut arguments = WITH_AGENT.map(String::from).to_vec();
    arguments.push(format!("-XX:ArchiveClassesAtExit={}", partial.display()));
    let mut version = arguments.clone();
    version.push("-version".into());
    if !passes(&version)? {
        return Ok(None);
    }
    // The archive that the run for its version has written.
    remove_if_present(&partial)?;
    run(arguments)?;
    if !fits(&partial)? {
        return Err(invalid(
            "Java has written no archive of classes that it takes itself; nodes start without one",
        ));
    }
    fs::rename(&partial, &file).during("moving the archive of classes to", &file)?;
    Ok(Some(file))
}

fn remove_if_present(file: &Path) -> Result<()> {
    match fs::remove_file(file) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error).during("removing", file),
        _ => Ok(()),
    }
}

/// With these Java ends at once, and well only if it takes the archive.
fn on_trial(archive: &Path, lib: &Path) -> Vec<String> {
    let mut arguments = WITH_AGENT.map(String::from).to_vec();
    arguments.push("-Xshare:on".into());
    arguments.push(format!("-XX:SharedArchiveFile={}", archive.display()));
    arguments.push("-cp".into());
    arguments.push(lib.join("*").display().to_string());
    arguments.push("-version".into());
    arguments
}

fn passes(arguments: &[String]) -> Result<bool> {
    let status = Command::new("java")
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    Ok(status.map_err(java::missing)?.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn takes_all(_: &[String]) -> Result<bool> {
        Ok(true)
    }

    fn writes(arguments: Vec<String>) -> Result<()> {
        let last = arguments.last().expect("arguments");
        let (_, path) = last.split_once('=').expect("a path");
        fs::write(path, "an archive").expect("written");
        Ok(())
    }

    #[test]
    fn without_an_archive_java_gets_no_arguments() {
        let folder = tempfile::tempdir().expect("a folder");
        let lib = folder.path().join("lib");
        assert!(used(&lib).is_empty());
        fs::write(file(&lib), "").expect("written");
        let arguments = used(&lib);
        let last = arguments.last().expect("arguments");
        assert!(last.ends_with("/classes.jsa"), "{last}");
    }

    #[test]
    fn a_node_that_leaves_no_archive_is_an_error() {
        let folder = tempfile::tempdir().expect("a folder");
        let lib = folder.path().join("lib");
        let error = ensure_with(&lib, |_| Ok(()), takes_all).expect_err("no archive");
        assert!(error.to_string().contains("no archive of classes"));
        assert!(used(&lib).is_empty());
    }

    #[test]
    fn a_java_that_makes_none_is_asked_for_none() {
        let folder = tempfile::tempdir().expect("a folder");
        let lib = folder.path().join("lib");
        let run = |_| panic!("a node is started");
        let made = ensure_with(&lib, run, |_| Ok(false)).expect("no error");
        assert_eq!(made, None);
    }

    #[test]
    fn an_archive_that_does_not_fit_any_more_is_out_of_the_way_when_another_is_made() {
        let folder = tempfile::tempdir().expect("a folder");
        let lib = folder.path().join("lib");
        fs::write(file(&lib), "of another Java").expect("written");
        fs::write(lib.with_file_name("classes.partial"), "half").expect("written");
        let fits = |arguments: &[String]| {
            let archive = |argument: &String| {
                let path = argument.strip_prefix("-XX:SharedArchiveFile=")?;
                Some(fs::read(path).expect("an archive"))
            };
            let archive = arguments.iter().find_map(archive);
            Ok(archive.is_none_or(|archive| archive == b"an archive"))
        };
        let run = |arguments| {
            assert!(used(&lib).is_empty());
            writes(arguments)
        };
        let made = ensure_with(&lib, run, fits).expect("no error");
        assert_eq!(made.as_deref(), Some(&*file(&lib)));
        assert!(!used(&lib).is_empty());
        // The next caller starts no node.
        let run = |_| panic!("a node is started");
        assert!(ensure_with(&lib, run, fits).expect("no error").is_some());
    }
}
