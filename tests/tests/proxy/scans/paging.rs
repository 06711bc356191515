//! Requests page by page, and all their pages.

use std::net::TcpStream;

use helenus_client::{Options, Statement, ValueRef, request};
use helenus_tests::raw::{Client, Fault, ONE, Prepared, op};

/// A request, page by page.
pub(crate) enum Ask<'a> {
    Text(&'a str),
    /// The text, without metadata.
    Bare(&'a str),
    Prepared(&'a Prepared, &'a [Vec<u8>]),
}

impl Ask<'_> {
    pub(crate) fn opcode(&self) -> u8 {
        match self {
            Ask::Text(_) | Ask::Bare(_) => op::QUERY,
            Ask::Prepared(..) => op::EXECUTE,
        }
    }
}

/// A QUERY or an EXECUTE with a page size and a paging state.
pub(crate) fn paged(
    client: &Client<TcpStream>,
    ask: &Ask<'_>,
    size: Option<i32>,
    state: Option<&[u8]>,
) -> Vec<u8> {
    let (statement, values, skip_metadata) = match ask {
        Ask::Text(cql) => (Statement::Text(cql), &[][..], false),
        Ask::Bare(cql) => (Statement::Text(cql), &[][..], true),
        // Without metadata, as drivers ask.
        Ask::Prepared(prepared, values) => (Statement::Prepared(prepared.ids()), *values, true),
    };
    let values: Vec<_> = values.iter().map(|v| ValueRef::Set(v)).collect();
    let options = Options {
        values: (!values.is_empty()).then_some(&values[..]),
        skip_metadata,
        page_size: size,
        paging_state: state,
        ..Options::at(ONE)
    };
    request(client.version, statement, &options)
}

/// All pages of a result, byte for byte but for the paging states.
pub(crate) fn pages(
    client: &mut Client<TcpStream>,
    ask: &Ask<'_>,
    size: Option<i32>,
) -> Vec<(u8, Vec<u8>)> {
    try_pages(client, ask, size).unwrap_or_else(|fault| panic!("{fault:?}"))
}

pub(super) fn try_pages(
    client: &mut Client<TcpStream>,
    ask: &Ask<'_>,
    size: Option<i32>,
) -> Result<Vec<(u8, Vec<u8>)>, Fault> {
    let mut pages = Vec::new();
    let mut state = None;
    loop {
        let body = paged(client, ask, size, state.as_deref());
        let answer = client.call(ask.opcode(), &body).expect("an answer");
        let answer = answer.judged().expect("an answer")?;
        assert!(answer.has_rows().expect("a RESULT"), "rows");
        state = answer.paging_state().expect("rows");
        let mut body = answer.body;
        if let Some(state) = &state {
            // It is the next page that proves it. A node words it differently for v3, and behind a
            // partition of static columns only it names a row of the partition before, if that was
            // on the same page of the node's.
            let at = body.windows(state.len()).position(|w| w == state);
            let at = at.expect("the state just found");
            body.drain(at - 4..at + state.len());
        }
        pages.push((answer.flags, body));
        if state.is_none() {
            return Ok(pages);
        }
        assert!(pages.len() < 10_000, "it does not end");
    }
}

/// All pages; where the answer is that the statement is not known, it is prepared again, once.
pub(super) fn pages_as_driver(
    client: &mut Client<TcpStream>,
    cql: &str,
    ask: &Ask<'_>,
) -> Vec<(u8, Vec<u8>)> {
    match try_pages(client, ask, Some(23)) {
        Ok(pages) => pages,
        Err(fault) => {
            assert_eq!(fault.code, 0x2500, "{fault:?}");
            client.prepare(cql).expect(cql);
            pages(client, ask, Some(23))
        }
    }
}
