//! The file that a command writes its result to.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::Serialize;

/// Opened before anything is done, so that a wrong path is told at once. If there is no result, or not all of it
/// could be written, a file that was not there before is removed again.
#[derive(Debug)]
pub(crate) struct ResultFile {
    path: PathBuf,
    file: File,
    is_useless: bool,
    /// Bytes, at most.
    written: u64,
}

impl ResultFile {
    /// Opens or creates the file. Its contents stay until there is a result.
    pub(crate) fn open(path: &Path) -> Result<ResultFile> {
        let mut options = OpenOptions::new();
        let (opened, is_new) = match options.write(true).create_new(true).open(path) {
            Err(e) if e.kind() == ErrorKind::AlreadyExists => {
                (OpenOptions::new().write(true).open(path), false)
            }
            created => (created, true),
        };
        Ok(ResultFile {
            path: path.to_owned(),
            file: opened.with_context(|| format!("cannot write {}", path.display()))?,
            is_useless: is_new,
            written: 0,
        })
    }

    /// True if the path still leads to this file and nobody else has written to it.
    fn is_in_place(&self) -> std::io::Result<bool> {
        let (own, there) = (
            self.file.metadata()?,
            std::fs::symlink_metadata(&self.path)?,
        );
        let is_same = (own.dev(), own.ino()) == (there.dev(), there.ino());
        Ok(is_same && own.len() <= self.written)
    }

    pub(crate) fn write(mut self, result: &impl Serialize) -> Result<()> {
        let json = serde_json::to_vec_pretty(result)?;
        self.written = json.len() as u64;
        let mut write = || {
            // Pipes and devices have no size.
            if self.file.metadata()?.is_file() {
                self.file.set_len(0)?;
            }
            self.file.write_all(&json)
        };
        write().with_context(|| format!("cannot write {}", self.path.display()))?;
        self.is_useless = false;
        Ok(())
    }
}

impl Drop for ResultFile {
    fn drop(&mut self) {
        // A file that another process has put in its place stays.
        if self.is_useless && self.is_in_place().unwrap_or(false) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_takes_the_place_of_an_earlier_one_when_it_is_there() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("result.json");
        let earlier = "earlier ".repeat(1_000);
        std::fs::write(&path, &earlier).unwrap();
        drop(ResultFile::open(&path).unwrap());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), earlier);
        let file = ResultFile::open(&path).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), earlier);
        file.write(&[7]).unwrap();
        let json = std::fs::read(&path).unwrap();
        let json: serde_json::Value = serde_json::from_slice(&json).unwrap();
        assert_eq!(json, serde_json::json!([7]));
    }

    #[test]
    fn a_new_file_stays_only_with_a_result() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("result.json");
        let file = ResultFile::open(&path).unwrap();
        assert!(path.exists());
        drop(file);
        assert!(!path.exists());
        let given_up = ResultFile::open(&path).unwrap();
        std::fs::write(&path, "of another").unwrap();
        drop(given_up);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "of another");
        std::fs::remove_file(&path).unwrap();
        let given_up = ResultFile::open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, "").unwrap();
        drop(given_up);
        assert!(path.exists(), "it is another file");
        std::fs::remove_file(&path).unwrap();
        ResultFile::open(&path).unwrap().write(&[7]).unwrap();
        assert!(path.exists());
        // A device that is always full.
        let full = ResultFile::open(Path::new("/dev/full")).unwrap();
        let full = format!("{:#}", full.write(&[7]).unwrap_err());
        assert!(full.contains("cannot write /dev/full"), "{full}");
        assert!(Path::new("/dev/full").exists());
        let nowhere = ResultFile::open(&folder.path().join("none/x")).err();
        assert!(format!("{:#}", nowhere.unwrap()).contains("cannot write"));
    }
}
