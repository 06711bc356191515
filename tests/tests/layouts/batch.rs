//! BATCH requests.

use anyhow::Result;
use helenus_tests::raw::{Fault, Prepared, op};

use crate::client::{Answer, Request, Session, bytes, short_bytes};

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
    let mut body = vec![kind];
    body.extend((children.len() as u16).to_be_bytes());
    for child in children {
        let values = match child {
            Child::Text(text, values) => {
                body.push(0);
                bytes(&mut body, text.as_bytes());
                values
            }
            Child::Prepared(prepared, values) => {
                body.push(1);
                short_bytes(&mut body, &prepared.id);
                values
            }
        };
        body.extend((values.len() as u16).to_be_bytes());
        values.iter().for_each(|value| bytes(&mut body, value));
    }
    session.put_options(&mut body, request, None);
    let answer = session.client.call(op::BATCH, &body)?.judged()?;
    Ok(answer.map(|_| Answer::default()))
}
