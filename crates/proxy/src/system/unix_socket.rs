//! Unix sockets for programs of the same user on the same machine.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use tokio::net::UnixListener;

/// The socket's file, which is removed with this, unless another has taken its place.
#[derive(Debug)]
pub(crate) struct SocketFile {
    path: PathBuf,
    /// Device and number of the file.
    file: (u64, u64),
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if identity(&self.path).is_ok_and(|file| file == self.file) {
            // A socket that is left over is replaced by the next proxy.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Listens, in place of a proxy that has ended. Nobody else can connect at any moment: the socket gets its
/// rights in a folder that is closed to others, and then its name.
pub(crate) fn bind(path: &Path) -> Result<(UnixListener, SocketFile)> {
    if let Ok(there) = fs::symlink_metadata(path) {
        if !there.file_type().is_socket() {
            bail!("there is a file that is no socket: remove it, or choose another path");
        }
        if UnixStream::connect(path).is_ok() {
            bail!("another process listens there: give each proxy a path of its own");
        }
    }
    bind_in_place(path)
}

/// [`bind`] in place of a process that may still listen there: whoever connects finds one of the two.
pub(crate) fn bind_in_place(path: &Path) -> Result<(UnixListener, SocketFile)> {
    let mut folder = path.as_os_str().to_owned();
    folder.push(format!(".{}", std::process::id()));
    let folder = PathBuf::from(folder);
    // Left over from a process of the same number.
    let _ = fs::remove_dir_all(&folder);
    let made = fs::DirBuilder::new().mode(0o700).create(&folder);
    made.with_context(|| format!("cannot make a folder beside it ({})", folder.display()))?;
    let bound = bind_in(&folder, path);
    let _ = fs::remove_dir_all(&folder);
    bound
}

fn bind_in(folder: &Path, path: &Path) -> Result<(UnixListener, SocketFile)> {
    let inside = folder.join("s");
    let listener = UnixListener::bind(&inside)?;
    fs::set_permissions(&inside, fs::Permissions::from_mode(0o600))?;
    fs::rename(&inside, path)?;
    let file = SocketFile {
        path: path.to_owned(),
        file: identity(path)?,
    };
    Ok((listener, file))
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    let of = fs::symlink_metadata(path)?;
    Ok((of.dev(), of.ino()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_its_user_may_connect_and_old_sockets_make_way() {
        let folder = std::env::temp_dir().join(format!("helenus-socket-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        let path = folder.join("admin.sock");
        let (listener, file) = bind(&path).expect("bound");
        let rights = fs::metadata(&path)
            .expect("it is there")
            .permissions()
            .mode();
        assert_eq!(rights & 0o777, 0o600);
        let twice = bind(&path).expect_err("in use").to_string();
        assert!(twice.contains("another process"), "{twice}");
        // One that knows better takes its place, which the first does not take along when it ends.
        let (second, its_file) = bind_in_place(&path).expect("bound");
        drop((listener, file));
        let (listener, file) = (second, its_file);
        UnixStream::connect(&path).expect("the second listens");
        // Its process has died.
        drop(listener);
        let (_listener, again) = bind(&path).expect("bound again");
        drop(file);
        assert!(
            path.exists(),
            "the file of the second is not removed by the first"
        );
        drop(again);
        assert!(!path.exists());
        fs::write(&path, "text").expect("written");
        let file = bind(&path).expect_err("a file").to_string();
        assert!(file.contains("no socket"), "{file}");
        fs::remove_dir_all(&folder).expect("removed");
    }
}
