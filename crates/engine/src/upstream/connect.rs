//! Connections that are being set up: asked for, dialed, greeted.

pub(crate) mod checks;
pub(crate) mod connection;
pub mod greeting;
pub(crate) mod kind;

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use helenus_policy::ring::NodeIndex;
use helenus_wire::{Encoder, Version};

use crate::context::Context;
use crate::keys::{LinkKey, PoolKey, SessionKey};
use crate::output::{Dialed, Output, Sent, Then};
use crate::session::login::authenticator::Authenticators;
use crate::session::login::credentials::Credentials;
use crate::upstream::connect::connection::{Connecting, Opening, Purpose};
use crate::upstream::connect::greeting::{Aim, Greeting, Milestone};
use crate::upstream::connect::kind::{LinkKind, OpenError};
use crate::upstream::links::Links;

/// A node that takes longer to judge a token counts as failed.
const JUDGEMENT_MAX: Duration = Duration::from_secs(20);

impl Links {
    /// Asks for a connection; its slot is already marked as connecting.
    pub(super) fn ask_for(
        &mut self,
        cx: &mut Context,
        pool: PoolKey,
        node: NodeIndex,
        kind: LinkKind,
    ) {
        let Some(of) = self.pools.get(pool) else {
            return;
        };
        let identity = of.identity.clone();
        let address = cx.snapshot.nodes().address_of(node);
        let aim = Aim::Link {
            token: identity.credentials().map(Credentials::token),
            cluster: (kind != LinkKind::Check).then(|| cx.snapshot.cluster_name().to_owned()),
            keyspace: match &kind {
                LinkKind::Keyspace(keyspace) => Some(keyspace.clone()),
                _ => None,
            },
        };
        let purpose = Purpose::Link(Opening {
            pool,
            node,
            kind,
            identity,
        });
        let limit = connect_timeout(cx) * 3;
        let version = cx.snapshot.version();
        self.dial(cx, address, version, aim, purpose, limit);
    }

    /// Asks for a connection over which a node is to judge a client's token, if it asks for it in these
    /// words.
    pub(crate) fn ask_for_login(
        &mut self,
        cx: &mut Context,
        session: SessionKey,
        address: SocketAddr,
        version: Version,
        asked: Vec<u8>,
    ) {
        // A frozen node accepts the connection but does not respond: the next is tried.
        let patience = asks_within(cx);
        let aim = Aim::Login { asked };
        let purpose = Purpose::Login(session);
        self.dial(cx, address, version, aim, purpose, patience);
    }

    fn dial(
        &mut self,
        cx: &mut Context,
        address: SocketAddr,
        version: Version,
        aim: Aim,
        purpose: Purpose,
        limit: Duration,
    ) {
        let authenticators = Authenticators::new(&cx.shared.config.cluster.authenticators);
        let connecting = Connecting {
            purpose,
            greeting: Greeting::new(version, authenticators, aim),
            is_dialing: true,
            write_blocked: false,
            limit,
            deadline: cx.now + limit,
            asked: None,
        };
        let key = self.keys.insert(());
        self.connecting.insert(key, connecting);
        cx.ask(Output::Dial(key, address));
    }

    /// A connection has been made; false if it is not wanted any more.
    pub(crate) fn greet(&mut self, cx: &Context, key: LinkKey, dialed: &Dialed) -> bool {
        let Some(connecting) = self.connecting.get_mut(key) else {
            return false;
        };
        let config = &cx.shared.config;
        let client_id = config.advertised().to_string();
        connecting.is_dialing = false;
        connecting
            .greeting
            .begin(dialed.shows_certificate, &client_id, &config.payload);
        self.dirty.push(key);
        true
    }

    /// Bytes have come over a connection that is being set up; `None` if it is not.
    pub(crate) fn hear_greeting(
        &mut self,
        now: Instant,
        key: LinkKey,
        bytes: &[u8],
        scratch: &mut Vec<u8>,
    ) -> Option<Result<Option<Milestone>, OpenError>> {
        let connecting = self.connecting.get_mut(key)?;
        let reached = connecting.greeting.handle_bytes(bytes, scratch);
        if connecting.greeting.is_judging_link() {
            connecting.asked.get_or_insert(now);
        }
        if connecting.greeting.encoder().pending_len() > 0 {
            self.dirty.push(key);
        }
        Some(reached)
    }

    /// Has the node at the other end judge a token, for which it has asked.
    pub(crate) fn respond(&mut self, cx: &Context, key: LinkKey, token: &[u8]) {
        if let Some(connecting) = self.connecting.get_mut(key) {
            connecting.greeting.respond(token);
            connecting.limit = JUDGEMENT_MAX;
            connecting.deadline = cx.now + JUDGEMENT_MAX;
            self.dirty.push(key);
        }
    }

    /// A connection is not set up any further: it is ready, or has failed.
    pub(crate) fn end_greeting(&mut self, key: LinkKey) -> Option<(Purpose, Greeting)> {
        let connecting = self.connecting.remove(key)?;
        Some((connecting.purpose, connecting.greeting))
    }

    /// The login that a connection is set up for.
    pub(crate) fn login_over(&self, key: LinkKey) -> Option<SessionKey> {
        match self.connecting.get(key)?.purpose {
            Purpose::Login(session) => Some(session),
            Purpose::Link(_) => None,
        }
    }

    /// True if a connection is lost before the node has said anything.
    pub(crate) fn is_unheard(&self, key: LinkKey) -> bool {
        let connecting = self.connecting.get(key);
        connecting.is_some_and(|connecting| !connecting.greeting.has_heard())
    }

    /// A connection is to be closed.
    pub(crate) fn forget(&mut self, cx: &mut Context, key: LinkKey) {
        if self.keys.remove(key).is_some() {
            cx.ask(Output::Link(key));
        }
    }

    /// Connections whose nodes have had their time, and what they have not done in it.
    pub(crate) fn overdue(&self, cx: &Context) -> Vec<(LinkKey, OpenError)> {
        let asks_within = asks_within(cx);
        let connecting = self.connecting.iter();
        let overdue = connecting.filter(|(_, connecting)| connecting.deadline <= cx.now);
        overdue
            .map(|(key, of)| (key, of.overdue(asks_within)))
            .collect()
    }

    /// True if a connection is to be kept: as a link, or to become one.
    pub(crate) fn is_open(&self, key: LinkKey) -> bool {
        self.keys.contains_key(key)
    }

    pub(super) fn is_greeting_blocked(&self, key: LinkKey) -> bool {
        let connecting = self.connecting.get(key);
        connecting.is_some_and(|connecting| connecting.write_blocked)
    }

    pub(super) fn greeting_bytes(&mut self, key: LinkKey) -> Option<&mut Encoder> {
        let connecting = self.connecting.get_mut(key)?;
        (!connecting.is_dialing).then(|| connecting.greeting.encoder())
    }

    /// If it is broken, [`crate::Engine::on_link_closed`] tells why.
    pub(super) fn note_greeting_sent(&mut self, cx: &mut Context, key: LinkKey, sent: &Sent) {
        if let Some(connecting) = self.connecting.get_mut(key) {
            connecting.write_blocked = sent.then == Then::Blocked;
            if sent.then == Then::Broken {
                cx.ask(Output::Link(key));
            }
        }
    }
}

/// A node that takes longer to ask for a token counts as one that cannot be reached.
fn asks_within(cx: &Context) -> Duration {
    connect_timeout(cx) * 2
}

fn connect_timeout(cx: &Context) -> Duration {
    Duration::from_millis(cx.shared.config.links.connect_timeout_ms)
}
