//! A local port whose connections go on over TLS, so that a client without TLS can be one with it.

use std::io::Result;
use std::net::SocketAddr;
use std::sync::Arc;

use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::copy_bidirectional_with_sizes;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};
use tokio_rustls::TlsConnector;

/// Enough for records of the largest size.
const BUFFER_BYTES: usize = 64 * 1024;

pub(crate) struct Tunnel {
    /// Where plain clients connect.
    pub address: SocketAddr,
    _runtime: Runtime,
}

impl Tunnel {
    /// To a server that is to have a certificate for "localhost".
    pub(crate) fn to(server: SocketAddr, config: Arc<ClientConfig>) -> Result<Self> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()?;
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0"))?;
        let address = listener.local_addr()?;
        runtime.spawn(async move {
            while let Ok((plain, _)) = listener.accept().await {
                tokio::spawn(carry(plain, server, config.clone()));
            }
        });
        Ok(Self {
            address,
            _runtime: runtime,
        })
    }
}

/// Until both ends have closed, or one is lost: then the other sees its connection close, too.
async fn carry(mut plain: TcpStream, server: SocketAddr, config: Arc<ClientConfig>) -> Result<()> {
    let name = ServerName::try_from("localhost").expect("a name");
    let tcp = TcpStream::connect(server).await?;
    tcp.set_nodelay(true)?;
    plain.set_nodelay(true)?;
    let mut encrypted = TlsConnector::from(config).connect(name, tcp).await?;
    copy_bidirectional_with_sizes(&mut plain, &mut encrypted, BUFFER_BYTES, BUFFER_BYTES).await?;
    Ok(())
}
