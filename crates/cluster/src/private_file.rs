//! Files that nobody else can read at any moment.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use crate::error::{Context, Result};

/// Writes a file that was not there, or replaces one that only this user could read.
pub(crate) fn write(path: &Path, text: &str) -> Result<()> {
    let mut file = create(path).during("creating", path)?;
    file.write_all(text.as_bytes()).during("writing", path)
}

fn create(path: &Path) -> std::io::Result<File> {
    OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(path)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn it_is_private_before_anything_is_in_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("key.pem");
        let rights = create(&path).and_then(|file| file.metadata());
        assert_eq!(rights.expect("created").permissions().mode() & 0o777, 0o600);
        write(&path, "key").expect("written");
        assert_eq!(std::fs::read_to_string(&path).expect("readable"), "key");
    }
}
