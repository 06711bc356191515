//! BATCH requests.

use anyhow::Result;
use helenus_client::BatchChild;
use helenus_tests::raw::{Fault, Prepared};
use helenus_wire::ValueRef;

use crate::client::{Answer, Asked, Request, Session};

pub(crate) enum Child<'a> {
    Text(String, Vec<Vec<u8>>),
    Prepared(&'a Prepared, Vec<Vec<u8>>),
}

/// `kind`: 0 is logged, 1 unlogged.
pub(crate) fn ask(
    session: &mut Session,
    kind: u8,
    children: &[Child<'_>],
    request: &Request<'_>,
) -> Result<std::result::Result<Answer, Fault>> {
    let values = children.iter().map(|child| {
        let (Child::Text(_, values) | Child::Prepared(_, values)) = child;
        values.iter().map(|v| ValueRef::Set(v)).collect()
    });
    let values: Vec<Vec<ValueRef<'_>>> = values.collect();
    let children = children.iter().zip(&values).map(|(child, values)| {
        let statement = match child {
            Child::Text(text, _) => Asked::Text(text),
            Child::Prepared(prepared, _) => Asked::Prepared(prepared.ids()),
        };
        BatchChild { statement, values }
    });
    let children: Vec<_> = children.collect();
    let answer = session.client.batch(kind, &children, &request.options())?;
    Ok(answer.map(|_| Answer::default()))
}
