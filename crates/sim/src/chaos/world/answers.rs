//! What clients are answered, and whether it may be so.

use helenus_wire::{Header, PageStart, Version, code};

use super::clients::page_size;
use super::{Event, World};
use crate::chaos::cassandra::NOT_PREPARED;
use crate::chaos::client::{
    Answer, InFlight, Purpose, TEXTS, WRONG_COLUMNS, is_ambiguous, role_name,
};
use crate::chaos::cql;
use crate::chaos::proxy::At;

impl World {
    pub(super) fn feed_client(&mut self, client: usize, number: usize, bytes: &[u8]) {
        let got = match self.clients[client].feed(bytes) {
            Ok(got) => got,
            Err(e) => return self.violate(format!("client {client} gets what is no frame: {e}")),
        };
        for (header, body) in got {
            self.answer(client, number, &header, &body);
        }
        self.write_of_client(client);
    }

    pub(super) fn answer(&mut self, client: usize, number: usize, header: &Header, body: &[u8]) {
        let of = &mut self.clients[client];
        if of.connection != Some(number) {
            return;
        }
        let Some(request) = of.in_flight.remove(&header.stream) else {
            let what = format!(
                "client {client} gets an answer on stream {} that it has not asked on",
                header.stream
            );
            return self.violate(what);
        };
        if header.version != of.version as u8 || !header.response {
            return self.violate(format!("client {client} gets {header:?}"));
        }
        let at = self.connections[number].at;
        self.judge_wait(client, at, &request);
        let of = &mut self.clients[client];
        match of.read(&request, header, body) {
            Ok(answer) => {
                if let (Purpose::Prepare(text), Answer::Prepared) = (&request.purpose, &answer) {
                    self.note_prepared(client, at, text);
                }
                self.note(|| format!("client {client} {:?}: {answer:?}", request.purpose));
                self.judge(client, request, answer);
            }
            Err(e) if e.starts_with(WRONG_COLUMNS) && self.may_miss_columns(at, &request) => {
                self.count("wrong columns, as nodes of v4 give them");
            }
            Err(e) => self.violate(format!("client {client}, {:?}: {e}", request.purpose)),
        }
    }

    /// In v4 nothing tells a client that a result has other columns than when it was prepared, if the node
    /// has been told to prepare it anew by somebody else. A proxy knows as soon as it has seen both.
    fn may_miss_columns(&self, at: At, request: &InFlight) -> bool {
        let (Some(text), Some(known)) = (request.text, &request.skipped) else {
            return false;
        };
        let mut told = self
            .told
            .iter()
            .filter(|((proxy, of, _), _)| (*proxy, *of) == (at.proxy, text));
        let knows = told.any(|((_, _, columns), told_us)| {
            *columns != known.len() && *told_us < request.begun_us
        });
        self.version < Version::V5 && !knows
    }

    /// A proxy has passed on what a node has said of a statement.
    fn note_prepared(&mut self, client: usize, at: At, text: &'static str) {
        if let Some(columns) = self.clients[client].columns_known(text) {
            let now_us = self.now_us();
            self.told.entry((at.proxy, text, columns)).or_insert(now_us);
        }
    }

