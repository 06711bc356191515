//! Answers of a node or a proxy.

use std::io::{Error, Result};

use super::{check, invalid, op};

/// One envelope as it came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    pub version: u8,
    pub flags: u8,
    pub stream: i16,
    pub opcode: u8,
    pub body: Vec<u8>,
}

/// A column of a result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spec {
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

impl Answer {
    /// The body behind warnings, the only prelude that tests here can cause.
    pub(super) fn content(&self) -> Result<Cursor<'_>> {
        let mut at = Cursor(&self.body);
        if self.flags & 0x08 != 0 {
            for _ in 0..at.short()? {
                at.short_bytes()?;
            }
        }
        check(self.flags & !0x08 == 0, "flags of an answer")?;
        Ok(at)
    }

    pub fn fault(&self) -> Result<Fault> {
        let mut at = self.content()?;
        let code = at.int()?;
        let message = String::from_utf8_lossy(at.short_bytes()?).into_owned();
        Ok(Fault { code, message })
    }

    pub fn judged(self) -> Result<std::result::Result<Self, Fault>> {
        match self.opcode {
            op::RESULT => Ok(Ok(self)),
            op::ERROR => Ok(Err(self.fault()?)),
            other => Err(invalid(format!("opcode {other} instead of RESULT"))),
        }
    }

    /// How many columns its rows have, and whether it says which.
    pub fn columns(&self) -> Result<(i32, bool)> {
        let mut at = self.content()?;
        check(at.int()? == 2, "the kind of a RESULT")?;
        let flags = at.int()?;
        Ok((at.int()?, flags & 4 == 0))
    }

    /// True if it is a RESULT with rows, maybe none.
    pub fn has_rows(&self) -> Result<bool> {
        Ok(self.content()?.int()? == 2)
    }

    /// Where the next page begins, if there is one.
    pub fn paging_state(&self) -> Result<Option<Vec<u8>>> {
        let mut at = self.content()?;
        if at.int()? != 2 {
            return Ok(None);
        }
        let (flags, _) = (at.int()?, at.int()?);
        match flags & 2 {
            0 => Ok(None),
            _ => Ok(at.bytes()?.map(<[u8]>::to_vec)),
        }
    }

    /// Table, name and type of each column of its rows.
    pub fn specs(&self) -> Result<Vec<Spec>> {
        let mut at = self.content()?;
        check(at.int()? == 2, "the kind of a RESULT")?;
        let (flags, columns) = (at.int()?, at.int()?);
        check(flags & 4 == 0, "metadata that was asked for")?;
        if flags & 2 != 0 {
            at.bytes()?;
        }
        if flags & 8 != 0 {
            at.short_bytes()?;
        }
        let table = |at: &mut Cursor<'_>| Ok::<_, Error>([at.string()?, at.string()?]);
        let common = match flags & 1 {
            0 => None,
            _ => Some(table(&mut at)?),
        };
        let spec = |_| {
            let table = match &common {
                Some(common) => common.clone(),
                None => table(&mut at)?,
            };
            let name = at.string()?;
            let before = at.0;
            at.skip_type()?;
            let of = before[..before.len() - at.0.len()].to_vec();
            Ok(Spec { table, name, of })
        };
        (0..columns).map(spec).collect()
    }

    /// Rows of simple types and of lists, sets and maps of them; none for other kinds of results.
    pub fn rows(&self) -> Result<Vec<Vec<Option<Vec<u8>>>>> {
        let mut at = self.content()?;
        if at.int()? != 2 {
            return Ok(Vec::new());
        }
        let (flags, columns) = (at.int()?, at.int()?);
        if flags & 2 != 0 {
            at.bytes()?;
        }
        if flags & 8 != 0 {
            at.short_bytes()?;
        }
        if flags & 4 == 0 {
            at.skip_columns(flags, columns)?;
        }
        let cells = |at: &mut Cursor<'_>| {
            let cell = |_| at.bytes().map(|b| b.map(<[u8]>::to_vec));
            (0..columns).map(cell).collect::<Result<Vec<_>>>()
        };
        (0..at.int()?).map(|_| cells(&mut at)).collect()
    }
}

impl From<Fault> for Error {
    fn from(fault: Fault) -> Self {
        Error::other(format!("error 0x{:04X}: {}", fault.code, fault.message))
    }
}

/// The elements of a cell that is a list or set.
pub fn elements(cell: &[u8]) -> Result<Vec<Vec<u8>>> {
    let mut at = Cursor(cell);
    let count = at.int()?;
    (0..count)
        .map(|_| Ok(at.bytes()?.unwrap_or_default().to_vec()))
        .collect()
}

/// The rest of a body.
pub(super) struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    pub(super) fn skip_type(&mut self) -> Result<()> {
        match self.short()? {
            1..0x20 => Ok(()),
            // A list's or set's elements, a map's keys and values.
            0x20 | 0x22 => self.skip_type(),
            0x21 => self.skip_type().and_then(|()| self.skip_type()),
            _ => Err(invalid("the type of a column is not known here".into())),
        }
    }

    /// Skips specifications of columns behind their flags and number.
    pub(super) fn skip_columns(&mut self, flags: i32, columns: i32) -> Result<()> {
        if flags & 1 != 0 && columns > 0 {
            self.short_bytes()?;
            self.short_bytes()?;
        }
        for _ in 0..columns {
            if flags & 1 == 0 {
                self.short_bytes()?;
                self.short_bytes()?;
            }
            self.short_bytes()?;
            self.skip_type()?;
        }
        Ok(())
    }

    pub(super) fn take(&mut self, n: usize) -> Result<&'a [u8]> {
        let (head, tail) = self
            .0
            .split_at_checked(n)
            .ok_or_else(|| invalid("an answer ends too early".into()))?;
        self.0 = tail;
        Ok(head)
    }

    pub(super) fn short(&mut self) -> Result<u16> {
        let b = self.take(2)?;
        Ok(u16::from_be_bytes([b[0], b[1]]))
    }

    pub(super) fn int(&mut self) -> Result<i32> {
        let b = self.take(4)?;
        Ok(i32::from_be_bytes([b[0], b[1], b[2], b[3]]))
    }

    pub(super) fn short_bytes(&mut self) -> Result<&'a [u8]> {
        let n = self.short()?;
        self.take(n.into())
    }

    pub(super) fn string(&mut self) -> Result<String> {
        Ok(String::from_utf8_lossy(self.short_bytes()?).into_owned())
    }

    pub(super) fn bytes(&mut self) -> Result<Option<&'a [u8]>> {
        match usize::try_from(self.int()?) {
            Ok(n) => self.take(n).map(Some),
            Err(_) => Ok(None),
        }
    }
}
