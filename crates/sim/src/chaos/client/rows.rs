//! What a client is answered, and which columns it takes rows to have.

use helenus_wire::{
    ColumnSpec, ErrorBody, Header, Opcode, PreparedView, ResultKind, RowsView, Version,
    result_kind, strip_prelude,
};

use super::{Answer, Client, InFlight, Known, Purpose};
use crate::chaos::cql;

impl Client {
    /// Reads an answer to a request.
    pub(in crate::chaos) fn read(
        &mut self,
        request: &InFlight,
        header: &Header,
        body: &[u8],
    ) -> Result<Answer, String> {
        let purpose = &request.purpose;
        let malformed = |e: helenus_wire::Malformed| e.to_string();
        let (_, content) = strip_prelude(header.flags, body).map_err(malformed)?;
        Ok(match Opcode::from_number(header.opcode) {
            Some(Opcode::Ready | Opcode::AuthSuccess) => Answer::Ready,
            Some(Opcode::Authenticate) => Answer::Authenticate,
            Some(Opcode::Error) => {
                let error = ErrorBody::parse(content).map_err(malformed)?;
                Answer::Error(error.code, error.message.to_owned())
            }
            Some(Opcode::Result) => match (result_kind(content).map_err(malformed)?, purpose) {
                (ResultKind::Prepared, Purpose::Prepare(text)) => {
                    let view = PreparedView::parse(content, self.version).map_err(malformed)?;
                    if view.id != text.as_bytes() {
                        return Err(format!("PREPARE of {text} has the id of another"));
                    }
                    let table = cql::table(text);
                    let mut columns = view.markers.iter().chain(&view.result_columns);
                    if let Some(of) = columns.find(|column| column.table != table) {
                        return Err(format!("a column of table {} for {text}", of.table));
                    }
                    let known = Known {
                        metadata_id: view.result_metadata_id.unwrap_or_default().to_vec(),
                        columns: names_of(&view.result_columns),
                    };
                    self.prepared.insert(text, known);
                    Answer::Prepared
                }
                (ResultKind::SchemaChange, Purpose::Alter) => Answer::Void,
                (ResultKind::SetKeyspace, Purpose::Use) => {
                    self.in_keyspace = true;
                    Answer::Void
                }
                (ResultKind::Void, _) => Answer::Void,
                (ResultKind::Rows, _) => {
                    let view = RowsView::parse(content).map_err(malformed)?;
                    let columns = self.columns_of(request, &view)?;
                    let rows = view.rows().map(|row| {
                        let cell = |cell: Option<&[u8]>| cell.map(<[u8]>::to_vec);
                        let cells = row.map_err(malformed)?.into_iter().map(cell);
                        let cells = cells.collect::<Option<Vec<_>>>().ok_or("a null")?;
                        without_added(request, &columns, cells)
                    });
                    let state = view.paging_state.map(<[u8]>::to_vec);
                    Answer::Rows(rows.collect::<Result<_, _>>()?, state)
                }
                (kind, _) => return Err(format!("an answer of kind {kind:?}")),
            },
            other => return Err(format!("an answer with {other:?}")),
        })
    }

    /// The columns that a client takes rows to have: those that come with them, or else those that it
    /// knows the statement by.
    fn columns_of(
        &mut self,
        request: &InFlight,
        view: &RowsView<'_>,
    ) -> Result<Vec<String>, String> {
        let names = names_of(&view.columns);
        let Some(text) = request.text else {
            return Ok(names);
        };
        let table = cql::table(text);
        if let Some(of) = view.columns.iter().find(|column| column.table != table) {
            return Err(format!("a column of table {} for {text}", of.table));
        }
        if let Some(known) = &request.skipped {
            let new_id = view.new_metadata_id;
            if names.is_empty() {
                return match known.len() == view.column_count {
                    true => Ok(known.clone()),
                    false => Err(format!(
                        "{WRONG_COLUMNS}{} cells a row for {known:?}",
                        view.column_count
                    )),
                };
            }
            // Columns that were not asked for come where they are others than before.
            // A page of all columns of a layout that goes on by its text names them, too.
            let goes_on_by_text = cql::is_about_rows(text) && text.starts_with("SELECT *");
            let may = goes_on_by_text
                || cql::is_of_all(text) && (self.version < Version::V5 || new_id.is_some());
            if !may && !is_conditional(request) {
                return Err(format!("columns {names:?} that were not asked for"));
            }
        }
        if let Some(id) = view.new_metadata_id {
            let known = Known {
                metadata_id: id.to_vec(),
                columns: names.clone(),
            };
            self.prepared.insert(text, known);
        }
        let of_schema = |schema: usize| {
            let columns = cql::columns(text, schema);
            columns.iter().map(|(name, _)| *name).eq(names.iter())
        };
        // Those of a conditional write depend on its outcome.
        match is_conditional(request) || (request.schema..=cql::SCHEMA_MAX).any(of_schema) {
            true => Ok(names),
            false => Err(format!(
                "columns {names:?} under schema {} or later",
                request.schema
            )),
        }
    }
}

/// Whether the columns of its answer depend on what came of it.
fn is_conditional(request: &InFlight) -> bool {
    match &request.purpose {
        Purpose::Cas(..) => true,
        Purpose::RowWrite(write) => write.condition.is_some(),
        _ => false,
    }
}

/// How the error begins where a client takes cells for those of another column.
pub(in crate::chaos) const WRONG_COLUMNS: &str = "wrong columns: ";

fn names_of(columns: &[ColumnSpec<'_>]) -> Vec<String> {
    columns
        .iter()
        .map(|column| column.name.to_owned())
        .collect()
}

/// The cells of a row of all columns that it has had from the beginning, if the others are right.
fn without_added(
    request: &InFlight,
    columns: &[String],
    cells: Vec<Vec<u8>>,
) -> Result<Vec<Vec<u8>>, String> {
    if !request.text.is_some_and(cql::is_of_all) {
        return Ok(cells);
    }
    let int = |cell: &[u8]| i64::from_be_bytes(cell.try_into().unwrap_or([0xEE; 8]));
    let key = cells.first().map_or(-1, |cell| int(cell));
    let mut kept = Vec::new();
    for (name, cell) in columns.iter().zip(cells) {
        match cql::added_value(key, name) {
            Some(value) if value == int(&cell) => {}
            Some(_) => return Err(format!("{WRONG_COLUMNS}{name} is {}", int(&cell))),
            // Nobody writes what is negative.
            None if int(&cell) < 0 => {
                return Err(format!("{WRONG_COLUMNS}{name} is {}", int(&cell)));
            }
            None if name == "k" && matches!(request.purpose, Purpose::Read(_)) => {}
            None => kept.push(cell),
        }
    }
    Ok(kept)
}
