//! Builds the Java program with Maven, once for each version of its sources.

use anyhow::{Context, Result, bail, ensure};
use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const SOURCES: [(&str, &str); 5] = [
    ("pom.xml", include_str!("../../../java/pom.xml")),
    (
        "src/load/Main.java",
        include_str!("../../../java/src/load/Main.java"),
    ),
    (
        "src/load/Loop.java",
        include_str!("../../../java/src/load/Loop.java"),
    ),
    (
        "src/load/Statements.java",
        include_str!("../../../java/src/load/Statements.java"),
    ),
    (
        "src/load/Request.java",
        include_str!("../../../java/src/load/Request.java"),
    ),
];

/// The folder with the program, in a folder for caches. Needs Maven and Java 11 or later the first time.
pub fn build(cache: &Path) -> Result<PathBuf> {
    let mut hasher = DefaultHasher::new();
    SOURCES.hash(&mut hasher);
    let parent = cache.join("java-load");
    let ready = parent.join(format!("{:016x}", hasher.finish()));
    fs::create_dir_all(&parent).with_context(|| format!("cannot create {}", parent.display()))?;
    // Concurrent callers: one builds, the others wait.
    let lock = File::create(parent.join("lock")).context("cannot create a lock file")?;
    lock.lock().context("cannot lock the cache")?;
    if ready.is_dir() {
        return Ok(ready);
    }
    let partial = parent.join("partial");
    if partial.exists() {
        fs::remove_dir_all(&partial).context("cannot remove an unfinished build")?;
    }
    for (name, text) in SOURCES {
        let path = partial.join(name);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    maven(&partial)?;
    // Renamed into place: what is there is whole.
    fs::rename(&partial, &ready)?;
    Ok(ready)
}

fn maven(folder: &Path) -> Result<()> {
    let done = Command::new("mvn")
        .args(["-q", "-B", "-f"])
        .arg(folder.join("pom.xml"))
        .args(["compile", "dependency:copy-dependencies"])
        .arg("-DincludeScope=runtime")
        .arg(format!("-DoutputDirectory={}/lib", folder.display()))
        .stdin(Stdio::null())
        .output();
    let done = done.context("cannot run mvn (Debian/Ubuntu: `apt install maven`)")?;
    if !done.status.success() {
        let told = [done.stdout, done.stderr].concat();
        bail!(
            "Maven could not build the Java program:\n{}",
            String::from_utf8_lossy(&told)
        );
    }
    let main = folder.join("target/classes/load/Main.class");
    ensure!(main.is_file(), "Maven left no {}", main.display());
    Ok(())
}
