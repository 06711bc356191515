//! Runs the Java program that asks Cassandra's parser.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

const VERSION: &str = "5.0.6";

/// One answer for each question, in order.
pub(crate) fn ask(questions: &[String]) -> Result<Vec<Value>> {
    let progress = Arc::new(|step: &str| println!("{step}"));
    let lib = helenus_cluster::fetch(VERSION, progress)?;
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
