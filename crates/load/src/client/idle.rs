//! Clients that connect, send STARTUP and then stay idle, as most connections of a large fleet do.
//! Written without a driver, so that no driver's memory is measured as well.

use anyhow::{Context, Result, bail, ensure};
use helenus_client::{Codec, Compression, Opcode, startup};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// A valid first response is small.
const ANSWER_BYTES_MAX: usize = 4096;

/// Opens `count` connections and waits until each gets READY or AUTHENTICATE.
pub async fn open_idle(address: &str, count: usize) -> Result<Vec<TcpStream>> {
    let mut clients = Vec::with_capacity(count);
    for number in 0..count {
        let client = open_one(address).await.with_context(|| {
            format!("idle client {number} of {count} could not connect to {address}")
        })?;
        clients.push(client);
    }
    Ok(clients)
}

async fn open_one(address: &str) -> Result<TcpStream> {
    let mut stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let mut codec = Codec::new(4, Compression::None);
    let body = startup(Compression::None, &[]);
    codec.push(0, Opcode::Startup as u8, 0, |out| out.extend(body));
    stream.write_all(codec.pending()).await?;
    let mut bytes = [0; ANSWER_BYTES_MAX];
    loop {
        let len = stream.read(&mut bytes).await?;
        ensure!(len > 0, "the connection was closed");
        let mut answer = None;
        codec.feed(&bytes[..len], |found| answer = Some(found))?;
        match answer {
            Some(answer) if answer.accepts_startup() => return Ok(stream),
            Some(answer) => bail!(
                "unexpected answer to STARTUP: opcode {:#04x}",
                answer.opcode
            ),
            None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::net::TcpListener;

    /// Protocol v4, stream 0.
    const STARTUP: &[u8; 31] = b"\x04\x00\x00\x00\x01\x00\x00\x00\x16\
        \x00\x01\x00\x0bCQL_VERSION\x00\x053.0.0";

    async fn answer_with(reply: &'static [u8]) -> Result<usize> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?.to_string();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut request = [0; STARTUP.len()];
                if stream.read_exact(&mut request).await.is_ok() && request == *STARTUP {
                    let _ = stream.write_all(reply).await;
                }
            }
        });
        Ok(open_idle(&address, 3).await?.len())
    }

    #[tokio::test]
    async fn ready_and_authenticate_are_accepted_errors_are_not() {
        assert_eq!(answer_with(b"\x84\0\0\0\x02\0\0\0\0").await.unwrap(), 3);
        assert_eq!(
            answer_with(b"\x84\0\0\0\x03\0\0\0\x03\0\x01A")
                .await
                .unwrap(),
            3
        );
        let refused = answer_with(b"\x84\0\0\0\x00\0\0\0\0").await.unwrap_err();
        assert!(
            format!("{refused:#}").contains("opcode 0x00"),
            "{refused:#}"
        );
        assert!(answer_with(b"\x84\0\0\0\x02\xff\0\0\0").await.is_err());
    }
}
