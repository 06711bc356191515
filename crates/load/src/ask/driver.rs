//! Clients that share sessions of a real driver.

use super::{Answer, Parameter, Simple};
use crate::endpoint::Endpoint;
use crate::failure::error_kind;
use crate::measure::ErrorKind;
use anyhow::{Context, Result};
use scylla::client::session::Session;
use scylla::deserialize::row::ColumnIterator;
use scylla::errors::ExecutionError;
use scylla::frame::response::result::{ColumnType, NativeType};
use scylla::response::PagingState;
use scylla::response::query_result::{IntoRowsResultError, QueryResult};
use scylla::serialize::SerializationError;
use scylla::serialize::row::{RowSerializationContext, SerializeRow};
use scylla::serialize::writers::RowWriter;
use scylla::statement::prepared::PreparedStatement;
use std::ops::ControlFlow;
use std::sync::Arc;

const UNREADABLE: ErrorKind = "unreadable answer";

#[derive(Debug)]
pub struct DriverClients {
    applications: Vec<Application>,
    /// Rows of a page; `None`: all rows at once.
    page_rows: Option<i32>,
}

#[derive(Debug)]
struct Application {
    session: Arc<Session>,
    statements: Vec<PreparedStatement>,
}

impl DriverClients {
    pub async fn open(endpoint: &Endpoint, statements: &[&str], sessions: usize) -> Result<Self> {
        let mut applications = Vec::with_capacity(sessions);
        for _ in 0..sessions {
            let session = endpoint.connect().await?;
            let mut prepared = Vec::with_capacity(statements.len());
            for text in statements {
                let statement = session.prepare(*text).await;
                prepared.push(statement.with_context(|| format!("cannot prepare: {text}"))?);
            }
            applications.push(Application {
                session: Arc::new(session),
                statements: prepared,
            });
        }
        Ok(Self {
            applications,
            page_rows: None,
        })
    }

    /// Answers come in pages of so many rows from now on.
    pub fn page_by(&mut self, rows: i32) {
        self.page_rows = Some(rows);
        for application in &mut self.applications {
            for statement in &mut application.statements {
                statement.set_page_size(rows);
            }
        }
    }

    pub fn sessions(&self) -> impl Iterator<Item = &Arc<Session>> {
        self.applications.iter().map(|each| &each.session)
    }

    pub fn parameters(&self, statement: usize) -> Vec<Parameter> {
        let specs = self.applications[0].statements[statement].get_variable_col_specs();
        specs
            .iter()
            .map(|spec| Parameter {
                name: spec.name().to_owned(),
                kind: match spec.typ() {
                    ColumnType::Native(native) => simple(native),
                    _ => None,
                },
            })
            .collect()
    }

    pub async fn ask(
        &self,
        client: usize,
        statement: usize,
        values: &[&[u8]],
    ) -> Result<Answer, ErrorKind> {
        let application = &self.applications[client % self.applications.len()];
        let (session, statement) = (&application.session, &application.statements[statement]);
        let failed = |error: ExecutionError| error_kind(&error);
        if self.page_rows.is_none() {
            let done = session.execute_unpaged(statement, Cells(values)).await;
            return answer(done.map_err(failed)?);
        }
        let mut state = PagingState::start();
        let mut all: Option<Answer> = None;
        loop {
            let asked = session.execute_single_page(statement, Cells(values), state);
            let (page, next) = asked.await.map_err(failed)?;
            let page = answer(page)?;
            match &mut all {
                Some(all) => all.rows += page.rows,
                None => all = Some(page),
            }
            match next.into_paging_control_flow() {
                ControlFlow::Break(()) => return Ok(all.unwrap_or_default()),
                ControlFlow::Continue(next) => state = next,
            }
        }
    }
}

fn answer(result: QueryResult) -> Result<Answer, ErrorKind> {
    let rows = match result.into_rows_result() {
        Ok(rows) => rows,
        Err(IntoRowsResultError::ResultNotRows(_)) => return Ok(Answer::default()),
        Err(_) => return Err(UNREADABLE),
    };
    let first = rows
        .maybe_first_row::<ColumnIterator>()
        .map_err(|_| UNREADABLE)?;
    let mut cells = Vec::new();
    for column in first.into_iter().flatten() {
        let column = column.map_err(|_| UNREADABLE)?;
        cells.push(column.slice.map(|slice| slice.as_slice().to_vec()));
    }
    Ok(Answer {
        rows: rows.rows_num(),
        first: cells,
    })
}

/// Values that are encoded already.
struct Cells<'a>(&'a [&'a [u8]]);

impl SerializeRow for Cells<'_> {
    fn serialize(
        &self,
        _: &RowSerializationContext<'_>,
        writer: &mut RowWriter,
    ) -> Result<(), SerializationError> {
        for value in self.0 {
            writer
                .make_cell_writer()
                .set_value(value)
                .map_err(SerializationError::new)?;
        }
        Ok(())
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

fn simple(native: &NativeType) -> Option<Simple> {
    Some(match native {
        NativeType::Ascii | NativeType::Text => Simple::Text,
        NativeType::Blob => Simple::Blob,
        NativeType::Boolean => Simple::Boolean,
        NativeType::TinyInt => Simple::TinyInt,
        NativeType::SmallInt => Simple::SmallInt,
        NativeType::Int => Simple::Int,
        NativeType::BigInt => Simple::BigInt,
        NativeType::Varint => Simple::Varint,
        NativeType::Counter => Simple::Counter,
        NativeType::Float => Simple::Float,
        NativeType::Double => Simple::Double,
        NativeType::Timestamp => Simple::Timestamp,
        NativeType::Date => Simple::Date,
        NativeType::Time => Simple::Time,
        NativeType::Uuid => Simple::Uuid,
        NativeType::Timeuuid => Simple::TimeUuid,
        _ => return None,
    })
}
