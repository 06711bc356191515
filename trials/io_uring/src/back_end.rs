//! The ways to move a relay's bytes that are compared.

mod epoll;
mod epoll_bare;
mod uring;

use std::net::{TcpListener, TcpStream};

use anyhow::Result;
use clap::ValueEnum;
use serde::Serialize;

use uring::Setup;

/// Runs a relay until a link breaks.
pub trait BackEnd {
    /// Serves `listener`'s clients over `links`. All sockets are non-blocking and without delay.
    fn run(&self, listener: TcpListener, links: Vec<TcpStream>) -> Result<()>;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// tokio, one thread, a task a socket: as the proxy is
    Epoll,
    /// epoll in a plain loop, without tokio: what leaving the runtime alone brings
    EpollBare,
    /// multishot receive, a ring of buffers, registered files, SINGLE_ISSUER + DEFER_TASKRUN
    Uring,
    /// the same with large buffers filled bit by bit
    UringInc,
    /// the same as `uring` with a second look before sending
    UringGather,
    /// the same as `uring` with COOP_TASKRUN instead of DEFER_TASKRUN
    UringCoop,
}

impl Kind {
    pub fn name(self) -> String {
        self.to_possible_value()
            .map(|v| v.get_name().to_owned())
            .unwrap_or_default()
    }

    pub fn back_end(self) -> Box<dyn BackEnd> {
        match (self, self.setup()) {
            (_, Some(setup)) => Box::new(setup),
            (Kind::EpollBare, None) => Box::new(epoll_bare::EpollBare),
            (_, None) => Box::new(epoll::Epoll),
        }
    }

    /// Whether this kernel lets us use it.
    pub fn probe(self) -> Result<()> {
        self.setup().map_or(Ok(()), uring::probe)
    }

    fn setup(self) -> Option<Setup> {
        let setup = Setup {
            defer: true,
            incremental: false,
            gather: false,
        };
        Some(match self {
            Kind::Epoll | Kind::EpollBare => return None,
            Kind::Uring => setup,
            Kind::UringInc => Setup {
                incremental: true,
                ..setup
            },
            Kind::UringGather => Setup {
                gather: true,
                ..setup
            },
            Kind::UringCoop => Setup {
                defer: false,
                ..setup
            },
        })
    }
}

#[cfg(test)]
mod tests;
