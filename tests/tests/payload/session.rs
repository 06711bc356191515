//! Requests with values that may be null or not set.

use std::net::{SocketAddr, TcpStream};

use anyhow::{Result, bail};
use helenus_tests::raw::{Client, Fault, Prepared, Spec, op};

/// The error of a node that does not know a prepared statement.
const UNPREPARED: i32 = 0x2500;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    Int(i32),
    Text(String),
    Null,
    Unset,
}

impl Value {
    fn write(&self, out: &mut Vec<u8>) {
        match self {
            Value::Int(n) => bytes(out, &n.to_be_bytes()),
            Value::Text(text) => bytes(out, text.as_bytes()),
            Value::Null => out.extend((-1_i32).to_be_bytes()),
            Value::Unset => out.extend((-2_i32).to_be_bytes()),
        }
    }
}

/// How a statement is sent.
#[derive(Clone, Debug, Default)]
pub(crate) struct Request {
    pub prepared: bool,
    pub values: Vec<Value>,
    /// The values are of the markers `:m0`, `:m1` and so on, and come in reverse.
    pub named: bool,
    pub skip_metadata: bool,
    pub page_size: Option<i32>,
    pub timestamp: Option<i64>,
}

/// All rows of a result.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Answer {
    pub columns: Vec<Spec>,
    pub rows: Vec<Vec<Option<Vec<u8>>>>,
}

/// A statement of a batch.
#[derive(Clone, Debug)]
pub(crate) struct Child {
    pub text: String,
    pub prepared: bool,
    pub values: Vec<Value>,
}

pub(crate) struct Session {
    pub client: Client<TcpStream>,
}

impl Session {
    pub(crate) fn open(address: SocketAddr, version: u8) -> Result<Session> {
        let client = Client::ready(address, version)?;
        Ok(Session { client })
    }

    pub(crate) fn ask(
        &mut self,
        text: &str,
        request: &Request,
    ) -> Result<std::result::Result<Answer, Fault>> {
        // A statement may be forgotten between PREPARE and EXECUTE.
        for _ in 0..10 {
            let prepared = match request.prepared {
                true => match self.client.try_prepare(text)? {
                    Ok(prepared) => Some(prepared),
                    Err(fault) => return Ok(Err(fault)),
                },
                false => None,
            };
            match self.pages(text, prepared.as_ref(), request)? {
                Err(fault) if fault.code == UNPREPARED => {}
                answer => return Ok(answer),
            }
        }
        bail!("{text} does not stay prepared")
    }

    fn pages(
        &mut self,
        text: &str,
        prepared: Option<&Prepared>,
        request: &Request,
    ) -> Result<std::result::Result<Answer, Fault>> {
        let mut all = Answer::default();
        let mut state = None;
        for _ in 0..10_000 {
            let mut body = Vec::new();
            let opcode = match prepared {
                None => {
                    bytes(&mut body, text.as_bytes());
                    op::QUERY
                }
                Some(prepared) => {
                    short_bytes(&mut body, &prepared.id);
                    if let Some(id) = &prepared.result_id {
                        short_bytes(&mut body, id);
                    }
                    op::EXECUTE
                }
            };
            self.put_options(&mut body, request, state.as_deref());
            let answer = match self.client.call(opcode, &body)?.judged()? {
                Ok(answer) => answer,
                Err(fault) => return Ok(Err(fault)),
            };
            if !answer.has_rows()? {
                return Ok(Ok(all));
            }
            if answer.columns()?.1 {
                all.columns = answer.specs()?;
            }
            all.rows.extend(answer.rows()?);
            state = answer.paging_state()?;
            if state.is_none() {
                return Ok(Ok(all));
            }
        }
        bail!("the pages do not end")
    }

    /// `kind`: 0 is logged, 1 unlogged.
    pub(crate) fn batch(
        &mut self,
        kind: u8,
        children: &[Child],
        timestamp: i64,
    ) -> Result<std::result::Result<Answer, Fault>> {
        let mut body = vec![kind];
        body.extend((children.len() as u16).to_be_bytes());
        for child in children {
            match child.prepared {
                true => {
                    let prepared = match self.client.try_prepare(&child.text)? {
                        Ok(prepared) => prepared,
                        Err(fault) => return Ok(Err(fault)),
                    };
                    body.push(1);
                    short_bytes(&mut body, &prepared.id);
                }
                false => {
                    body.push(0);
                    bytes(&mut body, child.text.as_bytes());
                }
            }
            body.extend((child.values.len() as u16).to_be_bytes());
            child.values.iter().for_each(|value| value.write(&mut body));
        }
        let request = Request {
            timestamp: Some(timestamp),
            ..Request::default()
        };
        self.put_options(&mut body, &request, None);
        let answer = self.client.call(op::BATCH, &body)?.judged()?;
        Ok(answer.map(|_| Answer::default()))
    }

    /// Everything behind what is asked, at ONE.
    fn put_options(&self, out: &mut Vec<u8>, request: &Request, state: Option<&[u8]>) {
        let has_values = !request.values.is_empty();
        let named = has_values && request.named;
        let flags = u32::from(has_values)
            | u32::from(request.skip_metadata) << 1
            | u32::from(request.page_size.is_some()) << 2
            | u32::from(state.is_some()) << 3
            | u32::from(request.timestamp.is_some()) << 5
            | u32::from(named) << 6;
        out.extend(1_u16.to_be_bytes());
        match self.client.version {
            5.. => out.extend(flags.to_be_bytes()),
            _ => out.push(flags as u8),
        }
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
                value.write(out);
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
}

fn short_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend((bytes.len() as u16).to_be_bytes());
    out.extend(bytes);
}

fn bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend((bytes.len() as u32).to_be_bytes());
    out.extend(bytes);
}
