//! The common script with the Rust driver. It speaks version 4 of the protocol only.

mod harness;
mod metadata;
mod statements;
mod transport;
mod values;

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result};
use harness::Checks;
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use scylla::response::query_result::QueryRowsResult;
use scylla::serialize::row::SerializeRow;
use scylla::statement::Statement;

/// One session in the driver's default configuration, and means to open others.
pub struct Context {
    pub keyspace: String,
    pub expect_nodes: usize,
    pub session: Session,
    address: String,
    direct: String,
}

impl Context {
    pub fn builder(&self) -> SessionBuilder {
        SessionBuilder::new().known_node(&self.address)
    }

    /// A session behind the proxy, if the caller named the cluster itself.
    pub async fn open_direct(&self) -> Result<Session> {
        Ok(SessionBuilder::new()
            .known_node(&self.direct)
            .build()
            .await?)
    }

    pub fn table(&self, name: &str) -> String {
        format!("{}.{name}", self.keyspace)
    }

    pub async fn run(&self, text: impl Into<Statement>, values: impl SerializeRow) -> Result<()> {
        self.session.query_unpaged(text, values).await?;
        Ok(())
    }

    pub async fn rows(
        &self,
        text: impl Into<Statement>,
        values: impl SerializeRow,
    ) -> Result<QueryRowsResult> {
        let answer = self.session.query_unpaged(text, values).await?;
        Ok(answer.into_rows_result()?)
    }
}

struct Options {
    name: String,
    host: String,
    port: String,
    expect_nodes: usize,
    direct: Option<String>,
}

fn options() -> Result<Options> {
    let mut found = Options {
        name: "rust".into(),
        host: "127.0.0.1".into(),
        port: "9042".into(),
        expect_nodes: 0,
        direct: None,
    };
    let mut arguments = std::env::args().skip(1);
    while let Some(key) = arguments.next() {
        let value = arguments
            .next()
            .with_context(|| format!("{key} needs a value"))?;
        match key.as_str() {
            "--name" => found.name = value,
            "--host" => found.host = value,
            "--port" => found.port = value,
            "--expect-nodes" => found.expect_nodes = value.parse()?,
            "--direct" => found.direct = Some(value),
            _ => anyhow::bail!("unknown option {key}"),
        }
    }
    Ok(found)
}

async fn connect(options: &Options) -> Result<Context> {
    let address = format!("{}:{}", options.host, options.port);
    let session = SessionBuilder::new().known_node(&address).build().await?;
    let keyspace = format!("conf_{}", options.name.replace('-', "_"));
    for text in [
        format!("DROP KEYSPACE IF EXISTS {keyspace}"),
        format!(
            "CREATE KEYSPACE {keyspace} WITH replication = \
             {{'class': 'SimpleStrategy', 'replication_factor': 1}}"
        ),
    ] {
        let mut statement = Statement::new(text);
        statement.set_request_timeout(Some(Duration::from_secs(30)));
        session.query_unpaged(statement, ()).await?;
    }
    let direct = options.direct.clone().unwrap_or_else(|| address.clone());
    Ok(Context {
        keyspace,
        expect_nodes: options.expect_nodes,
        session,
        address,
        direct,
    })
}

#[tokio::main]
async fn main() -> Result<ExitCode> {
    let options = options()?;
    let mut checks = Checks::new(&options.name);
    let Some(context) = checks.run("connect", connect(&options)).await else {
        return Ok(ExitCode::FAILURE);
    };
    metadata::run(&mut checks, &context).await;
    values::run(&mut checks, &context).await;
    statements::run(&mut checks, &context).await;
    transport::run(&mut checks, &context).await;
    context
        .run(format!("DROP KEYSPACE {}", context.keyspace), ())
        .await?;
    Ok(if checks.failed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
