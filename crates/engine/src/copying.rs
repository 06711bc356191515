//! Writes to copies in sync on their way: what [`crate::execution::copied_write`] decides is done here.
//!
//! Answers are noted when they come, and judged when the clock has been read after them
//! ([`crate::output::Output::Judge`]).

use std::time::{Duration, Instant};

use helenus_layout::insync::Members;
use helenus_wire::{ErrorBody, Opcode, code, write};

use crate::copies::Eviction;
use crate::copy_requests::owners_now;
use crate::engine::Engine;
use crate::execution::Execution;
use crate::execution::copied_write::{Copied, CopiedWrite, End, RefusedBy, Steps, Waits};
use crate::execution::outcome::Step;
use crate::keys::{ClientRequestKey, CopiedWriteKey, NodeRequestKey};
use crate::node_request::{Form, NodeRequest, Owner, Prediction, Target};
use crate::output::Output;
use crate::statement::copy_rules::renamed_to_own;
use crate::tick::STILL_MAX;

/// The body of a RESULT that says that something is done.
const VOID: [u8; 4] = 1_i32.to_be_bytes();

/// Whether an error tells that the node has done nothing.
fn has_done_nothing(error: i32) -> bool {
    matches!(
        error,
        code::UNAVAILABLE
            | code::OVERLOADED
            | code::IS_BOOTSTRAPPING
            | code::PROTOCOL
            | code::SYNTAX
            | code::UNAUTHORIZED
            | code::INVALID
            | code::CONFIG
            | code::UNPREPARED
    )
}

impl Engine {
    /// A client request begins that is a write to copies; `false` if it is something else.
    pub(crate) fn begin_copied(&mut self, client: ClientRequestKey) -> bool {
        let request = self.requests.clients.get(client);
        if !request.is_some_and(|request| matches!(request.execution, Execution::Copied(_))) {
            return false;
        }
        let until = self.cx.now + self.copies_limit();
        let Some(request) = self.requests.clients.get_mut(client) else {
            return false;
        };
        let Execution::Copied(copied) = &mut request.execution else {
            return false;
        };
        let key = match std::mem::replace(copied, Copied::Waits(CopiedWriteKey::default())) {
            Copied::Waits(key) => {
                *copied = Copied::Waits(key);
                return true;
            }
            Copied::Begins(mut write) => {
                write.waits = Some(Waits { client, until });
                let (bucket, change) = write.member().begin(write.token);
                write.note_begun(bucket);
                if let Some(change) = change {
                    let member = write.member().clone();
                    self.cx.ask(Output::Intent(member, change));
                }
                let key = self.copied.insert(*write);
                *copied = Copied::Waits(key);
                key
            }
        };
        self.advance_copied(key);
        true
    }

    /// How long a client waits for the copies, as a coordinator would wait for replicas.
    fn copies_limit(&self) -> Duration {
        let of_nodes = self.cx.snapshot.nodes.iter();
        let of_nodes = of_nodes.map(|node| node.timeouts.unwrap_or_default().of_write());
        let limit = self.cx.shared.config.request_timeout();
        limit.or_else(|| of_nodes.max()).unwrap_or_default()
    }

    /// Other lists are in force, or an intent is recorded, or some time has passed.
    pub(crate) fn look_at_copies(&mut self) {
        self.copied.take_touched();
        for key in self.copied.keys() {
            self.advance_copied(key);
        }
    }

    /// What has been answered is judged.
    pub(crate) fn judge_touched(&mut self) {
        for key in self.copied.take_touched() {
            self.advance_copied(key);
        }
    }

    /// Goes on with all writes, and tells clients that have waited for too long. Once a tick.
    pub(crate) fn expire_copied(&mut self) {
        self.look_at_copies();
        for key in self.copied.late(self.cx.now) {
            let Some(write) = self.copied.get_mut(key) else {
                continue;
            };
            if write.is_unsent() {
                self.end_copied(key, End::Unsent);
                continue;
            }
            let waits = write.waits.take();
            let text = "the write timed out, and goes on until all copies that are listed have it";
            self.tell_timed_out(key, waits, text);
            // Nobody is left to be told if too few copies have it.
            self.advance_copied(key);
        }
    }

