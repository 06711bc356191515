//! How writes to copies in sync end, and what their clients hear.

use helenus_wire::{ErrorBody, code, write};

use crate::copies::Lists;
use crate::engine::Engine;
use crate::execution::copied_write::{CopiedWrite, Waits};
use crate::execution::outcome::{Step, Told};
use crate::execution::write_ends::{End, Why};
use crate::keys::CopiedWriteKey;
use crate::node_request::NodeRequest;
use crate::output::Output;
use crate::statement::copy_rules::{renamed_to_own, unavailable};

/// The body of a RESULT that says that something is done.
const VOID: [u8; 4] = 1_i32.to_be_bytes();

const UNSENT: &str = "nothing was written: the intent to write could not be recorded in the catalogue in time, the \
                      lists of copies and proxies could not be read, the nodes could not be sent it, or this proxy or the \
                      partition's nodes have changed; try again";
const LEFT: &str = "this proxy left the list of proxies while the write was under way: whether it takes effect is \
                    not known";
const MOVED: &str = "other nodes own the partition by now, or the table's copies are others: whether the write \
                     takes effect is not known";
const REFUSED: &str = "other copies may have the write, and whether it takes effect is not known";
const NO_ROLE: &str = "the role that has sent the write may not log in any more: whether it takes effect is not \
                       known";
const UNPREPARABLE: &str = "the nodes do not prepare what a statement of the batch is on a copy (does it name columns that \
                            its table lacks?), and with texts in place of ids the batch is larger than \
                            limits.request_bytes_max: send smaller ones";
const TIMED_OUT: &str = "the write timed out, and goes on until all copies that are listed have it";

impl Engine {
    pub(crate) fn end_copied(&mut self, key: CopiedWriteKey, end: End) {
        let Some(mut write) = self.copied.remove(key) else {
            return;
        };
        let nodes = &self.requests.nodes;
        let may_have_left = |sent| nodes.get(sent).is_some_and(NodeRequest::may_have_left);
        let end = match end {
            End::GivenUp(_) | End::Left if !write.may_be_written(may_have_left) => End::Unsent,
            end => end,
        };
        let bucket = write.end(end, self.cx.shared.copies.us(self.cx.now));
        if let Some(bucket) = bucket {
            let member = write.member().clone();
            self.cx.ask(Output::Resync(member, bucket));
        }
        // What is in flight comes back to nobody, what waits is not sent.
        for sent in write.flying() {
            let request = self.requests.nodes.get(sent);
            if request.is_some_and(|request| request.flight().is_none()) {
                self.drop_node_request(sent);
            }
        }
        if let Some(Waits { client, .. }) = write.waits.take() {
            if end == End::Complete {
                let done = Step::Done {
                    header_flags: 0,
                    body: VOID.to_vec().into(),
                };
                return self.take_step(client, done, None);
            }
            let Told {
                code, text, fields, ..
            } = told_at_end(&mut write, end);
            self.fail_client(client, code, &text, &fields);
        }
    }

    /// A client hears that it has waited for too long. Its write goes on.
    pub(crate) fn tell_timed_out(&mut self, key: CopiedWriteKey, lists: &Lists) {
        let now_us = self.cx.shared.copies.us(self.cx.now);
        let Some(write) = self.copied.get_mut(key) else {
            return;
        };
        let Some(waits) = write.waits.take() else {
            return;
        };
        let received = write.received(lists, now_us);
        let Told {
            code, text, fields, ..
        } = timed_out(write, received, TIMED_OUT);
        self.fail_client(waits.client, code, &text, &fields);
    }
}

/// What the client of a write hears that has not been completed.
fn told_at_end(write: &mut CopiedWrite, end: End) -> Told {
    let said = write.take_said();
    match (end, said) {
        (End::Refused | End::GivenUp(Why::Failing), Some(said)) => said,
        (End::GivenUp(Why::Refused), Some(said)) => Told {
            text: format!("{}; {REFUSED}", said.text),
            ..said
        },
        (End::Unsent, _) => Told {
            code: code::OVERLOADED,
            text: named(write, UNSENT),
            fields: Vec::new(),
            version: None,
        },
        (End::GivenUp(Why::Moved), _) => timed_out(write, 0, MOVED),
        (End::GivenUp(Why::NoRole), _) => timed_out(write, 0, NO_ROLE),
        (End::Left, _) => timed_out(write, 0, LEFT),
        // Nobody waits any more for one that is old, and of the others something was said.
        (
            End::GivenUp(Why::Old | Why::Failing | Why::Refused) | End::Refused | End::Complete,
            _,
        ) => timed_out(write, 0, TIMED_OUT),
    }
}

fn named(write: &CopiedWrite, text: &str) -> String {
    let (keyspace, table) = (&write.table.keyspace, &write.table.name);
    format!("Helenus: {keyspace}.{table}: {text}")
}

/// What a copy has said, as its client is to hear it.
pub(crate) fn told(write: &CopiedWrite, error: &ErrorBody<'_>) -> Told {
    Told {
        code: error.code,
        text: renamed_to_own(&write.table, error.message),
        fields: fields_of(write, error),
        version: None,
    }
}

/// What is said of the table itself, by which replicas were counted.
pub(crate) fn told_of_table(write: &CopiedWrite, error: &ErrorBody<'_>) -> Told {
    let mut fields = error.fields.to_vec();
    let has_level = matches!(
        error.code,
        code::UNAVAILABLE | code::WRITE_TIMEOUT | code::WRITE_FAILURE
    );
    if has_level && let Some(level) = fields.get_mut(..2) {
        level.copy_from_slice(&write.level.0.to_be_bytes());
    }
    Told {
        code: error.code,
        text: error.message.to_owned(),
        fields,
        version: None,
    }
}

/// Nodes refuse to prepare what the statements are on a copy, whose texts are too long to be sent.
pub(crate) fn unpreparable(write: &CopiedWrite) -> Told {
    Told {
        code: code::INVALID,
        text: named(write, UNPREPARABLE),
        fields: Vec::new(),
        version: None,
    }
}

/// The fields of an error with the level that the client has asked for, and not that of its copy.
fn fields_of(write: &CopiedWrite, error: &ErrorBody<'_>) -> Vec<u8> {
    let mut fields = Vec::with_capacity(error.fields.len());
    write::u16(&mut fields, write.level.0);
    match error.code {
        code::UNAVAILABLE => return unavailable(write.level, write.needed, 0),
        code::WRITE_TIMEOUT | code::WRITE_FAILURE if error.fields.len() >= LEVEL_AND_COUNTS => {
            write::i32(&mut fields, 0);
            write::i32(&mut fields, write.needed as i32);
            fields.extend_from_slice(&error.fields[LEVEL_AND_COUNTS..]);
        }
        _ => return error.fields.to_vec(),
    }
    fields
}

/// Bytes of a level, and of how many replicas have answered and were asked for.
const LEVEL_AND_COUNTS: usize = 2 + 4 + 4;

/// The error of a write that so many copies have.
fn timed_out(write: &CopiedWrite, received: usize, text: &str) -> Told {
    let mut fields = Vec::with_capacity(18);
    write::u16(&mut fields, write.level.0);
    // All that the level asks for may have it, while others are still required.
    let received = received.min(write.needed.saturating_sub(1));
    write::i32(&mut fields, received as i32);
    write::i32(&mut fields, write.needed as i32);
    write::string(&mut fields, "SIMPLE");
    Told {
        code: code::WRITE_TIMEOUT,
        text: named(write, text),
        fields,
        version: None,
    }
}
