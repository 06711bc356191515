//! The archive of Cassandra's classes (class data sharing): they are mapped instead of read, checked and linked.
//! For tests: Java says of archives made beside an agent that they are not for production.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::error::{Context, Result, invalid};
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

/// The archive of the jars in `lib`. `run` starts and stops a node with the arguments that have it written.
///
/// Concurrent callers are safe: one makes it, the other waits on a file lock.
pub(crate) fn ensure(lib: &Path, run: impl FnOnce(Vec<String>) -> Result<()>) -> Result<PathBuf> {
    let file = file(lib);
    let lock_path = lib.with_file_name("classes.lock");
    let lock = File::create(&lock_path).during("creating", &lock_path)?;
    lock.lock().during("locking", &lock_path)?;
    if file.is_file() && fits(&file, lib)? {
        return Ok(file);
    }
    let partial = lib.with_file_name("classes.partial");
    let mut arguments: Vec<String> = WITH_AGENT.map(String::from).to_vec();
    arguments.push(format!("-XX:ArchiveClassesAtExit={}", partial.display()));
    run(arguments)?;
    if !partial.is_file() {
        return Err(invalid(
            "Java has written no archive of classes; it can from version 13 on",
        ));
    }
    fs::rename(&partial, &file).during("moving the archive of classes to", &file)?;
    Ok(file)
}

/// True if this machine's Java takes the archive: it does not after an update of itself or of the jars.
fn fits(file: &Path, lib: &Path) -> Result<bool> {
    let status = Command::new("java")
        .args(WITH_AGENT)
        .arg("-Xshare:on")
        .arg(format!("-XX:SharedArchiveFile={}", file.display()))
        .arg("-cp")
        .arg(lib.join("*"))
        .arg("-version")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    Ok(status.map_err(java::missing)?.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_an_archive_java_gets_no_arguments() {
        let folder = tempfile::tempdir().expect("a folder");
        let lib = folder.path().join("lib");
        assert!(used(&lib).is_empty());
        fs::write(file(&lib), "").expect("written");
        let arguments = used(&lib);
        assert!(
            arguments
                .last()
                .is_some_and(|last| last.ends_with("/classes.jsa"))
        );
    }

    #[test]
    fn a_node_that_leaves_no_archive_is_an_error() {
        let folder = tempfile::tempdir().expect("a folder");
        let lib = folder.path().join("lib");
        let error = ensure(&lib, |_| Ok(())).expect_err("no archive");
        assert!(error.to_string().contains("no archive of classes"));
        assert!(used(&lib).is_empty());
    }

    #[test]
    fn an_archive_is_made_of_what_the_node_has_written() {
        let folder = tempfile::tempdir().expect("a folder");
        let lib = folder.path().join("lib");
        let written = |arguments: Vec<String>| {
            let last = arguments.last().expect("arguments");
            let (_, path) = last.split_once('=').expect("a path");
            fs::write(path, "not for this Java").expect("written");
            Ok(())
        };
        let file = ensure(&lib, written).expect("an archive");
        assert!(file.is_file());
    }
}