    fn advance_copied(&mut self, key: CopiedWriteKey) {
        // Whoever has renewed the lease has stored the snapshot before.
        let until = self.cx.shared.layouts.until(self.cx.now);
        if self.cx.shared.is_newer_than(&self.cx.snapshot) {
            self.adopt_snapshot();
        }
        let now_us = self.cx.shared.copies.us(self.cx.now);
        let lists = self.cx.shared.copies.lists();
        let Some(write) = self.copied.get_mut(key) else {
            return;
        };
        let (keyspace, table) = (&write.table.keyspace, &write.table.name);
        let known = self.cx.snapshot.layouts.replaced(keyspace, table);
        let is_as_it_was = known.is_some_and(|known| known.copies == write.table.copies);
        let owners = owners_now(&self.cx.snapshot, &write.table, write.token);
        // A list is found by owners, and is another one where others own the partition.
        let steps = match owners.eq(write.owners.iter().map(|owner| Ok(*owner))) {
            true => write.advance(&lists, is_as_it_was && until.is_some(), now_us),
            false => Steps {
                end: Some(End::Abandoned),
                ..Steps::default()
            },
        };
        if let Some(view) = write.view(&lists)
            && let Some(until) = until
        {
            let until = until.min(self.cx.shared.copies.instant(view.lease_until_us()));
            self.send_to_copies(key, steps.send, until);
        }
        if let Some(copy) = steps.evict.filter(|_| self.has_heard_lately()) {
            self.ask_to_evict(key, copy, now_us);
        }
        if let Some(end) = steps.end {
            self.end_copied(key, end);
        }
    }

    /// A worker that has stood still says of no copy that it was silent.
    fn has_heard_lately(&self) -> bool {
        let since = self.cx.now.saturating_duration_since(self.ticked);
        !self.stood_still && since <= STILL_MAX
    }

    fn send_to_copies(&mut self, key: CopiedWriteKey, copies: Members, until: Instant) {
        for copy in copies.iter() {
            let Some(write) = self.copied.get_mut(key) else {
                return;
            };
            let Some((query, node)) = write.sent.query(copy, until).zip(write.owners.get(copy))
            else {
                continue;
            };
            let target = Target::Only {
                node: *node,
                is_tried: false,
            };
            let (owner, form) = (Owner::Copy(key, copy), Form::Other(Box::new(query)));
            let sent = NodeRequest::new(owner, form, Prediction::Learned, target, self.cx.now);
            let sent = self.requests.nodes.insert(&self.cx.memory, sent);
            write.note_sent(copy, sent);
            self.route(sent);
        }
    }

    fn ask_to_evict(&mut self, key: CopiedWriteKey, copy: usize, now_us: u64) {
        let lists = self.cx.shared.copies.lists();
        let Some(write) = self.copied.get(key) else {
            return;
        };
        let list = write
            .view(&lists)
            .and_then(|view| view.copies.last_read().copied());
        let Some(list) = list else {
            return;
        };
        let eviction = Eviction {
            keyspace: write.table.keyspace.clone(),
            table: write.table.name.clone(),
            owners: write.owners.clone(),
            copy,
            version: list.version(),
        };
        if self.copied.is_eviction_due(&eviction, now_us) {
            self.cx.ask(Output::Evict(eviction));
        }
    }

    /// A node has answered to a write of its copy. `boot`: which start of it.
    pub(crate) fn on_copy_response(
        &mut self,
        key: NodeRequestKey,
        boot: Option<u32>,
        opcode: Opcode,
        content: &[u8],
    ) {
        if opcode == Opcode::Error
            && let Ok(error) = ErrorBody::parse(content)
        {
            return self.on_copy_failed(key, &error);
        }
        let Some((write, copy)) = self.take_copy(key) else {
            return;
        };
        let now_us = self.cx.shared.copies.us(self.cx.now);
        if let Some(of) = self.copied.get_mut(write) {
            match boot.filter(|_| opcode == Opcode::Result) {
                Some(boot) => of.on_acked(copy, key, boot, now_us),
                // It may have the write, but who knows for how long.
                None => of.on_failed(copy, key, None, now_us),
            }
        }
        self.touch_copied(write);
    }

