//! Runs the Java program that asks Cassandra's parser.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

const VERSION: &str = "5.0.6";

/// One answer for each question, in order.
pub fn ask(questions: &[String]) -> Result<Vec<Value>> {
    let lib = jars()?;
    let folder = tempfile::tempdir()?;
    let input = folder.path().join("questions");
    let mut file = File::create(&input)?;
    for question in questions {
        file.write_all(question.as_bytes())?;
        file.write_all(&[0])?;
    }
    drop(file);
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("cql-oracle/CqlOracle.java");
    let run = Command::new("java")
        .args(["-Xmx512m", "-XX:TieredStopAtLevel=1", "-Dfile.encoding=UTF-8", "-cp"])
        .arg(lib.join("*"))
        .arg(&program)
        .stdin(File::open(&input)?)
        .output()
        .context("the CQL oracle needs a Java development kit (11 or later): install one and put `java` on the PATH")?;
    let stderr = String::from_utf8_lossy(&run.stderr);
    ensure!(run.status.success(), "the CQL oracle failed:\n{stderr}");
    let answers = String::from_utf8(run.stdout)?
        .lines()
        .map(serde_json::from_str)
        .collect::<Result<Vec<Value>, _>>()
        .context("the CQL oracle answered something other than JSON")?;
    ensure!(
        answers.len() == questions.len(),
        "{} questions but {} answers:\n{stderr}",
        questions.len(),
        answers.len()
    );
    Ok(answers)
}

fn jars() -> Result<PathBuf> {
    let cache = match (std::env::var_os("XDG_CACHE_HOME"), std::env::var_os("HOME")) {
        (Some(cache), _) if !cache.is_empty() => PathBuf::from(cache),
        (_, Some(home)) => PathBuf::from(home).join(".cache"),
        _ => bail!("neither XDG_CACHE_HOME nor HOME is set"),
    };
    let lib = cache.join("helenus/cassandra").join(VERSION).join("lib");
    let jar = lib.join(format!("cassandra-all-{VERSION}.jar"));
    ensure!(
        jar.is_file(),
        "the CQL oracle needs Cassandra's jars in {}: start a test cluster once (helenus cluster up), \
         which fetches them, or copy the runtime dependencies of org.apache.cassandra:cassandra-all:{VERSION} there",
        lib.display()
    );
    Ok(lib)
}
