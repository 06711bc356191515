//! The ends of connections at proxies.

use helenus_engine::output::LinkEnd;
use helenus_engine::session::connection::Next;
use helenus_engine::{LinkKey, SessionKey};

use super::network::{End, Peer};
use super::{Event, World};
use crate::chaos::proxy::At;

impl World {
    pub(super) fn read_at_proxy(&mut self, number: usize) {
        if !self.connections[number].proxy_has {
            return;
        }
        let at = self.connections[number].at;
        match self.connections[number].peer {
            Peer::Client(_, key) => self.read_client(number, at, key),
            Peer::Node(ref end) => {
                let link = end.link;
                self.read_link(number, at, link);
            }
        }
        self.after(at);
    }

    fn read_client(&mut self, number: usize, at: At, key: SessionKey) {
        let now = self.now();
        let now_us = self.now_us();
        if self.worker(at).engine.is_client_blocked(key) {
            self.write_client(at, key);
        }
        loop {
            let worker = &mut self.proxies[at.proxy].workers[at.worker];
            let connection = &mut self.connections[number];
            match worker.engine.next_for_client(now, key) {
                None | Some(Next::Close) => return self.close_client(number, at, key),
                Some(Next::Wait) => return,
                Some(Next::ShutDown) => {
                    worker.engine.on_client_shut_down(now, key);
                    connection.drained_us = worker.timetable.map(|_| now_us);
                    let at_us = connection.to_peer.arrival(now_us, &mut self.dice);
                    self.events
                        .plan(at_us - now_us, Event::Closed(number, End::Peer));
                }
                Some(Next::Linger) => {
                    while connection.to_proxy.take(now_us).is_some() {}
                    if connection.ended.is_none() {
                        return;
                    }
                    return self.close_client(number, at, key);
                }
                Some(Next::Read { leaving }) => match connection.to_proxy.take(now_us) {
                    Some(bytes) => worker.engine.on_client_bytes(now, key, &bytes),
                    None => match connection.ended {
                        Some(broken) => worker.engine.on_client_end(now, key, broken),
                        None if leaving => worker.engine.finish(now, key),
                        None => return,
                    },
                },
            }
        }
    }

    pub(super) fn close_client(&mut self, number: usize, at: At, key: SessionKey) {
        let now = self.now();
        let worker = self.worker(at);
        worker.clients.remove(key);
        worker.engine.close_session(now, key);
        self.leave(number, End::Proxy);
    }

    fn read_link(&mut self, number: usize, at: At, link: LinkKey) {
        let (now, now_us) = (self.now(), self.now_us());
        if self.worker(at).engine.is_link_blocked(link) {
            self.write_link(at, link);
        }
        loop {
            let worker = &mut self.proxies[at.proxy].workers[at.worker];
            if !worker.engine.is_link_open(link) {
                worker.links.remove(link);
                return self.leave(number, End::Proxy);
            }
            let connection = &mut self.connections[number];
            match connection.to_proxy.take(now_us) {
                Some(bytes) => worker.engine.on_link_bytes(now, link, &bytes),
                None if connection.ended.is_some() => {
                    self.causes.note_lost(now_us, at.proxy);
                    let why = (LinkEnd::ByNode, "reset, says the model");
                    worker.engine.on_link_closed(now, link, why, None);
                }
                None => return,
            }
        }
    }

    pub(super) fn end_at_proxy(&mut self, number: usize) {
        let connection = &mut self.connections[number];
        connection.ended.get_or_insert(connection.broken);
        self.read_at_proxy(number);
    }
}
