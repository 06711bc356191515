//! Answers of a server.

use std::io::{Error, ErrorKind, Result};

use helenus_wire::{
    ErrorBody, Header, Malformed, Opcode, PreparedIds, PreparedView, ResultKind, RowsView, Version,
    result_kind, strip_prelude,
};

/// One envelope as it came; uncompressed, if the client knew of the compression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    pub version: u8,
    pub flags: u8,
    pub stream: i16,
    pub opcode: u8,
    pub body: Vec<u8>,
}

/// The cells of a row: bytes, or null.
pub type Row = Vec<Option<Vec<u8>>>;

/// A column of a result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// Keyspace and table.
    pub table: [String; 2],
    pub name: String,
    /// Its type as it came.
    pub of: Vec<u8>,
}

/// The content of an ERROR.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    pub code: i32,
    pub message: String,
}

/// What was asked for, or an ERROR in its place. The outer error: neither came.
pub type Judged<T> = Result<std::result::Result<T, Fault>>;

/// A prepared statement's names.
#[derive(Clone, Debug)]
pub struct Prepared {
    pub id: Vec<u8>,
    /// From version 5 on.
    pub result_id: Option<Vec<u8>>,
    /// Columns of its result.
    pub columns: usize,
}

impl Prepared {
    pub fn ids(&self) -> PreparedIds<'_> {
        PreparedIds {
            statement: &self.id,
            result_metadata: self.result_id.as_deref(),
        }
    }
}

impl Answer {
    pub(crate) fn of(header: Header, body: &[u8]) -> Self {
        Self {
            version: header.version,
            flags: header.flags,
            stream: header.stream,
            opcode: header.opcode,
            body: body.to_vec(),
        }
    }

    /// True if it is READY or AUTHENTICATE: what STARTUP asks for is in force behind the first of these.
    pub fn accepts_startup(&self) -> bool {
        [Opcode::Ready, Opcode::Authenticate]
            .iter()
            .any(|opcode| *opcode as u8 == self.opcode)
    }

    /// True if it is READY or AUTH_SUCCESS: the server takes requests behind the first of these.
    pub(crate) fn ends_handshake(&self) -> bool {
        [Opcode::Ready, Opcode::AuthSuccess]
            .iter()
            .any(|opcode| *opcode as u8 == self.opcode)
    }

    /// The body behind a tracing id, warnings and a payload.
    pub fn message(&self) -> Result<&[u8]> {
        let (_, message) = strip_prelude(self.flags, &self.body).map_err(malformed)?;
        Ok(message)
    }

    pub fn fault(&self) -> Result<Fault> {
        let body = ErrorBody::parse(self.message()?).map_err(malformed)?;
        Ok(Fault {
            code: body.code,
            message: body.message.to_owned(),
        })
    }

    /// The code of the error that it is.
    pub fn code(&self) -> Option<i32> {
        let is_error = self.opcode == Opcode::Error as u8;
        let fault = is_error.then(|| self.fault().ok())?;
        Some(fault?.code)
    }

    /// The error's text.
    pub fn error_text(&self) -> String {
        match self.fault() {
            Ok(fault) => fault.message,
            Err(_) => format!("unexpected answer, opcode {:#04x}", self.opcode),
        }
    }

    /// RESULT or ERROR.
    pub fn judged(self) -> Judged<Self> {
        match Opcode::from_number(self.opcode) {
            Some(Opcode::Result) => Ok(Ok(self)),
            Some(Opcode::Error) => Ok(Err(self.fault()?)),
            _ => Err(invalid(format!("opcode {} instead of RESULT", self.opcode))),
        }
    }

