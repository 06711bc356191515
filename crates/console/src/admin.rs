//! A proxy's admin server, as commands ask it.

mod call;
pub mod capture;
mod server;
mod target;
mod url;

pub use call::Coming;
pub use server::{Answer, Server};
pub use target::Target;
pub use url::{AdminUrl, token_of};
