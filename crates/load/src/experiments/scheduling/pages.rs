//! Reading an answer page by page.

use crate::client::failure::error_kind;
use crate::measure::ErrorKind;
use scylla::client::session::Session;
use scylla::response::PagingState;
use scylla::response::query_result::QueryRowsResult;
use scylla::serialize::row::SerializeRow;
use scylla::statement::prepared::PreparedStatement;
use std::ops::ControlFlow;

/// The default of drivers.
pub(super) const PAGE_ROWS: i32 = 5000;
pub(super) const UNREADABLE: ErrorKind = "unreadable answer";

/// Reads all pages, one after another.
pub(super) async fn pages(
    session: &Session,
    statement: &PreparedStatement,
    values: &(impl SerializeRow + Sync),
    mut take: impl FnMut(QueryRowsResult) -> Result<(), ErrorKind>,
) -> Result<(), ErrorKind> {
    let mut state = PagingState::start();
    loop {
        let response = session.execute_single_page(statement, values, state).await;
        let (page, next) = response.map_err(|error| error_kind(&error))?;
        take(page.into_rows_result().map_err(|_| UNREADABLE)?)?;
        match next.into_paging_control_flow() {
            ControlFlow::Break(()) => return Ok(()),
            ControlFlow::Continue(next) => state = next,
        }
    }
}
