//! Options that name a proxy by its admin server.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;

use super::server::Server;
use super::url::{AdminUrl, token_of};

#[derive(Args, Debug)]
pub struct Target {
    /// The proxy's socket (admin.socket)
    #[arg(long, global = true, value_name = "PATH", conflicts_with = "admin")]
    socket: Option<PathBuf>,
    /// The proxy's admin server
    #[arg(long, global = true, visible_alias = "url", value_name = "URL")]
    admin: Option<AdminUrl>,
    /// File with the admin server's token: admin.token, or admin.read_token, which only shows
    #[arg(long, global = true, visible_alias = "token-file", value_name = "FILE")]
    admin_token_file: Option<PathBuf>,
}

impl Target {
    /// Which proxy is meant, and what it wants to be shown.
    ///
    /// # Errors
    /// The file of the token cannot be read.
    pub fn server(&self) -> Result<(Server, Option<String>)> {
        let token = self.admin_token_file.as_deref().map(token_of).transpose()?;
        let server = Server::of(self.socket.as_deref(), self.admin.as_ref());
        Ok((server, token))
    }
}
