//! Figures of earlier runs, in a file of the user's cache folder.

use super::figures::Figures;
use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

/// Figures older than this are measured again.
pub const AGE_DAYS_MAX: u64 = 30;

/// A file of figures by machine, device and file system. Two processes that write at the same time
/// lose the figures of one, which are then measured again.
#[derive(Clone, Debug)]
pub struct Cache {
    file: PathBuf,
}

type Entries = BTreeMap<String, Figures>;

impl Cache {
    /// In this folder, which need not exist.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self {
            file: folder.into().join("storage.json"),
        }
    }

    /// None if they are too old, or from the future.
    pub(super) fn get(&self, key: &str, now_s: u64) -> Option<Figures> {
        self.load(now_s).remove(key)
    }

    pub(super) fn put(&self, key: &str, figures: Figures, now_s: u64) -> Result<()> {
        let mut entries = self.load(now_s);
        entries.insert(key.to_owned(), figures);
        let folder = self.file.parent().context("no folder")?;
        fs::create_dir_all(folder)
            .with_context(|| format!("cannot create {}", folder.display()))?;
        let text = serde_json::to_string_pretty(&entries)?;
        // Never half of it.
        let draft = self.file.with_extension(format!("{}", std::process::id()));
        fs::write(&draft, text + "\n")
            .and_then(|()| fs::rename(&draft, &self.file))
            .with_context(|| format!("cannot write {}", self.file.display()))
    }

    /// Those that are recent enough; none if the file is missing or not what it should be.
    fn load(&self, now_s: u64) -> Entries {
        let text = fs::read(&self.file).unwrap_or_default();
        let mut entries: Entries = serde_json::from_slice(&text).unwrap_or_default();
        entries.retain(|_, figures| {
            let age_s = now_s.checked_sub(figures.measured_unix_s);
            age_s.is_some_and(|age_s| age_s <= AGE_DAYS_MAX * 86_400)
        });
        entries
    }
}