    /// A write of a copy has come to nothing, or nobody knows what became of it.
    pub(crate) fn on_copy_failed(&mut self, key: NodeRequestKey, error: &ErrorBody<'_>) {
        let Some((write, copy)) = self.take_copy(key) else {
            return;
        };
        let now_us = self.cx.shared.copies.us(self.cx.now);
        if let Some(of) = self.copied.get_mut(write) {
            if error.code == code::UNPREPARED {
                of.sent.forget_prepared(copy);
            }
            let why = has_done_nothing(error.code).then(|| refused_by(of, error));
            of.on_failed(copy, key, why, now_us);
        }
        self.touch_copied(write);
    }

    /// The write and the copy that a node request was for, which has ended.
    fn take_copy(&mut self, key: NodeRequestKey) -> Option<(CopiedWriteKey, usize)> {
        let request = self.requests.nodes.get(key)?;
        let Owner::Copy(write, copy) = request.owner else {
            return None;
        };
        self.drop_node_request(key);
        Some((write, copy))
    }

    fn touch_copied(&mut self, write: CopiedWriteKey) {
        if self.copied.get(write).is_some() && self.copied.touch(write) {
            self.cx.ask(Output::Judge);
        }
    }

    fn end_copied(&mut self, key: CopiedWriteKey, end: End) {
        let Some(mut write) = self.copied.remove(key) else {
            return;
        };
        write.end(end, self.cx.shared.copies.us(self.cx.now));
        // What is in flight comes back to nobody, what waits is not sent.
        for sent in write.flying() {
            let request = self.requests.nodes.get(sent);
            if request.is_some_and(|request| request.flight().is_none()) {
                self.drop_node_request(sent);
            }
        }
        let Some(Waits { client, .. }) = write.waits.take() else {
            return;
        };
        match (end, write.take_refused()) {
            (End::Complete, _) => {
                let done = Step::Done {
                    header_flags: 0,
                    body: VOID.to_vec().into(),
                };
                self.take_step(client, done, None);
            }
            (End::Refused, Some(why)) => {
                self.fail_client(client, why.code, &why.text, &why.fields);
            }
            (End::Unsent, _) => {
                let text = "nothing was written: the intent to write could not be recorded in the catalogue \
                            in time, or the lists of copies and proxies could not be read";
                let text = told_of(&write, text);
                self.fail_client(client, code::OVERLOADED, &text, &[]);
            }
            (End::Refused | End::Abandoned, _) => {
                let text = "this proxy left the list of proxies, or other nodes own the partition, while the \
                            write was under way: whether it takes effect is not known";
                let (code, fields) = timed_out(&write, 0);
                let text = told_of(&write, text);
                self.fail_client(client, code, &text, &fields);
            }
        }
    }

    fn tell_timed_out(&mut self, key: CopiedWriteKey, waits: Option<Waits>, text: &str) {
        let lists = self.cx.shared.copies.lists();
        let now_us = self.cx.shared.copies.us(self.cx.now);
        let (Some(write), Some(waits)) = (self.copied.get(key), waits) else {
            return;
        };
        let (code, fields) = timed_out(write, write.received(&lists, now_us));
        let text = told_of(write, text);
        self.fail_client(waits.client, code, &text, &fields);
    }
}

fn told_of(write: &CopiedWrite, text: &str) -> String {
    let (keyspace, table) = (&write.table.keyspace, &write.table.name);
    format!("Helenus: {keyspace}.{table}: {text}")
}

/// What a copy has said, as its client is to hear it.
fn refused_by(write: &CopiedWrite, error: &ErrorBody<'_>) -> RefusedBy {
    let fields = match error.code {
        code::UNAVAILABLE => {
            let mut fields = Vec::with_capacity(10);
            write::u16(&mut fields, write.level.0);
            write::i32(&mut fields, write.needed as i32);
            write::i32(&mut fields, 0);
            fields
        }
        _ => error.fields.to_vec(),
    };
    RefusedBy {
        code: error.code,
        text: renamed_to_own(&write.table, error.message),
        fields,
    }
}

/// The code and fields of a write that so many copies have.
fn timed_out(write: &CopiedWrite, received: usize) -> (i32, Vec<u8>) {
    let mut fields = Vec::with_capacity(18);
    write::u16(&mut fields, write.level.0);
    // All that the level asks for may have it, while others are still required.
    write::i32(
        &mut fields,
        received.min(write.needed.saturating_sub(1)) as i32,
    );
    write::i32(&mut fields, write.needed as i32);
    write::string(&mut fields, "SIMPLE");
    (code::WRITE_TIMEOUT, fields)
}
