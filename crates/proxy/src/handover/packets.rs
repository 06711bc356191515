//! Packets with sockets, between two proxies of which one takes over the other's clients.

use std::io::{ErrorKind, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};

use anyhow::{Result, anyhow, ensure};
use helenus_engine::session::handover::passed::PassedClient;
use helenus_engine::statement::prepared::PassedStatement;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recv, recvmsg, sendmsg,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncReadExt, AsyncWriteExt, Interest};
use tokio::net::UnixStream;

use super::SOCKETS_MAX;

/// Bytes in one packet at most; several times what is put into one.
const PACKET_BYTES_MAX: usize = 16 << 20;
const LEN_BYTES: usize = 4;

/// From the proxy that leaves. Each is answered before the next one is sent.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) enum Passed {
    Statements(Vec<PassedStatement>),
    /// With the socket of each.
    Clients(Vec<PassedClient>),
}

/// From the proxy that takes over.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) enum Taken {
    Statements,
    /// Of each client why it has not been taken over, if it has not. The others are served from now on.
    Clients(Vec<Option<String>>),
}

/// Sends a packet: its length, with the sockets, and what is said.
pub(crate) async fn send(
    stream: &mut UnixStream,
    said: &impl Serialize,
    sockets: &[BorrowedFd<'_>],
) -> Result<()> {
    let said = rmp_serde::to_vec_named(said)?;
    ensure!(said.len() <= PACKET_BYTES_MAX, "it is too much at once");
    let len = (said.len() as u32).to_be_bytes();
    let sent = stream.async_io(Interest::WRITABLE, || {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(SOCKETS_MAX))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        if !sockets.is_empty() {
            ancillary.push(SendAncillaryMessage::ScmRights(sockets));
        }
        let bytes = [IoSlice::new(&len)];
        Ok(sendmsg(
            &*stream,
            &bytes,
            &mut ancillary,
            SendFlags::NOSIGNAL,
        )?)
    });
    let sent = sent.await?;
    stream.write_all(&len[sent..]).await?;
    stream.write_all(&said).await?;
    Ok(())
}

/// Waits until something of the next packet has come, or the other side has closed; takes nothing of it. That the
/// stream is readable says less: it stays so once a packet has been read that filled what it was read into.
pub(crate) async fn announced(stream: &UnixStream) -> std::io::Result<()> {
    let peek = || -> std::io::Result<()> {
        recv(stream, &mut [0_u8][..], RecvFlags::PEEK)?;
        Ok(())
    };
    stream.async_io(Interest::READABLE, peek).await
}

/// The next packet and the sockets that came with it; `None` if the other side has closed.
pub(crate) async fn receive<T: DeserializeOwned>(
    stream: &mut UnixStream,
) -> Result<Option<(T, Vec<OwnedFd>)>> {
    let mut len = [0; LEN_BYTES];
    let received = stream.async_io(Interest::READABLE, || receive_some(&*stream, &mut len));
    let (received, sockets) = match received.await {
        Ok((0, _)) => return Ok(None),
        Err(e) if e.kind() == ErrorKind::ConnectionReset => return Ok(None),
        received => received?,
    };
    stream.read_exact(&mut len[received..]).await?;
    let len = u32::from_be_bytes(len) as usize;
    ensure!(len <= PACKET_BYTES_MAX, "a packet of {len} bytes");
    // No memory because of an announcement.
    let mut said = Vec::new();
    let read = (&mut *stream)
        .take(len as u64)
        .read_to_end(&mut said)
        .await?;
    if read < len {
        let why = "it has closed in the middle of a packet";
        return Err(std::io::Error::new(ErrorKind::UnexpectedEof, why).into());
    }
    // The exact error is not said: it may quote a password.
    let said = rmp_serde::from_slice(&said).map_err(|_| anyhow!("a packet is not understood"))?;
    Ok(Some((said, sockets)))
}

fn receive_some(stream: &UnixStream, bytes: &mut [u8]) -> std::io::Result<(usize, Vec<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(SOCKETS_MAX))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut bytes = [IoSliceMut::new(bytes)];
    let received = recvmsg(stream, &mut bytes, &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
    let sockets = ancillary.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(sockets) => Some(sockets),
        _ => None,
    });
    let sockets = sockets.flatten().collect();
    if received.flags.contains(ReturnFlags::CTRUNC) {
        return Err(std::io::Error::other(
            "not all sockets have come: is the limit of open files too low?",
        ));
    }
    Ok((received.bytes, sockets))
}
