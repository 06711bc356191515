//! The optional agent in the nodes (`agent/`, `docs/agent.md`): its jar and the option that enables
//! it.

use std::path::{Path, PathBuf};

use crate::error::{Result, invalid};

/// The argument for `java`; the jar must be on the class path.
pub(crate) const PROPERTY: &str =
    "-Dcassandra.custom_query_handler_class=io.helenus.agent.ReadOrderHandler";

const JAR: &str = "helenus-agent.jar";

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
