//! Who asks, and which rules may be about that.

use std::net::IpAddr;

/// Who asks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Who<'a> {
    pub role: Role<'a>,
    pub address: IpAddr,
    pub application: &'a str,
    pub driver: &'a str,
}

/// As whom a client has logged in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role<'a> {
    /// Nobody has to.
    Nobody,
    Named(&'a str),
    /// Its authenticator does not tell.
    Unknown,
}

/// A rule's fit: it is about something, or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fits {
    No,
    /// Nobody here knows. Only rules that forbid apply then, and none of them makes an exception.
    Perhaps,
    Yes,
}

/// Rules, by their places: there are 64 at most.
pub(crate) type Places = u64;

/// The rules that may be about what one client asks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct OfClient {
    pub may: Places,
    /// Of these, those that are about its role only perhaps.
    pub unsure: Places,
}
