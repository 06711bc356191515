//! What clients are answered, and whether it may be so.

use helenus_wire::{Header, Version, code};

use super::causes::QUEUE_FULL;
use super::{Event, World};
use crate::chaos::checks::Span;
use crate::chaos::client::{Answer, Copied, InFlight, Purpose, WRONG_COLUMNS, is_ambiguous};
use crate::chaos::coverage::Check;
use crate::chaos::cql;
use crate::chaos::proxy::At;
use crate::chaos::wide::texts;

/// Replicas that are missing while a ring changes are waited for so long. Several of them, one after the other, may be taken
/// for dead for longer.
const MISSED_US: u64 = 5_000_000;

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
        if let (Some(text), Some(known)) = (request.text, &request.skipped) {
            let columns = cql::columns(text, self.cluster.schema).len();
            let could_fail = known.len() != columns;
            self.checked(Check::Columns, could_fail);
        }
        let of = &mut self.clients[client];
        match of.read(&request, header, body) {
            Ok(answer) => {
                if let (Purpose::Prepare(text), Answer::Prepared) = (&request.purpose, &answer) {
                    self.note_prepared(client, at, text);
                }
                self.note(|| format!("client {client} {:?}: {answer:?}", request.purpose));
                if is_carried_out(&request.purpose, &answer) {
                    self.judge_lease(at, request.begun_us, &request.purpose);
                }
                self.judge(client, at, request, answer);
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

    fn judge(&mut self, number: usize, at: At, request: InFlight, answer: Answer) {
        let label = match &answer {
            Answer::Error(code, _) => format!("{} error {code:#06x}", name(&request.purpose)),
            _ => name(&request.purpose).to_owned(),
        };
        let is_login = matches!(request.purpose, Purpose::Startup | Purpose::Login);
        // A queue for two is nearly always full while a node stands still.
        let is_full = matches!(&answer, Answer::Error(_, text) if text.contains(QUEUE_FULL));
        if !is_login && !is_full && !self.is_paced(number) {
            self.answered.0 += 1;
            self.answered.1 += u64::from(is_refused(&answer));
        }
        self.take_in(number, &request, &answer);
        self.note_heard(at, &request, &answer);
        self.judge_recovered(number, at, &request, &answer);
        let is_error = matches!(answer, Answer::Error(..));
        self.note_fared(number, &request, is_error);
        let of_rows = self.judge_row_error(at, &request, &answer);
        let verdict = match &answer {
            Answer::Error(code, text) => {
                let verdict = self.judge_error(&request, *code, text);
                match of_rows {
                    Some(of_rows) => of_rows,
                    None => verdict.and(self.judge_cause(at, &request, *code, text)),
                }
            }
            Answer::Rows(rows, state) => self.judge_rows(number, &request, rows, state.as_deref()),
            _ => match &request.purpose {
                Purpose::RowWrite(write) if answer == Answer::Void => {
                    let span = Span::of(request.begun_us, self.now_us());
                    self.judge_row_write(at, write, span)
                }
                purpose => self.judge_plain(number, purpose, &answer),
            },
        };
        self.count(&label);
        if let Err(what) = verdict {
            self.violate(format!(
                "client {number}, {}: {what}",
                name(&request.purpose)
            ));
        }
        // Where nodes stay away for minutes, clients take their time.
        let is_soon = self.dice.below(2) == 0 && !self.stays_away();
        let is_next = is_soon || self.clients[number].asks_left.is_some();
        if self.clients[number].ready && is_next && !self.is_paced(number) {
            let soon = 2_000 * self.slowness();
            self.events.plan(self.dice.below(soon), Event::Act(number));
        }
    }

    /// What a client makes of an answer, whether it is right or not.
    fn take_in(&mut self, number: usize, request: &InFlight, answer: &Answer) {
        let now_us = self.now_us();
        let client = &mut self.clients[number];
        let mut unprepared = Vec::new();
        if matches!(answer, Answer::Error(code::UNPREPARED, _)) {
            unprepared.extend(request.text);
        }
        match &request.purpose {
            Purpose::Write(key, _) => _ = client.writing.remove(key),
            Purpose::RowWrite(write) => {
                write.partitions.iter().for_each(|partition| {
                    client.writing_rows.remove(partition);
                });
                // Of a batch.
                if unprepared.is_empty() && matches!(answer, Answer::Error(code::UNPREPARED, _)) {
                    unprepared.extend(texts::WRITES);
                }
            }
            Purpose::Batch(batch) => {
                batch.writes.iter().for_each(|(key, _)| {
                    client.writing.remove(key);
                });
                if matches!(answer, Answer::Error(code::UNPREPARED, _)) {
                    unprepared = vec![cql::WRITE, cql::ADD];
                }
            }
            _ => {}
        }
        // As drivers do.
        for text in unprepared {
            client.prepared.remove(text);
            client.prepare(now_us, text);
        }
    }

    fn judge_plain(
        &mut self,
        number: usize,
        purpose: &Purpose,
        answer: &Answer,
    ) -> Result<(), String> {
        let now_us = self.now_us();
        let texts = self.texts_on_login(purpose);
        let client = &mut self.clients[number];
        match (purpose, answer) {
            (Purpose::Login, Answer::Ready) if !client.may_enter => {
                return Err("a wrong password was accepted".to_owned());
            }
            (Purpose::Startup | Purpose::Login, Answer::Ready) => {
                client.ready = true;
                // Most applications prepare all that they use first.
                if self.dice.below(4) > 0 && client.asks_left.is_none() {
                    texts.iter().for_each(|text| client.prepare(now_us, text));
                }
                self.events.plan(self.dice.below(5_000), Event::Act(number));
            }
            (Purpose::Startup, Answer::Authenticate) => {
                let is_sure = client.asks_left.is_some() || self.aggression.is_some();
                let rightly = self.dice.below(20) > 0 || is_sure;
                client.log_in(now_us, rightly);
            }
            (Purpose::Prepare(_), Answer::Prepared) => {}
            (Purpose::Use | Purpose::Alter, Answer::Void) => {}
            (Purpose::Write(key, value), Answer::Void) => {
                self.registers.acknowledge(*key, *value, now_us);
            }
            (Purpose::Add(id), Answer::Void) => self.cluster.once.acknowledge(*id),
            (Purpose::List(change), Answer::Void) => self.cluster.once.acknowledge(change.id),
            (Purpose::Batch(batch), Answer::Void) => {
                for (key, value) in &batch.writes {
                    self.registers.acknowledge(*key, *value, now_us);
                }
                for id in &batch.adds {
                    self.cluster.once.acknowledge(*id);
                }
            }
            (purpose, answer) => return Err(format!("{purpose:?} is answered with {answer:?}")),
        }
        Ok(())
    }

    /// What a client prepares when it has logged in.
    fn texts_on_login(&self, purpose: &Purpose) -> Vec<&'static str> {
        match purpose {
            Purpose::Startup | Purpose::Login => self.texts(),
            _ => Vec::new(),
        }
    }

    /// Notes what must not have been executed by what its client is told.
    fn judge_error(&mut self, request: &InFlight, code: i32, text: &str) -> Result<(), String> {
        let purpose = &request.purpose;
        if !is_ambiguous(code) {
            match purpose {
                Purpose::Add(id) | Purpose::Cas(_, id, _) => self.refused.push(*id),
                Purpose::Write(_, value) => self.refused.push(*value),
                Purpose::List(change) => self.refused.push(change.id),
                Purpose::RowWrite(write) => {
                    let ids = write.partitions.iter().map(|of| (*of, write.timestamp));
                    self.refused_rows.extend(ids);
                }
                Purpose::Batch(batch) => {
                    let values = batch.writes.iter().map(|(_, value)| value);
                    self.refused.extend(values.chain(&batch.adds));
                }
                _ => {}
            }
        }
        let adds_up = match purpose {
            Purpose::Add(_) | Purpose::Cas(..) | Purpose::List(_) => true,
            Purpose::Batch(batch) => !batch.adds.is_empty(),
            _ => false,
        };
        if adds_up {
            self.checked(Check::Once, is_ambiguous(code));
        }
        if code == code::UNAVAILABLE
            && self.only_grows()
            && is_repeatable(purpose)
            && self.now_us() < request.begun_us + MISSED_US
            && !text.starts_with("Helenus: no Cassandra node")
        {
            return Err(format!("fails because a ring changes: {text}"));
        }
        let is_plain = matches!(
            purpose,
            Purpose::Write(..)
                | Purpose::Add(_)
                | Purpose::Cas(..)
                | Purpose::ReadCas(_)
                | Purpose::List(_)
                | Purpose::ReadList(_)
                | Purpose::Batch(_)
        );
        if is_plain && text.contains("catalogue could not be read") {
            return Err(format!("its tables have no layouts: {text}"));
        }
        match (purpose, code) {
            // The connection ends behind the first; nobody knows the outcome of the others.
            (Purpose::Login | Purpose::Use | Purpose::Alter, _) => Ok(()),
            (Purpose::Add(_) | Purpose::Cas(..), _) => Ok(()),
            (Purpose::RowWrite(write), _) if write.copied == Copied::Definition => Ok(()),
            // A node has said nothing to a PREPARE, the client's or one that its request waited for.
            _ if text.contains(" within ") => Ok(()),
            (_, code::SERVER | code::PROTOCOL) => Err(text.to_owned()),
            (_, code::INVALID) => Err(format!("the model does not know: {text}")),
            _ => Ok(()),
        }
    }
}

