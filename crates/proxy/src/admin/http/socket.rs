//! Where the admin server's Unix socket is.

use std::path::{Path, PathBuf};

use crate::config::Admin;

/// Where systemd says that the service may keep such things.
const RUNTIME_DIRECTORY: &str = "RUNTIME_DIRECTORY";

/// Where the socket is to be, if anywhere.
pub(in crate::admin) fn path_of(settings: &Admin) -> Option<PathBuf> {
    let directories = std::env::var_os(RUNTIME_DIRECTORY);
    let directory = directories.as_deref().and_then(|of| of.to_str());
    chosen(settings.socket.as_deref(), directory)
}

fn chosen(configured: Option<&Path>, runtime_directories: Option<&str>) -> Option<PathBuf> {
    match configured {
        Some(path) if path.as_os_str().is_empty() => None,
        Some(path) => Some(path.to_owned()),
        None => {
            // There may be several.
            let first = runtime_directories?.split(':').next()?;
            (!first.is_empty()).then(|| Path::new(first).join("admin.sock"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_settings_come_first_and_empty_is_none() {
        let at =
            |configured: Option<&str>, directories| chosen(configured.map(Path::new), directories);
        let runtime = Some("/run/helenus:/run/other");
        assert_eq!(at(None, None), None);
        assert_eq!(at(None, Some("")), None);
        assert_eq!(at(None, runtime), Some("/run/helenus/admin.sock".into()));
        assert_eq!(at(Some("/x"), runtime), Some("/x".into()));
        assert_eq!(at(Some(""), runtime), None);
    }
}
