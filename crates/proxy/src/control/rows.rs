//! Results of the proxy's own queries.

use std::time::Duration;

use helenus_wire::RowsView;

use crate::conn::{Conn, ConnError};
use helenus_engine::snapshot::SystemColumn;

/// How long a node may take to answer.
pub(crate) const ANSWER_MAX: Duration = Duration::from_secs(10);

pub(crate) async fn query(conn: &mut Conn, cql: &str) -> Result<Rows, ConnError> {
    let message = tokio::time::timeout(ANSWER_MAX, conn.query(cql))
        .await
        .map_err(|_| ConnError::Timeout(ANSWER_MAX))??;
    Rows::parse(message.content()?)
}

/// A result with cells accessed by column name.
#[derive(Default)]
pub(crate) struct Rows {
    pub columns: Vec<SystemColumn>,
    pub rows: Vec<Vec<Option<Vec<u8>>>>,
}

impl Rows {
    pub(crate) fn parse(body: &[u8]) -> Result<Rows, ConnError> {
        let view = RowsView::parse(body)?;
        let columns = view
            .columns
            .iter()
            .map(|c| SystemColumn {
                name: c.name.to_owned(),
                type_raw: c.column_type.raw.to_vec(),
            })
            .collect();
        let rows = view
            .rows()
            .map(|row| Ok(row?.into_iter().map(|c| c.map(<[u8]>::to_vec)).collect()))
            .collect::<Result<_, helenus_wire::Malformed>>()?;
        Ok(Rows { columns, rows })
    }

    pub(crate) fn cell<'a>(&self, row: &'a [Option<Vec<u8>>], name: &str) -> Option<&'a [u8]> {
        let at = self.columns.iter().position(|c| c.name == name)?;
        row.get(at)?.as_deref()
    }

    pub(crate) fn text(&self, row: &[Option<Vec<u8>>], name: &str) -> Option<String> {
        String::from_utf8(self.cell(row, name)?.to_vec()).ok()
    }

    pub(crate) fn int(&self, row: &[Option<Vec<u8>>], name: &str) -> Option<i32> {
        Some(i32::from_be_bytes(self.cell(row, name)?.try_into().ok()?))
    }

    pub(crate) fn bigint(&self, row: &[Option<Vec<u8>>], name: &str) -> Option<i64> {
        Some(i64::from_be_bytes(self.cell(row, name)?.try_into().ok()?))
    }
}
