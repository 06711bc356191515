//! What nodes say to connections that are being set up, links and logins alike; and roles that are
//! dropped while their clients are connected.

use helenus_engine::session::login::credentials::Credentials;
use helenus_wire::{Header, Opcode, QueryView, Reader, Version, code, write};

use super::network::Peer;
use super::strikes::Scope;
use super::{Event, World};
use crate::chaos::bounds::Cause;
use crate::chaos::cassandra::{Served, Stage, error_saying, result, said};
use crate::chaos::client::{PASSWORD, role_name};
use crate::chaos::coverage::Fault;
use crate::chaos::cql::{self, Metadata};
use crate::chaos::proxy::CLUSTER_NAME;

const PASSWORD_AUTHENTICATOR: &str = "org.apache.cassandra.auth.PasswordAuthenticator";
const UNKNOWN_AUTHENTICATOR: &str = "org.example.Unknown";
const ANOTHER_CLUSTER: &str = "another";

impl World {
    pub(super) fn is_dropped(&self, role: &str) -> bool {
        self.dropped
            .iter()
            .any(|dropped| role_name(*dropped) == role)
    }

    /// Drops a role; it comes back after a while.
    pub(super) fn drop_role(&mut self) -> &'static str {
        let role = self.dice.below(2) as usize;
        if !self.authenticated || !self.dropped.insert(role) {
            return "nothing";
        }
        self.strike(Fault::RoleDropped, Scope::default());
        let for_us = 100_000 + self.dice.below(5_000_000);
        self.events.plan(for_us, Event::RoleBack(role));
        "role dropped"
    }

    /// What comes of a message by which a connection is set up; `None` if it is a request of another kind.
    pub(super) fn greet(&mut self, number: usize, header: &Header, body: &[u8]) -> Option<Served> {
        match Opcode::from_number(header.opcode) {
            Some(Opcode::Startup) => Some(self.start_connection(number)),
            Some(Opcode::AuthResponse) => Some(self.judge_token(number, body)),
            Some(Opcode::Query) => {
                let version = Version::from_number(header.version)?;
                let text = QueryView::parse(body, version).ok()?.text;
                let is_name = text == "SELECT cluster_name FROM system.local";
                is_name.then(|| self.name_cluster(number, text))
            }
            _ => None,
        }
    }

    /// How long a node takes for such a message, beside all else; and what may happen meanwhile.
    pub(super) fn greeting_us(&mut self, opcode: u8) -> u64 {
        let (us, strikes) = match Opcode::from_number(opcode) {
            // A password is hashed.
            Some(Opcode::AuthResponse) => (500 + self.dice.below(20_000), 10),
            Some(Opcode::Startup) => (self.dice.below(3_000), 40),
            _ => return 0,
        };
        if self.dice.below(strikes) == 0 {
            self.events.plan(self.dice.below(us), Event::Strike);
        }
        us
    }

    fn may_lie(&mut self) -> bool {
        self.may(Cause::Lie) && self.dice.below(60) == 0
    }

    /// Whether a node fails as it does with any request.
    fn fails(&mut self) -> bool {
        self.dice.below(100) < self.cluster.errors_percent
    }

    fn start_connection(&mut self, number: usize) -> Served {
        if self.fails() {
            return error_saying(code::OVERLOADED, "so the model, of a STARTUP", &[]);
        }
        let (asks, class) = match self.may_lie() {
            false => (self.authenticated, PASSWORD_AUTHENTICATOR),
            true if self.dice.below(2) == 0 => {
                self.count("node asks otherwise");
                (true, UNKNOWN_AUTHENTICATOR)
            }
            // As while authentication is switched on or off.
            true => {
                self.count("node asks though others do not, or the other way round");
                (!self.authenticated, PASSWORD_AUTHENTICATOR)
            }
        };
        let stage = if asks { Stage::Asked } else { Stage::Ready };
        self.set_stage(number, stage, None);
        match asks {
            true => {
                let mut body = Vec::new();
                write::string(&mut body, class);
                said(Opcode::Authenticate, body)
            }
            false => said(Opcode::Ready, Vec::new()),
        }
    }

    fn judge_token(&mut self, number: usize, body: &[u8]) -> Served {
        let token = Reader::new(body).bytes().ok().flatten();
        let token = token.expect("an AUTH_RESPONSE").to_vec();
        if self.stage(number) != Some(Stage::Asked) {
            panic!("a token that no node has asked for");
        }
        if self.fails() || !self.is_calm && self.dice.below(40) == 0 && self.can(Cause::LoginFails)
        {
            let text = "Unable to perform authentication, says the model";
            return error_saying(code::BAD_CREDENTIALS, text, &[]);
        }
        let credentials = Credentials::of_password(&token);
        let known = credentials.role().filter(|role| !self.is_dropped(role));
        let Some(role) = known.filter(|_| token.ends_with(PASSWORD.as_bytes())) else {
            self.count("login refused");
            let text = "Provided username and/or password are incorrect";
            return error_saying(code::BAD_CREDENTIALS, text, &[]);
        };
        self.set_stage(number, Stage::Ready, Some(role.to_owned()));
        let mut body = Vec::new();
        write::i32(&mut body, -1);
        said(Opcode::AuthSuccess, body)
    }

    fn name_cluster(&mut self, number: usize, text: &str) -> Served {
        if self.stage(number) != Some(Stage::Ready) {
            panic!("a query before the login");
        }
        if self.fails() {
            return error_saying(code::OVERLOADED, "so the model, of system.local", &[]);
        }
        let mut name = CLUSTER_NAME;
        if self.may_lie() {
            self.count("node of another cluster");
            self.set_stage(number, Stage::Foreign, None);
            name = ANOTHER_CLUSTER;
        }
        let columns = [("cluster_name", cql::VARCHAR)];
        let row = vec![name.as_bytes().to_vec()];
        result(cql::rows(text, &columns, &[row], None, &Metadata::Full))
    }

    fn stage(&self, number: usize) -> Option<Stage> {
        match &self.connections[number].peer {
            Peer::Node(end) => Some(end.peer.stage),
            Peer::Client(..) => None,
        }
    }

    fn set_stage(&mut self, number: usize, stage: Stage, role: Option<String>) {
        if let Peer::Node(end) = &mut self.connections[number].peer {
            end.peer.stage = stage;
            end.peer.role = role.or(end.peer.role.take());
        }
    }
}
