//! Where files are stored: the user's XDG folders.

use std::env;
use std::path::PathBuf;

use crate::error::{Result, invalid};

/// `$XDG_CACHE_HOME/helenus`, by default `~/.cache/helenus`.
pub(crate) fn cache_dir() -> Result<PathBuf> {
    xdg("XDG_CACHE_HOME", ".cache")
}

/// `$XDG_STATE_HOME/helenus`, by default `~/.local/state/helenus`.
pub(crate) fn state_dir() -> Result<PathBuf> {
    xdg("XDG_STATE_HOME", ".local/state")
}

/// The folder of the cluster called `name`.
pub fn cluster_dir(name: &str) -> Result<PathBuf> {
    let plain = !name.is_empty()
        && name
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
    if !plain {
        return Err(invalid(format!(
            "cluster name {name:?}: use letters, digits, `-` and `_`"
        )));
    }
    Ok(state_dir()?.join("clusters").join(name))
}

fn xdg(variable: &str, below_home: &str) -> Result<PathBuf> {
    // The XDG specification says to ignore relative paths.
    if let Some(path) = env::var_os(variable).map(PathBuf::from)
        && path.is_absolute()
    {
        return Ok(path.join("helenus"));
    }
    match env::var_os("HOME") {
        Some(home) if !home.is_empty() => Ok(PathBuf::from(home).join(below_home).join("helenus")),
        _ => Err(invalid(format!(
            "neither {variable} nor HOME is set; set one, or choose a folder with --dir"
        ))),
    }
}
