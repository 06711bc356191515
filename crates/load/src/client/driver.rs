//! Clients that share the sessions of a real driver.

use super::raw::Once;
use super::{BindMarker, CqlType, Response};
use crate::client::endpoint::Endpoint;
use crate::client::failure::error_kind;
use crate::measure::ErrorKind;
use anyhow::{Context, Result};
use helenus_wire::Compression;
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
    sessions: Vec<PreparedSession>,
    /// Rows per page; `None`: all rows in one page.
    page_rows: Option<i32>,
}

#[derive(Debug)]
struct PreparedSession {
    session: Arc<Session>,
    statements: Vec<PreparedStatement>,
}

impl DriverClients {
    pub async fn open(endpoint: &Endpoint, statements: &[&str], sessions: usize) -> Result<Self> {
        if endpoint.compression != Compression::None {
            // The driver itself would go on without compression where a server does not know it.
            Once::open(endpoint).await?;
        }
        let mut opened = Vec::with_capacity(sessions);
        for _ in 0..sessions {
            let session = endpoint.connect().await?;
            let mut prepared = Vec::with_capacity(statements.len());
            for text in statements {
                let statement = session.prepare(*text).await;
                prepared.push(statement.with_context(|| format!("cannot prepare: {text}"))?);
            }
            opened.push(PreparedSession {
                session: Arc::new(session),
                statements: prepared,
            });
        }
        Ok(Self {
            sessions: opened,
            page_rows: None,
        })
    }

    pub fn set_page_rows(&mut self, rows: i32) {
        self.page_rows = Some(rows);
        for session in &mut self.sessions {
            for statement in &mut session.statements {
                statement.set_page_size(rows);
            }
        }
    }

    pub fn sessions(&self) -> impl Iterator<Item = &Arc<Session>> {
        self.sessions.iter().map(|each| &each.session)
    }

    pub fn markers(&self, statement: usize) -> Vec<BindMarker> {
        let specs = self.sessions[0].statements[statement].get_variable_col_specs();
        specs
            .iter()
            .map(|spec| BindMarker {
                name: spec.name().to_owned(),
                cql_type: match spec.typ() {
                    ColumnType::Native(native) => cql_type(native),
                    _ => None,
                },
            })
            .collect()
    }

    pub async fn execute(
        &self,
        client: usize,
        statement: usize,
        values: &[&[u8]],
    ) -> Result<Response, ErrorKind> {
        let PreparedSession {
            session,
            statements,
        } = &self.sessions[client % self.sessions.len()];
        let statement = &statements[statement];
        let failed = |error: ExecutionError| error_kind(&error);
        if self.page_rows.is_none() {
            let done = session
                .execute_unpaged(statement, EncodedValues(values))
                .await;
            return response(done.map_err(failed)?);
        }
        let mut state = PagingState::start();
        let mut all: Option<Response> = None;
        loop {
            let request = session.execute_single_page(statement, EncodedValues(values), state);
            let (page, next) = request.await.map_err(failed)?;
            let page = response(page)?;
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

fn response(result: QueryResult) -> Result<Response, ErrorKind> {
    let rows = match result.into_rows_result() {
        Ok(rows) => rows,
        Err(IntoRowsResultError::ResultNotRows(_)) => return Ok(Response::default()),
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
    Ok(Response {
        rows: rows.rows_num(),
        first_row: cells,
    })
}

/// Values already in wire encoding.
struct EncodedValues<'a>(&'a [&'a [u8]]);

impl SerializeRow for EncodedValues<'_> {
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

fn cql_type(native: &NativeType) -> Option<CqlType> {
    Some(match native {
        NativeType::Ascii | NativeType::Text => CqlType::Text,
        NativeType::Blob => CqlType::Blob,
        NativeType::Boolean => CqlType::Boolean,
        NativeType::TinyInt => CqlType::TinyInt,
        NativeType::SmallInt => CqlType::SmallInt,
        NativeType::Int => CqlType::Int,
        NativeType::BigInt => CqlType::BigInt,
        NativeType::Varint => CqlType::Varint,
        NativeType::Counter => CqlType::Counter,
        NativeType::Float => CqlType::Float,
        NativeType::Double => CqlType::Double,
        NativeType::Timestamp => CqlType::Timestamp,
        NativeType::Date => CqlType::Date,
        NativeType::Time => CqlType::Time,
        NativeType::Uuid => CqlType::Uuid,
        NativeType::Timeuuid => CqlType::TimeUuid,
        _ => return None,
    })
}
