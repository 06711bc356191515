//! Names that clients give themselves in STARTUP: driver, application, id.
//!
//! Links say `Helenus` to the nodes, so this is the only place that knows. Every session keeps its own
//! names; how many clients bear which is counted for all workers, for a bounded number of names.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};

/// Bytes kept of a name.
const NAME_BYTES_MAX: usize = 128;
/// Kinds of clients counted apart; further ones are counted as `other`.
const KINDS_MAX: usize = 64;

/// Of one client. All of it is the client's word.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub(crate) struct ClientNames {
    pub kind: Kind,
    /// `CLIENT_ID`: that of the driver's session, mostly.
    pub id: Box<str>,
}

/// Names that many clients share; empty where they say nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct Kind {
    pub driver: Box<str>,
    pub driver_version: Box<str>,
    pub application: Box<str>,
    pub application_version: Box<str>,
}

impl ClientNames {
    /// From the options of a STARTUP.
    pub(crate) fn of(options: &[(&str, &str)]) -> ClientNames {
        let option = |name: &str| {
            let found = options.iter().find(|(n, _)| n.eq_ignore_ascii_case(name));
            found.map(|(_, value)| bounded(value)).unwrap_or_default()
        };
        ClientNames {
            kind: Kind {
                driver: option("DRIVER_NAME"),
                driver_version: option("DRIVER_VERSION"),
                application: option("APPLICATION_NAME"),
                application_version: option("APPLICATION_VERSION"),
            },
            id: option("CLIENT_ID"),
        }
    }
}

/// The beginning of a name, without control characters.
fn bounded(name: &str) -> Box<str> {
    let mut end = name.len().min(NAME_BYTES_MAX);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    let printable = |c: char| if c.is_control() { ' ' } else { c };
    name[..end].chars().map(printable).collect()
}

/// Clients that are ready, by kind.
#[derive(Debug, Default)]
pub struct ClientKinds {
    kinds: Mutex<Vec<Arc<Counted>>>,
}

#[derive(Debug)]
struct Counted {
    kind: Kind,
    clients: AtomicU64,
}

/// A client that is counted for as long as this lives.
#[derive(Debug)]
pub(crate) struct CountedClient(Arc<Counted>);

impl ClientKinds {
    pub(crate) fn enter(&self, kind: &Kind) -> CountedClient {
        let mut kinds = self.kinds.lock().unwrap_or_else(PoisonError::into_inner);
        let counted = match kinds.iter().find(|counted| counted.kind == *kind) {
            Some(counted) => counted.clone(),
            None => {
                // One place is for all that have none.
                let is_full = |kinds: &[Arc<Counted>]| kinds.len() >= KINDS_MAX - 1;
                if is_full(&kinds) {
                    kinds.retain(|counted| counted.clients.load(Ordering::Relaxed) > 0);
                }
                let kind = match is_full(&kinds) {
                    true => Kind::other(),
                    false => kind.clone(),
                };
                match kinds.iter().find(|counted| counted.kind == kind) {
                    Some(other) => other.clone(),
                    None => {
                        let clients = AtomicU64::new(0);
                        kinds.push(Arc::new(Counted { kind, clients }));
                        kinds[kinds.len() - 1].clone()
                    }
                }
            }
        };
        // With the lock, so that no kind is dropped that somebody is about to enter.
        counted.clients.fetch_add(1, Ordering::Relaxed);
        CountedClient(counted)
    }

    /// Kinds with clients, and how many.
    pub fn list(&self) -> Vec<(Kind, u64)> {
        let kinds = self.kinds.lock().unwrap_or_else(PoisonError::into_inner);
        let counts = kinds.iter().map(|counted| {
            (
                counted.kind.clone(),
                counted.clients.load(Ordering::Relaxed),
            )
        });
        counts.filter(|(_, clients)| *clients > 0).collect()
    }
}

impl Kind {
    fn other() -> Kind {
        Kind {
            driver: "other".into(),
            ..Kind::default()
        }
    }
}

impl Drop for CountedClient {
    fn drop(&mut self) {
        self.0.clients.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(driver: &str) -> Kind {
        ClientNames::of(&[("DRIVER_NAME", driver)]).kind
    }

    #[test]
    fn names_are_bounded_and_printable() {
        let long = "ü".repeat(1000);
        let names = ClientNames::of(&[
            ("DRIVER_NAME", "x"),
            ("driver_version", "1\n2\0\u{7F}"),
            ("APPLICATION_NAME", &long),
            ("CLIENT_ID", ""),
            ("DRIVER_NAME", "second"),
        ]);
        assert_eq!(&*names.kind.driver, "x");
        assert_eq!(&*names.kind.driver_version, "1 2  ");
        assert_eq!(&*names.kind.application, "ü".repeat(64));
        assert_eq!(&*names.kind.application_version, "");
        assert_eq!(&*names.id, "");
        let odd = format!("a{}", "ü".repeat(1000));
        assert_eq!(bounded(&odd).len(), 127);
    }

    #[test]
    fn kinds_are_counted_while_they_have_clients_and_are_bounded() {
        let kinds = ClientKinds::default();
        let two = [kinds.enter(&kind("a")), kinds.enter(&kind("a"))];
        assert_eq!(kinds.list(), [(kind("a"), 2)]);
        drop(two);
        assert_eq!(kinds.list(), []);
        let many: Vec<_> = (0..1000)
            .map(|n| kinds.enter(&kind(&n.to_string())))
            .collect();
        let list = kinds.list();
        assert_eq!(list.len(), KINDS_MAX);
        let of_others = 1000 - (KINDS_MAX as u64 - 1);
        assert_eq!(list.last(), Some(&(Kind::other(), of_others)));
        assert_eq!(list.iter().map(|(_, clients)| clients).sum::<u64>(), 1000);
        drop(many);
        let _new = kinds.enter(&kind("new"));
        assert_eq!(kinds.list(), [(kind("new"), 1)]);
    }
}
