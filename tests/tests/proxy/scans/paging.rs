//! Requests page by page, and all their pages.

use std::net::TcpStream;

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
    let mut body = Vec::new();
    let mut flags = size.map_or(0, |_| 4) | state.map_or(0, |_| 8);
    let mut values: &[Vec<u8>] = &[];
    match ask {
        Ask::Text(cql) | Ask::Bare(cql) => {
            flags |= 2 * u32::from(matches!(ask, Ask::Bare(_)));
            body.extend_from_slice(&(cql.len() as u32).to_be_bytes());
            body.extend_from_slice(cql.as_bytes());
        }
        Ask::Prepared(prepared, bound) => {
            for id in [Some(&prepared.id), prepared.result_id.as_ref()] {
                let Some(id) = id else { continue };
                body.extend_from_slice(&(id.len() as u16).to_be_bytes());
                body.extend_from_slice(id);
            }
            // Without metadata, as drivers ask.
            flags |= 2 | u32::from(!bound.is_empty());
            values = bound;
        }
    }
    body.extend_from_slice(&ONE.to_be_bytes());
    match client.version {
        5.. => body.extend_from_slice(&u32::to_be_bytes(flags)),
        _ => body.push(flags as u8),
    }
    if !values.is_empty() {
        body.extend_from_slice(&(values.len() as u16).to_be_bytes());
        for value in values {
            body.extend_from_slice(&(value.len() as u32).to_be_bytes());
            body.extend_from_slice(value);
        }
    }
    if let Some(size) = size {
        body.extend_from_slice(&size.to_be_bytes());
    }
    if let Some(state) = state {
        body.extend_from_slice(&(state.len() as u32).to_be_bytes());
        body.extend_from_slice(state);
    }
    body
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