    pub(super) fn judge(&mut self, number: usize, request: InFlight, answer: Answer) {
        let now_us = self.now_us();
        let span = (request.begun_us, now_us);
        let client = &mut self.clients[number];
        let label = match &answer {
            Answer::Error(code, _) => format!("{} error {code:#06x}", name(&request.purpose)),
            _ => name(&request.purpose).to_owned(),
        };
        let int = |cell: &[u8]| i64::from_be_bytes(cell.try_into().unwrap_or([0xEE; 8]));
        if let (Some(text), Answer::Error(code::UNPREPARED, _)) = (request.text, &answer) {
            // As drivers do.
            client.prepared.remove(text);
            client.prepare(now_us, text);
        }
        if let Purpose::Write(key, _) = request.purpose {
            client.writing.remove(&key);
        }
        if let Purpose::Batch(batch) = &request.purpose {
            batch.writes.iter().for_each(|(key, _)| {
                client.writing.remove(key);
            });
            if matches!(answer, Answer::Error(code::UNPREPARED, _)) {
                for text in [cql::WRITE, cql::ADD] {
                    client.prepared.remove(text);
                    client.prepare(now_us, text);
                }
            }
        }
        if let (Purpose::Write(_, value), Answer::Error(code, _)) = (&request.purpose, &answer)
            && !is_ambiguous(*code)
            && !is_passed_on(&answer)
        {
            self.refused.push(*value);
        }
        let verdict = match (&request.purpose, &answer) {
            (Purpose::Login, Answer::Ready) if !client.may_enter => {
                Err("a wrong password was accepted".to_owned())
            }
            (Purpose::Startup, Answer::Ready) | (Purpose::Login, Answer::Ready) => {
                client.ready = true;
                // Most applications prepare all that they use first.
                if self.dice.below(4) > 0 {
                    TEXTS.iter().for_each(|text| client.prepare(now_us, text));
                }
                self.events.plan(self.dice.below(5_000), Event::Act(number));
                Ok(())
            }
            (Purpose::Startup, Answer::Authenticate) => {
                client.log_in(now_us, self.dice.below(20) > 0);
                Ok(())
            }
            // The connection ends behind it.
            (Purpose::Login, Answer::Error(..)) => Ok(()),
            (Purpose::Prepare(_), Answer::Prepared) => Ok(()),
            (Purpose::Add(id) | Purpose::Cas(_, id, _), Answer::Error(code, _)) => {
                if !is_ambiguous(*code) {
                    self.refused.push(*id);
                }
                Ok(())
            }
            (Purpose::Batch(batch), Answer::Error(code, text)) => {
                if !is_ambiguous(*code) && !is_passed_on(&answer) {
                    let values = batch.writes.iter().map(|(_, value)| value);
                    self.refused.extend(values.chain(&batch.adds));
                }
                match *code {
                    code::INVALID | code::PROTOCOL => Err(text.clone()),
                    _ => Ok(()),
                }
            }
            (Purpose::Batch(batch), Answer::Void) => {
                for (key, value) in &batch.writes {
                    self.registers.acknowledge(*key, *value, now_us);
                }
                for id in &batch.adds {
                    self.cluster.once.acknowledge(*id);
                }
                Ok(())
            }
            (Purpose::Use, _) | (Purpose::Alter, Answer::Void | Answer::Error(..)) => Ok(()),
            // A node has said nothing to a PREPARE, the client's or one that its request waited for.
            (_, Answer::Error(_, text)) if text.contains(" within ") => Ok(()),
            (_, Answer::Error(code, text)) => match *code {
                helenus_wire::code::SERVER | helenus_wire::code::PROTOCOL => Err(text.clone()),
                helenus_wire::code::INVALID => Err(format!("the model does not know: {text}")),
                _ => Ok(()),
            },
            (Purpose::Write(key, value), Answer::Void) => {
                self.registers.acknowledge(*key, *value, now_us);
                Ok(())
            }
            (Purpose::Add(id), Answer::Void) => {
                self.cluster.once.acknowledge(*id);
                Ok(())
            }
            (Purpose::Cas(_, id, _), Answer::Rows(rows, _)) => {
                match rows.first().and_then(|row| row.first()).map(|cell| cell[0]) {
                    Some(1) => self.cluster.once.acknowledge(*id),
                    _ => self.refused.push(*id),
                }
                Ok(())
            }
            (Purpose::Read(key), Answer::Rows(rows, _)) => {
                let value = rows.first().map(|row| int(&row[0]));
                self.registers.judge(*key, value, span)
            }
            (Purpose::ReadCas(_), Answer::Rows(..)) => Ok(()),
            (Purpose::Many(keys), Answer::Rows(rows, _)) => {
                let found: Vec<i64> = rows.iter().map(|row| int(&row[0])).collect();
                let judged = rows.iter().try_for_each(|row| {
                    self.registers.judge(int(&row[0]), Some(int(&row[1])), span)
                });
                let mut wanted = keys.clone();
                // Their rows come in the order of the key's type.
                wanted.sort_unstable();
                wanted.dedup();
                match found == wanted {
                    true => judged,
                    false => Err(format!("keys {wanted:?} were asked for, {found:?} came")),
                }
            }
            (Purpose::Count, Answer::Rows(rows, _)) => {
                let counted = rows.first().map(|row| int(&row[0]));
                match counted == Some(self.keys) && rows.len() == 1 {
                    true => Ok(()),
                    false => Err(format!("{counted:?} rows were counted of {}", self.keys)),
                }
            }
            (Purpose::Who, Answer::Rows(rows, _)) => {
                let found = String::from_utf8_lossy(&rows[0][0]).into_owned();
                let wanted = match self.authenticated {
                    true => role_name(client.role),
                    false => "nobody".to_owned(),
                };
                match found == wanted {
                    true => Ok(()),
                    false => Err(format!("{wanted} sees an answer for {found}")),
                }
            }
            (Purpose::Scan(text, seen), Answer::Rows(rows, state)) => {
                self.judge_page(number, text, seen, rows, state.as_deref())
            }
            (purpose, answer) => Err(format!("{purpose:?} is answered with {answer:?}")),
        };
        self.count(&label);
        if let Err(what) = verdict {
            self.violate(format!(
                "client {number}, {}: {what}",
                name(&request.purpose)
            ));
        }
        if self.clients[number].ready && self.dice.below(2) == 0 {
            self.events.plan(self.dice.below(2_000), Event::Act(number));
        }
    }

