//! Whose a connection is.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};

use procfs::process::{FDTarget, Process};

/// If it could not be seen that a connection is of this process, all would be closed.
pub(crate) fn check_that_processes_are_told_apart(listener: SocketAddr) -> io::Result<()> {
    let nobody = (Ipv4Addr::UNSPECIFIED, 0).into();
    let why = match is_of_this_process(listener, nobody) {
        Ok(true) => return Ok(()),
        Ok(false) => "it does not list this process's sockets".to_owned(),
        Err(e) => e.to_string(),
    };
    Err(io::Error::other(format!(
        "TLS needs /proc (net/tcp and self/fd), to let no other process use it: {why}"
    )))
}

/// True if this process has the socket at the other end of a connection.
pub(crate) fn is_of_this_process(peer: SocketAddr, own: SocketAddr) -> procfs::ProcResult<bool> {
    let sockets = procfs::net::tcp()?;
    let ends = |entry: &&procfs::net::TcpNetEntry| (entry.local_address, entry.remote_address);
    let Some(found) = sockets.iter().find(|entry| ends(entry) == (peer, own)) else {
        return Ok(false);
    };
    let mut open = Process::myself()?.fd()?.flatten();
    Ok(open.any(|file| matches!(file.target, FDTarget::Socket(inode) if inode == found.inode)))
}
