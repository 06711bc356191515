//! Results: borrowed views of RESULT bodies.

use crate::envelope::{Version, flags};
use crate::reader::{Malformed, Reader};
use crate::types::{ColumnSpec, ColumnType};

pub(crate) const GLOBAL_TABLE: u32 = 0x1;
pub(crate) const MORE_PAGES: u32 = 0x2;
pub(crate) const NO_METADATA: u32 = 0x4;
pub(crate) const METADATA_CHANGED: u32 = 0x8;

/// The kind of a RESULT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResultKind {
    Void,
    Rows,
    SetKeyspace,
    Prepared,
    SchemaChange,
}

/// The kind of a RESULT whose prelude has been stripped.
pub fn result_kind(body: &[u8]) -> Result<ResultKind, Malformed> {
    Ok(match Reader::new(body).i32()? {
        1 => ResultKind::Void,
        2 => ResultKind::Rows,
        3 => ResultKind::SetKeyspace,
        4 => ResultKind::Prepared,
        5 => ResultKind::SchemaChange,
        _ => return Err(Malformed("unknown kind of result")),
    })
}

/// Splits a response body into what its flags announce (tracing id, warnings, payload) and the
/// message itself.
pub fn strip_prelude(header_flags: u8, body: &[u8]) -> Result<(&[u8], &[u8]), Malformed> {
    if header_flags & (flags::TRACING | flags::WARNING | flags::CUSTOM_PAYLOAD) == 0 {
        return Ok((&[], body));
    }
    let mut reader = Reader::new(body);
    if header_flags & flags::TRACING != 0 {
        reader.uuid()?;
    }
    if header_flags & flags::WARNING != 0 {
        for _ in 0..reader.u16()? {
            reader.string()?;
        }
    }
    if header_flags & flags::CUSTOM_PAYLOAD != 0 {
        reader.skip_bytes_map()?;
    }
    Ok(body.split_at(reader.position()))
}

/// A RESULT of kind Rows.
#[derive(Clone, Debug)]
pub struct RowsView<'a> {
    pub paging_state: Option<&'a [u8]>,
    pub new_metadata_id: Option<&'a [u8]>,
    /// Empty when the request asked to skip metadata.
    pub columns: Vec<ColumnSpec<'a>>,
    pub column_count: usize,
    pub row_count: usize,
    pub(crate) flags: u32,
    /// The bytes between the paging state and the number of rows.
    pub(crate) behind_state: &'a [u8],
    pub(crate) cells: &'a [u8],
}

impl<'a> RowsView<'a> {
    /// Parses a body whose prelude has been stripped.
    pub fn parse(body: &'a [u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(body);
        if reader.i32()? != 2 {
            return Err(Malformed("the result is not of kind Rows"));
        }
        let metadata = parse_metadata(&mut reader)?;
        let row_count = reader.i32()?;
        let row_count =
            usize::try_from(row_count).map_err(|_| Malformed("a negative number of rows"))?;
        if metadata.column_count == 0 && row_count > 0 {
            // Rows without columns take no bytes, so any number of them could be announced.
            return Err(Malformed("rows without columns"));
        }
        Ok(RowsView {
            paging_state: metadata.paging_state,
            new_metadata_id: metadata.new_metadata_id,
            columns: metadata.columns,
            column_count: metadata.column_count,
            row_count,
            flags: metadata.flags,
            behind_state: metadata.behind_state,
            cells: reader.rest(),
        })
    }

    /// Bytes of the rows.
    pub fn byte_len(&self) -> usize {
        self.cells.len()
    }

    /// True if the page carries exactly these column specifications.
    pub fn has_metadata(&self, metadata: &[u8]) -> bool {
        self.flags & (NO_METADATA | METADATA_CHANGED) == 0 && self.behind_state == metadata
    }

    /// Position of a column by name.
    pub fn column(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|c| c.name == name)
    }

    /// These columns with `row_count` other rows, as bytes of this page or of one like it.
    pub fn with_rows(&self, rows: &'a [u8], row_count: usize) -> RowsView<'a> {
        RowsView {
            row_count,
            cells: rows,
            ..self.clone()
        }
    }

    /// The bytes of the first `count` rows; `None` if there are fewer.
    pub fn first_rows(&self, count: usize) -> Option<&'a [u8]> {
        let mut reader = Reader::new(self.cells);
        if count > self.row_count {
            return None;
        }
        for _ in 0..count.checked_mul(self.column_count)? {
            reader.bytes().ok()?;
        }
        self.cells.get(..reader.position())
    }

    /// The bytes of each row and its cell in one column.
    pub fn rows_by(
        &self,
        column: usize,
    ) -> impl Iterator<Item = Result<(&'a [u8], Option<&'a [u8]>), Malformed>> + use<'a> {
        let (mut reader, cells) = (Reader::new(self.cells), self.cells);
        let columns = self.column_count;
        (0..self.row_count).map(move |_| {
            let start = reader.position();
            let mut wanted = None;
            for at in 0..columns {
                let cell = reader.bytes()?;
                if at == column {
                    wanted = cell;
                }
            }
            Ok((&cells[start..reader.position()], wanted))
        })
    }

    /// Calls `f` with the bytes of each row's first `count` cells, and with all of its cells.
    ///
    /// # Errors
    /// There are fewer rows than announced.
    pub fn for_each_row(
        &self,
        count: usize,
        mut f: impl FnMut(&'a [u8], &[Option<&'a [u8]>]),
    ) -> Result<(), Malformed> {
        let mut reader = Reader::new(self.cells);
        let mut cells = Vec::new();
        for _ in 0..self.row_count {
            cells.clear();
            let start = reader.position();
            let mut end = start;
            for at in 0..self.column_count {
                cells.push(reader.bytes()?);
                if at < count {
                    end = reader.position();
                }
            }
            f(&self.cells[start..end], &cells);
        }
        Ok(())
    }

    /// The cells of each row.
    pub fn rows(&self) -> impl Iterator<Item = Result<Vec<Option<&'a [u8]>>, Malformed>> + use<'a> {
        let mut reader = Reader::new(self.cells);
        let columns = self.column_count;
        (0..self.row_count).map(move |_| (0..columns).map(|_| reader.bytes()).collect())
    }
}