    /// A RESULT's rows; none of other kinds.
    pub fn view(&self) -> Result<Option<RowsView<'_>>> {
        let message = self.message()?;
        match result_kind(message).map_err(malformed)? {
            ResultKind::Rows => RowsView::parse(message).map(Some).map_err(malformed),
            _ => Ok(None),
        }
    }

    fn rows_view(&self) -> Result<RowsView<'_>> {
        self.view()?
            .ok_or_else(|| invalid("a RESULT without rows".into()))
    }

    /// True if it is a RESULT with rows, maybe none.
    pub fn has_rows(&self) -> Result<bool> {
        Ok(self.view()?.is_some())
    }

    /// How many columns its rows have, and whether it says which.
    pub fn columns(&self) -> Result<(usize, bool)> {
        let view = self.rows_view()?;
        Ok((view.column_count, !view.columns.is_empty()))
    }

    /// Table, name and type of each column of its rows, which it has to say.
    pub fn specs(&self) -> Result<Vec<Column>> {
        let view = self.rows_view()?;
        if view.columns.is_empty() {
            return Err(invalid(
                "rows without the metadata that was asked for".into(),
            ));
        }
        let column = |of: &helenus_wire::ColumnSpec<'_>| Column {
            table: [of.keyspace, of.table].map(str::to_owned),
            name: of.name.to_owned(),
            of: of.column_type.raw.to_vec(),
        };
        Ok(view.columns.iter().map(column).collect())
    }

    /// Where the next page begins, if there is one.
    pub fn paging_state(&self) -> Result<Option<Vec<u8>>> {
        let view = self.view()?;
        Ok(view.and_then(|view| view.paging_state.map(<[u8]>::to_vec)))
    }

    /// Its rows; none for other kinds of results.
    pub fn rows(&self) -> Result<Vec<Row>> {
        let Some(view) = self.view()? else {
            return Ok(Vec::new());
        };
        let owned =
            |row: Vec<Option<&[u8]>>| row.iter().map(|cell| cell.map(<[u8]>::to_vec)).collect();
        let rows = view.rows().map(|row| row.map(owned).map_err(malformed));
        rows.collect()
    }

    /// The answer to PREPARE.
    pub fn prepared(&self) -> Result<Prepared> {
        let version = Version::from_number(self.version)
            .ok_or_else(|| invalid(format!("version {}", self.version)))?;
        let view = PreparedView::parse(self.message()?, version).map_err(malformed)?;
        Ok(Prepared {
            id: view.id.to_vec(),
            result_id: view.result_metadata_id.map(<[u8]>::to_vec),
            columns: view.result_columns.len(),
        })
    }
}

impl From<Fault> for Error {
    fn from(fault: Fault) -> Self {
        Error::other(format!("error 0x{:04X}: {}", fault.code, fault.message))
    }
}

fn malformed(error: Malformed) -> Error {
    Error::new(ErrorKind::InvalidData, error)
}

pub(crate) fn invalid(text: String) -> Error {
    Error::new(ErrorKind::InvalidData, text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use helenus_wire::{flags, write};

    fn answer(opcode: Opcode, flags: u8, body: Vec<u8>) -> Answer {
        Answer {
            version: 5,
            flags,
            stream: 1,
            opcode: opcode as u8,
            body,
        }
    }

    /// Behind a warning: a map<int, set<varchar>> and an int, one row of them, and another page.
    fn rows() -> Vec<u8> {
        let mut body = Vec::new();
        write::string_list(&mut body, &["slow"]);
        for number in [2, 1 | 2, 2] {
            write::i32(&mut body, number);
        }
        write::bytes(&mut body, Some(b"state"));
        for name in ["ks", "t", "a"] {
            write::string(&mut body, name);
        }
        body.extend([0, 0x21, 0, 9, 0, 0x22, 0, 0x0D]);
        write::string(&mut body, "b");
        body.extend([0, 9]);
        write::i32(&mut body, 1);
        write::bytes(&mut body, Some(&[7, 8]));
        write::bytes(&mut body, None);
        body
    }

    #[test]
    fn rows_are_read_with_their_columns_and_the_next_page() {
        let of = answer(Opcode::Result, flags::WARNING, rows());
        assert_eq!(of.rows().unwrap(), [[Some(vec![7, 8]), None]]);
        assert_eq!(of.columns().unwrap(), (2, true));
        assert_eq!(of.paging_state().unwrap().as_deref(), Some(&b"state"[..]));
        let columns = of.specs().unwrap();
        assert_eq!(columns[0].of, [0, 0x21, 0, 9, 0, 0x22, 0, 0x0D]);
        assert_eq!((&*columns[1].name, &*columns[1].table[1]), ("b", "t"));
        let done = answer(Opcode::Result, 0, vec![0, 0, 0, 1]);
        assert!(done.rows().unwrap().is_empty() && !done.has_rows().unwrap());
        assert!(done.columns().is_err());
    }

    #[test]
    fn every_truncation_is_noticed() {
        let body = rows();
        for length in 0..body.len() {
            let of = answer(Opcode::Result, flags::WARNING, body[..length].to_vec());
            assert!(of.rows().is_err(), "at {length}");
        }
    }

    #[test]
    fn errors_have_a_code_and_a_text() {
        let mut body = Vec::new();
        write::i32(&mut body, 0x2200);
        write::string(&mut body, "no such table");
        let of = answer(Opcode::Error, 0, body.clone());
        assert_eq!(
            (of.code(), &*of.error_text()),
            (Some(0x2200), "no such table")
        );
        assert_eq!(of.judged().unwrap().unwrap_err().code, 0x2200);
        assert_eq!(answer(Opcode::Result, 0, body).code(), None);
        let odd = answer(Opcode::Supported, 0, Vec::new());
        assert_eq!(odd.error_text(), "unexpected answer, opcode 0x06");
        assert!(odd.judged().is_err());
    }
}
