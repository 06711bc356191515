//! Logins as nodes judge them, and roles that are dropped while their clients are connected.

use helenus_engine::client::credentials::Credentials;
use helenus_engine::client::login::{Answer, Met, Outcome};
use helenus_engine::output::Login;
use helenus_wire::{ErrorBody, Opcode, code, write};

use super::strikes::Scope;
use super::{Event, World};
use crate::chaos::cassandra::Health;
use crate::chaos::client::{PASSWORD, role_name};
use crate::chaos::coverage::Fault;
use crate::chaos::proxy::At;

/// How long a node that cannot be reached is waited for.
const PATIENCE_US: u64 = 2_000_000;

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

    fn reaches(&self, at: At, node: usize) -> bool {
        self.cluster.nodes[node].health == Health::Up && !self.is_partitioned(at.proxy, node)
    }

    pub(super) fn begin_login(&mut self, at: At, login: Login) {
        let nodes = login.nodes.iter().map(|(node, _)| node.as_usize());
        let silent = nodes
            .take_while(|node| !self.reaches(at, *node))
            .filter(|node| self.cluster.nodes[*node].health != Health::Down);
        let silent_us = silent.count() as u64 * PATIENCE_US;
        let delay = 500 + self.dice.below(20_000) + silent_us;
        self.worker(at).logins += 1;
        if self.dice.below(10) == 0 {
            self.events.plan(self.dice.below(delay), Event::Strike);
        }
        self.events
            .plan(delay, Event::LoggedIn(at, Box::new(login)));
    }

    pub(super) fn log_in(&mut self, at: At, login: &Login) {
        let mut met = Met::default();
        for (node, _) in &login.nodes {
            if self.reaches(at, node.as_usize()) {
                met.answered = Some(*node);
                break;
            }
            met.failed
                .push((*node, "unreachable, says the model".to_owned()));
        }
        let outcome = match (met.answered, self.dice.below(30)) {
            (None, _) | (_, 0) => {
                Outcome::Failed(code::SERVER, "no node, says the model".to_owned())
            }
            (_, 1) => Outcome::Failed(code::OVERLOADED, "too many logins".to_owned()),
            (_, 2) => refusal(login, "Unable to perform authentication"),
            _ => self.judged(login),
        };
        let now = self.now();
        let worker = self.worker(at);
        worker.logins -= 1;
        worker.engine.end_login(now, login, outcome, &met);
        self.after(at);
    }

    /// What a node says of a client's name and password.
    fn judged(&mut self, login: &Login) -> Outcome {
        let credentials = Credentials::of_password(&login.token);
        let dropped = credentials.role().is_none_or(|role| self.is_dropped(role));
        if dropped || !login.token.ends_with(PASSWORD.as_bytes()) {
            self.count("login refused");
            return refusal(login, "Provided username and/or password are incorrect");
        }
        let mut body = Vec::new();
        write::i32(&mut body, -1);
        let answer = Answer {
            opcode: Opcode::AuthSuccess,
            header_flags: 0,
            body,
            version: login.version,
        };
        Outcome::Accepted(credentials, answer)
    }
}

fn refusal(login: &Login, message: &str) -> Outcome {
    let mut body = Vec::new();
    ErrorBody {
        code: code::BAD_CREDENTIALS,
        message,
        fields: &[],
    }
    .write(&mut body);
    Outcome::NotAccepted(Answer {
        opcode: Opcode::Error,
        header_flags: 0,
        body,
        version: login.version,
    })
}
