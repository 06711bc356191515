//! Rows of tables with the times at which they were written, as nodes send and take them: what to select, what an
//! answer says, how two rows differ, and which statements make one row what another is. Nothing here speaks with a
//! node.
//!
//! `helenus layouts` copies and compares tables with it, and `helenus payload` moves columns.

mod batches;
mod difference;
mod names;
mod page;
mod range;
mod row;
mod table;
mod writes;

pub use batches::batches;
pub use difference::{Hashes, Part, Sum, differing};
pub use names::{BadName, TableName, in_keyspace};
pub use page::{PAGE_ROWS, PAGE_ROWS_FIRST, page_rows};
pub use range::{Range, split};
pub use row::{Bytes, Cell, Misread, Row, Rows, Selects};
pub use table::{Column, ColumnRow, Shape, Table};
pub use writes::{Kind, Write, apart, copy, expires_untold, remove};
