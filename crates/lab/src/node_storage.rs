//! The storage of nodes on this machine, for reports.

use crate::testbed::cache_folder;
use anyhow::{Context, Result};
use helenus_console::terminal::spinner;
use helenus_load::storage::{Cache, Measure, Storage};
use std::path::Path;

/// When it is measured, by what the user has asked for.
pub(crate) fn measure(is_asked_for: bool) -> Measure {
    match is_asked_for {
        true => Measure::Anew,
        false => Measure::IfOld,
    }
}

/// Looks at the storage of a folder, and measures it unless that is known. Call it before anything else
/// is measured.
pub(crate) async fn look(folder: &Path, measure: Measure) -> Result<Storage> {
    let bar = spinner("looking at the storage, which takes a few seconds once in a while");
    let folder = folder.to_path_buf();
    let looked = tokio::task::spawn_blocking(move || {
        let cache = cache_folder().ok().map(Cache::new);
        Storage::of(&folder, cache.as_ref(), measure)
    });
    let storage = looked
        .await
        .context("the thread that looks at the storage failed");
    bar.finish_and_clear();
    storage
}
