//! Rows of tables with the times at which they were written, as nodes send and take them: what to select, what an
//! answer says, how two rows differ, and which statements make one row what another is. Nothing here speaks with a
//! node.
//!
//! `helenus layouts` copies and compares tables with it, `helenus payload` moves columns, and proxies bring copies back
//! that were out of sync.

mod batches;
mod difference;
mod equalizing;
mod names;
mod page;
mod range;
mod row;
mod table;
mod writes;

pub use batches::batches;
pub use difference::{Hashes, Part, Sum, differing};
pub use equalizing::{Equalizing, Look, Step};
pub use names::{BadName, TableName, in_keyspace, literal};
pub use page::{PAGE_ROWS, PAGE_ROWS_FIRST, page_rows};
pub use range::{Range, split};
pub use row::{Bytes, Cell, Misread, Row, Rows, Selects, collection};
pub use table::{Column, ColumnRow, Shape, Table, has_user_type};
pub use writes::{Kind, Write, apart, copy, expires_untold, remove, values, whole};
