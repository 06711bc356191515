//! A node that does nothing but answer: each request comes back as its own answer, those that
//! arrived together leave together. One blocking thread a link.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

use anyhow::Result;
use helenus_wire::Flow;

use crate::relay::{READ_LEN, framed, header};

/// Serves until the process ends.
pub fn serve(listener: &TcpListener) -> Result<()> {
    loop {
        let (link, _) = listener.accept()?;
        std::thread::spawn(move || answer(link));
    }
}

fn answer(mut link: TcpStream) -> Result<()> {
    link.set_nodelay(true)?;
    let (mut decoder, mut encoder) = framed();
    let mut buf = vec![0; READ_LEN];
    let mut scratch = Vec::new();
    loop {
        let n = link.read(&mut buf)?;
        if n == 0 {
            return Ok(());
        }
        decoder.feed(&buf[..n], &mut scratch, |request, body| {
            encoder.push_slice(header(request.stream, true), body);
            Flow::Continue
        })?;
        let pending = encoder.pending();
        link.write_all(pending)?;
        let n = pending.len();
        encoder.advance(n);
    }
}
