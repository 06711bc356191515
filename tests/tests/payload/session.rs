//! Requests with values that may be null or not set.

use std::net::{SocketAddr, TcpStream};

use anyhow::{Result, bail};
use helenus_client::{BatchChild, Options, Statement};
use helenus_tests::raw::{Client, Column, Fault, ONE, names_in_reverse};
use helenus_wire::ValueRef;

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
    /// The bytes of one that is set.
    fn bytes(&self) -> Vec<u8> {
        match self {
            Value::Int(n) => n.to_be_bytes().to_vec(),
            Value::Text(text) => text.clone().into_bytes(),
            Value::Null | Value::Unset => Vec::new(),
        }
    }
}

/// Values, of which these are the bytes.
fn refs<'a>(values: &[Value], bytes: &'a [Vec<u8>]) -> Vec<ValueRef<'a>> {
    let values = values.iter().zip(bytes).map(|(value, bytes)| match value {
        Value::Int(_) | Value::Text(_) => ValueRef::Set(bytes),
        Value::Null => ValueRef::Null,
        Value::Unset => ValueRef::Unset,
    });
    values.collect()
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
    pub columns: Vec<Column>,
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
            let answer = match request.prepared {
                true => match self.client.try_prepare(text)? {
                    Ok(prepared) => self.pages(Statement::Prepared(prepared.ids()), request)?,
                    Err(fault) => return Ok(Err(fault)),
                },
                false => self.pages(Statement::Text(text), request)?,
            };
            match answer {
                Err(fault) if fault.code == UNPREPARED => {}
                answer => return Ok(answer),
            }
        }
        bail!("{text} does not stay prepared")
    }

    fn pages(
        &mut self,
        statement: Statement<'_>,
        request: &Request,
    ) -> Result<std::result::Result<Answer, Fault>> {
        let bytes: Vec<_> = request.values.iter().map(Value::bytes).collect();
        let mut values = refs(&request.values, &bytes);
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
                skip_metadata: request.skip_metadata,
                page_size: request.page_size,
                paging_state: state.as_deref(),
                timestamp: request.timestamp,
                ..Options::at(ONE)
            };
            let answer = match self.client.ask(statement, &options)? {
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
        let mut known = Vec::new();
        for child in children {
            known.push(match child.prepared {
                true => match self.client.try_prepare(&child.text)? {
                    Ok(prepared) => Some(prepared),
                    Err(fault) => return Ok(Err(fault)),
                },
                false => None,
            });
        }
        let bytes = |child: &Child| child.values.iter().map(Value::bytes).collect();
        let bytes: Vec<Vec<Vec<u8>>> = children.iter().map(bytes).collect();
        let values = children.iter().zip(&bytes);
        let values: Vec<_> = values
            .map(|(child, bytes)| refs(&child.values, bytes))
            .collect();
        let children = children.iter().zip(&known).zip(&values);
        let children = children.map(|((child, known), values)| BatchChild {
            statement: match known {
                Some(prepared) => Statement::Prepared(prepared.ids()),
                None => Statement::Text(&child.text),
            },
            values,
        });
        let children: Vec<_> = children.collect();
        let options = Options {
            timestamp: Some(timestamp),
            ..Options::at(ONE)
        };
        let answer = self.client.batch(kind, &children, &options)?;
        Ok(answer.map(|_| Answer::default()))
    }
}
