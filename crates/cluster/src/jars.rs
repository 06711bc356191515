//! Cassandra's jars: fetched once with Maven, kept in the user's cache, shared by all clusters.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::error::{Context, Error, Result, invalid};
use crate::paths;

/// The folder with the jars of `version`, fetched first if necessary.
///
/// Concurrent callers are safe: one fetches, the other waits on a file lock. The folder is renamed
/// into place, so a broken download is never taken for a complete one.
pub(crate) fn ensure(version: &str, progress: &dyn Fn(&str)) -> Result<PathBuf> {
    check_version(version)?;
    let home = paths::cache_dir()?.join("cassandra").join(version);
    let lib = home.join("lib");
    if lib.is_dir() {
        return Ok(lib);
    }
    fs::create_dir_all(&home).during("creating", &home)?;
    let lock_path = home.join("lock");
    let lock = File::create(&lock_path).during("creating", &lock_path)?;
    lock.lock().during("locking", &lock_path)?;
    if lib.is_dir() {
        return Ok(lib);
    }
    progress(&format!(
        "fetching Cassandra {version} with Maven (about 70 MB, once)"
    ));
    let partial = home.join("partial");
    remove_if_present(&partial)?;
    fs::create_dir_all(&partial).during("creating", &partial)?;
    let pom = partial.join("pom.xml");
    fs::write(&pom, pom_text(version)).during("writing", &pom)?;
    run_maven(&partial, version)?;
    let fetched = partial.join("lib");
    if !fetched
        .join(format!("cassandra-all-{version}.jar"))
        .is_file()
    {
        return Err(Error::Download {
            version: version.to_owned(),
            output: format!("Maven left no cassandra-all jar in {}", fetched.display()),
        });
    }
    fs::rename(&fetched, &lib).during("moving the jars to", &lib)?;
    remove_if_present(&partial)?;
    Ok(lib)
}

fn run_maven(folder: &Path, version: &str) -> Result<()> {
    let result = Command::new("mvn")
        .args(["-q", "-B", "-f"])
        .arg(folder.join("pom.xml"))
        .args(["dependency:copy-dependencies", "-DincludeScope=runtime"])
        .arg(format!(
            "-DoutputDirectory={}",
            folder.join("lib").display()
        ))
        .stdin(Stdio::null())
        .output();
    let output = match result {
        Ok(output) => output,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return Err(Error::MissingProgram {
                program: "mvn",
                package: "maven",
            });
        }
        Err(source) => {
            return Err(Error::Io {
                what: "running mvn".into(),
                source,
            });
        }
    };
    if output.status.success() {
        return Ok(());
    }
    let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.push_str(&String::from_utf8_lossy(&output.stderr));
    Err(Error::Download {
        version: version.to_owned(),
        output: text,
    })
}

/// Versions become part of a path and of XML, so only the usual characters are allowed.
fn check_version(version: &str) -> Result<()> {
    let fine = version.starts_with(|first: char| first.is_ascii_digit())
        && version
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || c == '.' || c == '-');
    if fine {
        Ok(())
    } else {
        Err(invalid(format!(
            "{version:?} is not a Cassandra version; try 5.0.6 or 4.1.10"
        )))
    }
}

fn pom_text(version: &str) -> String {
    format!(
        r#"<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>local.helenus</groupId>
  <artifactId>cassandra-jars</artifactId>
  <version>1</version>
  <packaging>pom</packaging>
  <dependencies>
    <dependency>
      <groupId>org.apache.cassandra</groupId>
      <artifactId>cassandra-all</artifactId>
      <version>{version}</version>
    </dependency>
  </dependencies>
</project>
"#
    )
}

fn remove_if_present(folder: &Path) -> Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error).during("removing", folder),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_that_could_leave_the_cache_are_refused() {
        for bad in ["", "../5.0.6", "5.0/6", "latest", "5.0.6<x>"] {
            assert!(check_version(bad).is_err(), "{bad:?}");
        }
        for good in ["5.0.6", "4.1.10", "5.0-rc1"] {
            assert!(check_version(good).is_ok(), "{good:?}");
        }
    }

    #[test]
    fn pom_names_the_version() {
        assert!(pom_text("4.1.10").contains("<version>4.1.10</version>"));
    }
}