/// Whether it does no harm if it is sent again.
fn is_repeatable(purpose: &Purpose) -> bool {
    matches!(
        purpose,
        Purpose::Read(_) | Purpose::Write(..) | Purpose::Scan(..) | Purpose::Many(_)
    )
}

/// Whether a proxy has refused to do what it was asked for now.
fn is_refused(answer: &Answer) -> bool {
    let of_settings = ["rule ", "catalogue", "layouts", "no node has told"];
    let Answer::Error(code::OVERLOADED, text) = answer else {
        return false;
    };
    text.starts_with("Helenus: ") && !of_settings.iter().any(|what| text.contains(what))
}

/// Whether a write was carried out.
fn is_carried_out(purpose: &Purpose, answer: &Answer) -> bool {
    let writes = match purpose {
        Purpose::Write(..) | Purpose::Add(_) | Purpose::Batch(_) | Purpose::List(_) => true,
        Purpose::RowWrite(write) if write.condition.is_some() => {
            return matches!(answer, Answer::Rows(..));
        }
        Purpose::RowWrite(write) => write.copied != Copied::Definition,
        Purpose::Cas(..) => return matches!(answer, Answer::Rows(..)),
        _ => false,
    };
    writes && *answer == Answer::Void
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
        Purpose::List(_) => "write of a list",
        Purpose::ReadList(_) => "read of a list",
        Purpose::Scan(..) => "page",
        Purpose::Count => "count",
        Purpose::Many(_) => "many keys",
        Purpose::Who => "who",
        Purpose::Batch(_) => "batch",
        Purpose::Rows(_) => "rows",
        Purpose::RowWrite(_) => "write of rows",
    }
}
