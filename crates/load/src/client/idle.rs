//! Clients that connect, send STARTUP and then stay idle, as most connections of a large fleet do.
//! Written without a driver, so that no driver's memory is measured as well.

use anyhow::{Context, Result, bail};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Protocol v4, stream 0, STARTUP with `CQL_VERSION` = `3.0.0`.
const STARTUP: &[u8] = b"\x04\x00\x00\x00\x01\x00\x00\x00\x16\
    \x00\x01\x00\x0bCQL_VERSION\x00\x053.0.0";
const READY: u8 = 0x02;
const AUTHENTICATE: u8 = 0x03;
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
    stream.write_all(STARTUP).await?;
    let mut header = [0u8; 9];
    stream.read_exact(&mut header).await?;
    let [version, _, _, _, opcode, length @ ..] = header;
    let length = u32::from_be_bytes(length) as usize;
    if version & 0x80 == 0 || length > ANSWER_BYTES_MAX || !matches!(opcode, READY | AUTHENTICATE) {
        bail!("unexpected answer to STARTUP: version {version:#04x}, opcode {opcode:#04x}");
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await?;
    Ok(stream)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::net::TcpListener;

    async fn answer_with(reply: &'static [u8]) -> Result<usize> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?.to_string();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut request = vec![0; STARTUP.len()];
                if stream.read_exact(&mut request).await.is_ok() && request == STARTUP {
                    let _ = stream.write_all(reply).await;
                }
            }
        });
        Ok(open_idle(&address, 3).await?.len())
    }

    #[test]
    fn the_length_of_startup_is_that_of_its_body() {
        assert_eq!(STARTUP.len() - 9, usize::from(STARTUP[8]));
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
