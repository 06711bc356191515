//! The optional agent in the nodes (`agent/`, `docs/agent.md`): its jar, the options that enable it, and the
//! secret that the nodes share with proxies.

use std::fmt::Write as _;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use crate::error::{Context, Result, invalid};
use crate::private_file;

/// The argument for `java`; the jar must be on the class path.
pub(crate) const PROPERTY: &str =
    "-Dcassandra.custom_query_handler_class=io.helenus.agent.ReadOrderHandler";

const JAR: &str = "helenus-agent.jar";
const SECRET_FILE: &str = "report-secret";

/// The file with the secret of all nodes of the cluster in `dir`.
pub(crate) fn secret_file(dir: &Path) -> PathBuf {
    dir.join(SECRET_FILE)
}

/// The option that names the secret's file.
pub(crate) fn secret_option(dir: &Path) -> String {
    let file = secret_file(dir);
    format!("-Dhelenus.agent.report_secret_file={}", file.display())
}

/// Makes the secret, if there is none yet.
pub(crate) fn make_secret(dir: &Path) -> Result<()> {
    let path = secret_file(dir);
    if path.exists() {
        return Ok(());
    }
    // Written beside it first: a secret that is there is whole.
    let unfinished = path.with_extension("new");
    private_file::write(&unfinished, &secret()?)?;
    std::fs::rename(&unfinished, &path).during("writing", &path)
}

fn secret() -> Result<String> {
    let source = Path::new("/dev/urandom");
    let mut bytes = [0; 32];
    File::open(source)
        .and_then(|mut file| file.read_exact(&mut bytes))
        .during("reading", source)?;
    let mut text = String::new();
    for byte in bytes {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text.push('\n');
    Ok(text)
}

/// Finds the agent's jar: beside the running program, else where Maven puts it in the source tree
/// that contains the current folder.
///
/// # Errors
/// If it is in neither place; the message says how to build it.
pub fn find_agent() -> Result<PathBuf> {
    let program = std::env::current_exe().unwrap_or_default();
    let current = std::env::current_dir().unwrap_or_default();
    find_in(&program, &current)
}

fn find_in(program: &Path, current: &Path) -> Result<PathBuf> {
    let beside = program.with_file_name(JAR);
    let built = Path::new("agent").join("target").join(JAR);
    let in_tree = current.ancestors().map(|folder| folder.join(&built));
    std::iter::once(beside.clone())
        .chain(in_tree)
        .find(|jar| jar.is_file())
        .ok_or_else(|| {
            invalid(format!(
                "no {JAR} beside the program ({}), and no {} in this folder or above it; build it in the \
                 source tree with `mvn -q -B -f agent/pom.xml package`, or name the jar: --agent=JAR",
                beside.display(),
                built.display()
            ))
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_cluster_has_one_secret_that_only_its_owner_reads() {
        let dir = tempfile::tempdir().expect("a folder");
        make_secret(dir.path()).expect("made");
        let path = secret_file(dir.path());
        assert!(secret_option(dir.path()).ends_with(&format!("={}", path.display())));
        let secret = fs::read_to_string(&path).expect("a secret");
        assert_eq!(secret.trim_end().len(), 64);
        let mode = fs::metadata(&path).expect("a file").permissions().mode();
        assert_eq!(mode & 0o077, 0);
        make_secret(dir.path()).expect("the same");
        assert_eq!(fs::read_to_string(&path).expect("a secret"), secret);
        let other = tempfile::tempdir().expect("a folder");
        make_secret(other.path()).expect("made");
        let other = fs::read_to_string(secret_file(other.path())).expect("a secret");
        assert_ne!(other, secret);
    }

    #[test]
    fn the_jar_is_found_or_the_way_to_it_told() {
        let dir = tempfile::tempdir().expect("a folder");
        let program = dir.path().join("bin").join("helenus");
        let deep = dir.path().join("tree").join("crates").join("x");
        let built = dir.path().join("tree").join("agent").join("target");
        for folder in [&deep, &built, &dir.path().join("bin")] {
            fs::create_dir_all(folder).expect("created");
        }
        let message = find_in(&program, &deep).expect_err("no jar").to_string();
        assert!(
            message.contains("mvn -q -B -f agent/pom.xml package"),
            "{message}"
        );
        fs::write(built.join(JAR), "").expect("written");
        assert_eq!(find_in(&program, &deep).expect("built"), built.join(JAR));
        let beside = program.with_file_name(JAR);
        fs::write(&beside, "").expect("written");
        assert_eq!(find_in(&program, &deep).expect("beside"), beside);
    }
}