    pub(super) fn judge_page(
        &mut self,
        number: usize,
        text: &'static str,
        seen: &std::collections::BTreeSet<i64>,
        rows: &[Vec<Vec<u8>>],
        state: Option<&[u8]>,
    ) -> Result<(), String> {
        let now_us = self.now_us();
        let int = |cell: &[u8]| i64::from_be_bytes(cell.try_into().unwrap_or([0xEE; 8]));
        let mut seen = seen.clone();
        for row in rows {
            let (key, value) = (int(&row[0]), int(&row[1]));
            if !seen.insert(key) {
                return Err(format!("key {key} comes twice"));
            }
            if !self.registers.is_of(key, value) {
                return Err(format!("key {key} has {value}, which nobody wrote to it"));
            }
        }
        let limit = cql::limit(text).unwrap_or(i32::MAX as u32);
        if let Some(state) = state {
            let left = PageStart::parse(state).map(|start| start.remaining);
            if left.ok() != limit.checked_sub(seen.len() as u32) {
                return Err(format!(
                    "{left:?} rows left of {limit} behind {}",
                    seen.len()
                ));
            }
            let size = page_size(&mut self.dice);
            let client = &mut self.clients[number];
            let purpose = Purpose::Scan(text, seen);
            client.statement(
                now_us,
                text,
                &[],
                (size, Some(state)),
                purpose,
                &mut self.dice,
            );
            return Ok(());
        }
        let wanted = self.keys.min(i64::from(limit));
        match seen.len() as i64 == wanted {
            true => Ok(()),
            false => Err(format!("a scan has {} of {wanted} keys", seen.len())),
        }
    }
}

/// Whether a node's error to the proxy's own PREPARE has become that of a client's write. The engine passes
/// it on as if nothing had been executed, although another node may have executed the write before: it
/// should then say that the outcome is unknown. Where it does, this is to return false.
fn is_passed_on(answer: &Answer) -> bool {
    matches!(answer, Answer::Error(_, text) if text == NOT_PREPARED)
}

pub(super) fn name(purpose: &Purpose) -> &'static str {
    match purpose {
        Purpose::Startup => "startup",
        Purpose::Login => "login",
        Purpose::Prepare(_) => "prepare",
        Purpose::Read(_) => "read",
        Purpose::Use => "use",
        Purpose::Alter => "alter",
        Purpose::Write(..) => "write",
        Purpose::Add(_) => "add",
        Purpose::Cas(..) => "conditional write",
        Purpose::ReadCas(_) => "read of a conditional",
        Purpose::Scan(..) => "page",
        Purpose::Count => "count",
        Purpose::Many(_) => "many keys",
        Purpose::Who => "who",
        Purpose::Batch(_) => "batch",
    }
}
