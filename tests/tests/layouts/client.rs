//! Requests with values, pages and a timestamp of their own.

use std::net::{SocketAddr, TcpStream};

use anyhow::{Result, bail, ensure};
use helenus_client::Options;
pub(crate) use helenus_client::Statement as Asked;
use helenus_tests::raw::{Client, Column, Fault, Row, names_in_reverse};
use helenus_wire::ValueRef;

/// The error of a node that does not know a prepared statement.
const UNPREPARED: i32 = 0x2500;

pub(crate) type Rows = Vec<Row>;

#[derive(Clone, Debug, Default)]
pub(crate) struct Request<'a> {
    pub values: &'a [Vec<u8>],
    /// The values are of the markers `:m0`, `:m1` and so on, and come in reverse.
    pub named: bool,
    /// Without the columns of the result.
    pub skip_metadata: bool,
    pub page_size: Option<i32>,
    pub consistency: u16,
    /// In microseconds; the node's own if not given.
    pub timestamp: Option<i64>,
}

impl Request<'_> {
    /// Without the values.
    pub(crate) fn options(&self) -> Options<'static> {
        Options {
            skip_metadata: self.skip_metadata,
            page_size: self.page_size,
            timestamp: self.timestamp,
            ..Options::at(self.consistency)
        }
    }
}

/// All rows of a SELECT.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Answer {
    pub columns: Vec<Column>,
    pub rows: Rows,
}

pub(crate) struct Session {
    pub client: Client<TcpStream>,
}

impl Session {
    pub(crate) fn open(address: SocketAddr, version: u8) -> Result<Session> {
        Ok(Session {
            client: Client::ready(address, version)?,
        })
    }

    /// A statement whose result does not matter.
    pub(crate) fn run(&mut self, text: &str) -> Result<()> {
        self.client.query(text)?;
        Ok(())
    }

    /// Runs a text, or prepares and executes it.
    pub(crate) fn carry_out(
        &mut self,
        text: &str,
        prepared: bool,
        request: &Request<'_>,
    ) -> Result<std::result::Result<Answer, Fault>> {
        if !prepared {
            return self.ask(Asked::Text(text), request);
        }
        // A node whose cache is full may forget at once what it has prepared.
        for _ in 0..10 {
            let answer = match self.client.try_prepare(text)? {
                Ok(prepared) => self.ask(Asked::Prepared(prepared.ids()), request)?,
                Err(fault) => return Ok(Err(fault)),
            };
            match answer {
                Err(fault) if fault.code == UNPREPARED => {}
                answer => return Ok(answer),
            }
        }
        bail!("the node does not keep {text} prepared")
    }

    /// All pages of a SELECT, or nothing of a write.
    pub(crate) fn ask(
        &mut self,
        asked: Asked<'_>,
        request: &Request<'_>,
    ) -> Result<std::result::Result<Answer, Fault>> {
        let mut values: Vec<_> = request.values.iter().map(|v| ValueRef::Set(v)).collect();
        let names = match request.named {
            true => names_in_reverse(&mut values),
            false => Vec::new(),
        };
        let has_values = !values.is_empty();
        let mut all = Answer::default();
        let mut state: Option<Vec<u8>> = None;
        for _ in 0..10_000 {
            let options = Options {
                values: has_values.then_some(&values[..]),
                names: &names,
                paging_state: state.as_deref(),
                ..request.options()
            };
            let answer = match self.client.ask(asked, &options)? {
                Ok(answer) => answer,
                Err(fault) => return Ok(Err(fault)),
            };
            if !answer.has_rows()? {
                return Ok(Ok(all));
            }
            let columns = match request.skip_metadata && !answer.columns()?.1 {
                true => Vec::new(),
                false => answer.specs()?,
            };
            let first = all.columns.is_empty();
            ensure!(
                first || columns == all.columns,
                "columns changed between pages"
            );
            all.columns = columns;
            let rows = answer.rows()?;
            if let Some(size) = request.page_size {
                ensure!(rows.len() <= size as usize, "a page of {} rows", rows.len());
            }
            all.rows.extend(rows);
            state = answer.paging_state()?;
            if state.is_none() {
                return Ok(Ok(all));
            }
        }
        bail!("the pages do not end")
    }
}
