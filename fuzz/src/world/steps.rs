//! Steps of a [`World`], and the bytes that choose them.
//!
//! A step is a byte and what it needs. Its low four bits say what happens, the next three to which
//! client, link or node. With the highest bit set what comes next happens in the same turn.

use std::sync::Arc;
use std::time::Duration;

use helenus_engine::session::drain::Timetable;
use helenus_engine::shared::{EventKind, WorkerMessage};
use helenus_wire::write;

use super::{Dial, Judgement, NODES_MAX, World};
use crate::client::{Client, End};
use crate::cluster;

const CLIENTS_MAX: usize = 16;

impl World<'_> {
    pub(super) fn step(&mut self) {
        let step = self.input.byte();
        let which = usize::from(step >> 4 & 7);
        match step & 0x0f {
            0 => {
                let (opcode, flags) = (self.input.byte(), self.input.byte());
                let body = self.input.sized();
                self.on_client(which, |client| client.send(opcode, flags, body));
            }
            1 => {
                let bytes = self.input.sized();
                self.on_client(which, |client| client.send_raw(bytes));
            }
            2 => self.connect(),
            3 => {
                let end = match self.input.byte() & 1 {
                    0 => End::Closed,
                    _ => End::Broken,
                };
                self.on_client(which, |client| client.leave(end));
            }
            4 => {
                let choice = self.input.byte();
                self.on_client(which, |client| client.socket.set_portion(choice));
            }
            5 => {
                let choice = self.input.byte();
                self.on_client(which, |client| client.socket.set_room(choice));
            }
            6 => {
                let (at, choice) = (self.input.byte(), self.input.byte());
                self.on_asked_link(which, |link, nodes| link.answer(nodes, at, choice));
            }
            7 => {
                let (opcode, flags) = (self.input.byte(), self.input.byte());
                let body = self.input.sized();
                self.on_asked_link(which, |link, _| link.answer_raw(opcode, flags, body));
            }
            8 => {
                let bytes = self.input.sized();
                self.is_garbled = true;
                self.on_link(which, |link| link.socket.write(bytes));
            }
            9 => self.on_link(which, |link| link.close()),
            10 => {
                let (portion, room) = (self.input.byte(), self.input.byte());
                self.on_link(which, |link| {
                    link.socket.set_portion(portion);
                    link.socket.set_room(room);
                });
            }
            11 => {
                self.dials[which % NODES_MAX] = match self.input.byte() % 6 {
                    0 => Dial::Opens,
                    1 => Dial::Hangs,
                    2 => Dial::Fails,
                    3 => Dial::RefusesRole,
                    4 => Dial::CannotJudgeRole,
                    _ => Dial::RefusesKeyspace,
                };
            }
            12 => match self.input.byte() {
                tens @ ..0x80 => self.pass(Duration::from_millis(10) * tens.into()),
                seconds => self.jump(Duration::from_secs(seconds.into()) / 4),
            },
            13 => self.change(which),
            14 => self.answer_all(),
            _ => {
                self.agrees = which & 4 == 0;
                self.judgement = match which & 3 {
                    0 => Judgement::Accepted,
                    1 => Judgement::Hangs,
                    2 => Judgement::Refused,
                    _ => Judgement::Failed,
                };
            }
        }
        if step & 0x80 == 0 {
            self.settle();
        }
    }

    /// A client comes and, most likely, shakes hands.
    fn connect(&mut self) {
        let choice = self.input.byte();
        let clients: usize = self.workers.iter().map(|worker| worker.clients.len()).sum();
        let Some(permit) = self.common.admit_client().filter(|_| clients < CLIENTS_MAX) else {
            return;
        };
        let at = usize::from(choice >> 4 & 1);
        let worker = &mut self.workers[at];
        let peer = self.members[0].address();
        let key = worker.engine.open_session(self.now, peer, self.now, permit);
        let mut client = Client::new(key, choice);
        client.start();
        worker.clients.push(client);
        self.settle();
        if let Some(client) = self.workers[at].client(key) {
            client.log_in(choice >> 5 & 3);
        }
    }

    /// Something that the proxy's control side notices.
    fn change(&mut self, which: usize) {
        let at = which % self.members.len();
        match self.input.byte() % 8 {
            0 => self.tell(&WorkerMessage::NodeUp(self.members[at].address())),
            // One is always left.
            1 if at > 0 => {
                let is_gone = self.members[at].is_gone();
                self.members[at].set_gone(!is_gone);
                self.publish();
            }
            2 if self.members.len() < NODES_MAX => {
                self.members.push(cluster::node(self.members.len() as u8));
                self.publish();
            }
            3 => {
                self.asks_who ^= true;
                self.publish();
            }
            4 => {
                let old = self.common.settings.load_full();
                let mut config = cluster::config(&mut self.input);
                // These are fixed once there is a cluster.
                config.links.in_flight_max = old.links.in_flight_max;
                config.limits.node_queue_max = old.limits.node_queue_max;
                let config = Arc::new(config);
                self.common.settings.store(config.clone());
                self.common.features.lwt_turns.adopt(&config.aggregation);
                self.tell(&WorkerMessage::Settings(config));
            }
            5 => {
                let mut body = Vec::new();
                for text in ["SCHEMA_CHANGE", "CREATED", "TABLE", "ks", "t"] {
                    write::string(&mut body, text);
                }
                let (kind, body) = (EventKind::Schema, body.into());
                self.tell(&WorkerMessage::Event { kind, body });
            }
            6 => {
                let timetable = Timetable::new(self.now, Duration::ZERO, Duration::ZERO);
                for worker in &mut self.workers {
                    worker.engine.close_quiet_sessions(self.now, &timetable);
                }
            }
            _ => self.publish(),
        }
    }
}