/// The columns of a result of one table, as [`PreparedView::result_metadata`] keeps them. `count`: how many
/// there are.
pub fn columns_of_table(metadata: &[u8], count: usize) -> Result<Vec<ColumnSpec<'_>>, Malformed> {
    parse_columns(&mut Reader::new(metadata), true, count)
}

struct Metadata<'a> {
    paging_state: Option<&'a [u8]>,
    new_metadata_id: Option<&'a [u8]>,
    columns: Vec<ColumnSpec<'a>>,
    column_count: usize,
    flags: u32,
    behind_state: &'a [u8],
}

fn parse_metadata<'a>(reader: &mut Reader<'a>) -> Result<Metadata<'a>, Malformed> {
    let flags = reader.u32()?;
    let column_count = reader.i32()?;
    let column_count =
        usize::try_from(column_count).map_err(|_| Malformed("a negative number of columns"))?;
    let paging_state = if flags & MORE_PAGES != 0 {
        reader.bytes()?
    } else {
        None
    };
    let behind = reader.rest();
    let new_metadata_id = if flags & METADATA_CHANGED != 0 {
        Some(reader.short_bytes()?)
    } else {
        None
    };
    let columns = if flags & NO_METADATA != 0 {
        Vec::new()
    } else {
        parse_columns(reader, flags & GLOBAL_TABLE != 0, column_count)?
    };
    Ok(Metadata {
        paging_state,
        new_metadata_id,
        columns,
        column_count,
        flags,
        behind_state: &behind[..behind.len() - reader.rest().len()],
    })
}

fn parse_columns<'a>(
    reader: &mut Reader<'a>,
    global: bool,
    count: usize,
) -> Result<Vec<ColumnSpec<'a>>, Malformed> {
    let global = if global {
        Some((reader.string()?, reader.string()?))
    } else {
        None
    };
    let mut columns = Vec::with_capacity(count.min(1024));
    for _ in 0..count {
        let (keyspace, table) = match global {
            Some(pair) => pair,
            None => (reader.string()?, reader.string()?),
        };
        let name = reader.string()?;
        let column_type = ColumnType::parse(reader)?;
        columns.push(ColumnSpec {
            keyspace,
            table,
            name,
            column_type,
        });
    }
    Ok(columns)
}

/// A RESULT of kind Prepared.
#[derive(Clone, Debug)]
pub struct PreparedView<'a> {
    pub id: &'a [u8],
    /// v5 only.
    pub result_metadata_id: Option<&'a [u8]>,
    /// Positions of the markers that make up the partition key, in key order; empty if unknown
    /// (v4 and later).
    pub partition_key: Vec<u16>,
    pub markers: Vec<ColumnSpec<'a>>,
    pub result_columns: Vec<ColumnSpec<'a>>,
    /// All that is said of the markers: their number, names and types, and the positions of the key.
    pub marker_metadata: &'a [u8],
    /// The columns' specifications, as every page of the result repeats them.
    pub result_metadata: &'a [u8],
    /// Where what is said of the result begins.
    pub(crate) result_at: usize,
    pub(crate) result_flags: u32,
}

impl<'a> PreparedView<'a> {
    /// Parses a body whose prelude has been stripped.
    pub fn parse(body: &'a [u8], version: Version) -> Result<Self, Malformed> {
        let mut reader = Reader::new(body);
        if reader.i32()? != 4 {
            return Err(Malformed("the result is not of kind Prepared"));
        }
        let id = reader.short_bytes()?;
        let result_metadata_id = if version == Version::V5 {
            Some(reader.short_bytes()?)
        } else {
            None
        };
        let markers_at = reader.position();
        let flags = reader.u32()?;
        let count = reader.i32()?;
        let count =
            usize::try_from(count).map_err(|_| Malformed("a negative number of markers"))?;
        let mut partition_key = Vec::new();
        if version >= Version::V4 {
            for _ in 0..reader.i32()?.max(0) {
                partition_key.push(reader.u16()?);
            }
        }
        let markers = parse_columns(&mut reader, flags & GLOBAL_TABLE != 0, count)?;
        let result_at = reader.position();
        let result = parse_metadata(&mut reader)?;
        Ok(PreparedView {
            id,
            result_metadata_id,
            partition_key,
            markers,
            result_columns: result.columns,
            marker_metadata: &body[markers_at..result_at],
            result_metadata: result.behind_state,
            result_at,
            result_flags: result.flags,
        })
    }
}
