//! Requests with values, pages and a timestamp of their own.

use std::net::{SocketAddr, TcpStream};

use anyhow::{Result, bail, ensure};
use helenus_tests::raw::{Client, Fault, Prepared, Spec, op};

/// The error of a node that does not know a prepared statement.
const UNPREPARED: i32 = 0x2500;

pub(crate) type Rows = Vec<Vec<Option<Vec<u8>>>>;

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

/// All rows of a SELECT.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Answer {
    pub columns: Vec<Spec>,
    pub rows: Rows,
}

/// The statement of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Asked<'a> {
    Text(&'a str),
    Prepared(&'a Prepared),
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
                Ok(prepared) => self.ask(Asked::Prepared(&prepared), request)?,
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
        let mut all = Answer::default();
        let mut state = None;
        for _ in 0..10_000 {
            let body = self.body(asked, request, state.as_deref());
            let opcode = match asked {
                Asked::Text(_) => op::QUERY,
                Asked::Prepared(_) => op::EXECUTE,
            };
            let answer = match self.client.call(opcode, &body)?.judged()? {
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

    fn body(&self, asked: Asked<'_>, request: &Request<'_>, state: Option<&[u8]>) -> Vec<u8> {
        let mut out = Vec::new();
        match asked {
            Asked::Text(text) => bytes(&mut out, text.as_bytes()),
            Asked::Prepared(prepared) => {
                short_bytes(&mut out, &prepared.id);
                if let Some(id) = &prepared.result_id {
                    short_bytes(&mut out, id);
                }
            }
        }
        self.put_options(&mut out, request, state);
        out
    }

    /// Everything behind what is asked.
    pub(crate) fn put_options(
        &self,
        out: &mut Vec<u8>,
        request: &Request<'_>,
        state: Option<&[u8]>,
    ) {
        let has_values = !request.values.is_empty();
        let named = has_values && request.named;
        let flags = u32::from(has_values)
            | u32::from(request.skip_metadata) << 1
            | u32::from(request.page_size.is_some()) << 2
            | u32::from(state.is_some()) << 3
            | u32::from(request.timestamp.is_some()) << 5
            | u32::from(named) << 6;
        self.consistency_and_flags(out, request.consistency, flags);
        if has_values {
            out.extend((request.values.len() as u16).to_be_bytes());
            let mut values: Vec<_> = request.values.iter().enumerate().collect();
            if named {
                values.reverse();
            }
            for (at, value) in values {
                if named {
                    short_bytes(out, format!("m{at}").as_bytes());
                }
                bytes(out, value);
            }
        }
        if let Some(size) = request.page_size {
            out.extend(size.to_be_bytes());
        }
        if let Some(state) = state {
            bytes(out, state);
        }
        if let Some(timestamp) = request.timestamp {
            out.extend(timestamp.to_be_bytes());
        }
    }

    fn consistency_and_flags(&self, out: &mut Vec<u8>, consistency: u16, flags: u32) {
        out.extend(consistency.to_be_bytes());
        match self.client.version {
            5.. => out.extend(flags.to_be_bytes()),
            _ => out.push(flags as u8),
        }
    }
}

pub(crate) fn short_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend((bytes.len() as u16).to_be_bytes());
    out.extend(bytes);
}

pub(crate) fn bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend((bytes.len() as u32).to_be_bytes());
    out.extend(bytes);
}
