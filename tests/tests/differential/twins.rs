//! The two connections of a lane, in one dialect, and the comparison of what they answer.

use std::sync::Mutex;

use anyhow::{Result, bail};
use helenus_wire::{Version, code, flags};

use crate::client::{Answer, Client};
use crate::compare::{Seen, see};
use crate::generator::{Op, What, plain};
use crate::request::{PAYLOAD, Side};
use crate::testbed::Testbed;

const PAGES_MAX: usize = 30;
/// Stands for the opcode of an answer that never came.
const CLOSED: u8 = 0xff;

/// One schema change at a time: nodes that hear of several take seconds longer to agree.
static SCHEMA: Mutex<()> = Mutex::new(());

#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub operations: usize,
    pub answers: usize,
    pub rows: usize,
    pub errors: usize,
    pub warnings: usize,
    pub schema_changes: usize,
    pub pages: usize,
    pub prepared_again: usize,
    pub reconnects: usize,
    /// Requests that Cassandra itself gave up on, directly and through the proxy.
    pub timed_out: [usize; 2],
    /// Requests that were in flight beside others.
    pub crowds: usize,
    pub differences: Vec<String>,
}

impl Counts {
    pub(crate) fn add(&mut self, other: Counts) {
        self.operations += other.operations;
        self.answers += other.answers;
        self.rows += other.rows;
        self.errors += other.errors;
        self.warnings += other.warnings;
        self.schema_changes += other.schema_changes;
        self.pages += other.pages;
        self.prepared_again += other.prepared_again;
        self.reconnects += other.reconnects;
        for (all, more) in self.timed_out.iter_mut().zip(other.timed_out) {
            *all += more;
        }
        self.crowds += other.crowds;
        self.differences.extend(other.differences);
    }
}

/// Both connections of one dialect.
pub(crate) struct Twins<'a> {
    pub seed: u64,
    /// Print every operation.
    pub trace: bool,
    pub clients: [Client; 2],
    pub sides: [Side; 2],
    /// The prepared statements, in the order of the sides' ids.
    pub texts: Vec<What>,
    pub admin: &'a mut helenus_cluster::Connection,
    pub counts: &'a mut Counts,
}

impl Twins<'_> {
    /// Applies an operation to both sides and follows its pages; true if it prepared a statement.
    pub(crate) fn apply(&mut self, op: &Op) -> Result<bool> {
        let _turn = op.changes_schema().then(|| SCHEMA.lock());
        self.apply_at_once(op)
    }

    /// [`Self::apply`] without waiting for other lanes' schema changes.
    pub(crate) fn apply_at_once(&mut self, op: &Op) -> Result<bool> {
        self.counts.operations += 1;
        if self.trace {
            println!("TRACE {} {}", self.counts.operations, self.told(op));
        }
        let mut states: [Option<Vec<u8>>; 2] = [None, None];
        for page in 0..PAGES_MAX {
            let seen = [
                self.ask(0, op, states[0].as_deref())?,
                self.ask(1, op, states[1].as_deref())?,
            ];
            self.count(&seen[0]);
            if !seen[0].same(&seen[1]) || self.is_misread(op, &seen[1]) {
                self.report(op, page, &seen);
            }
            let broken = |s: &Seen| s.opcode == CLOSED || s.error == Some(code::PROTOCOL);
            if seen.iter().any(broken) {
                self.reconnect()?;
                return Ok(false);
            }
            if seen.iter().any(|s| s.schema_change) {
                self.counts.schema_changes += 1;
                Testbed::agree(self.admin)?;
            }
            let [direct, proxied] = seen;
            if let (Some(direct), Some(proxied)) = (direct.prepared, proxied.prepared) {
                self.sides[0].known.push(direct);
                self.sides[1].known.push(proxied);
                self.texts.push(op.what.clone());
                return Ok(true);
            }
            for (side, new) in self
                .sides
                .iter_mut()
                .zip([direct.metadata_id, proxied.metadata_id])
            {
                if let (Some(id), What::Execute(back, _)) = (new, &op.what) {
                    let at = side.at(*back);
                    side.known[at].metadata_id = id;
                }
            }
            states = [direct.paging_state, proxied.paging_state];
            if states.iter().any(|state| state.is_none()) {
                return Ok(false);
            }
            self.counts.pages += 1;
        }
        Ok(false)
    }

    /// One request on one side.
    fn ask(&mut self, at: usize, op: &Op, state: Option<&[u8]>) -> Result<Seen> {
        let version = self.sides[at].version;
        let mut header_flags = if op.tracing { flags::TRACING } else { 0 };
        let payload = op.payload && version >= Version::V4;
        if payload {
            header_flags |= flags::CUSTOM_PAYLOAD;
        }
        for _ in 0..3 {
            let (opcode, mut body) = self.sides[at].body(&op.what, state);
            if payload {
                body.splice(..0, PAYLOAD.iter().copied());
            }
            let answer = match self.clients[at].ask(opcode, header_flags, &body) {
                Ok(answer) => answer,
                Err(error) => {
                    println!("seed {}, side {at}: {error:#}", self.seed);
                    return Ok(Seen {
                        opcode: CLOSED,
                        ..Seen::default()
                    });
                }
            };
            let seen = see(
                &answer,
                version,
                &self.sides[1].keyspace,
                &self.sides[0].keyspace,
            )?;
            self.note_time_out(at, &answer, &seen);
            if seen.error != Some(code::UNPREPARED) {
                return Ok(seen);
            }
            if let Some(refused) = self.prepare_again(at, op)? {
                return Ok(refused);
            }
        }
        bail!("the node forgets what it prepares: {op:?}")
    }

    /// Counts it if Cassandra itself has given up; what the proxy gives up is a difference.
    pub(crate) fn note_time_out(&mut self, at: usize, answer: &Answer, seen: &Seen) {
        let late = [code::READ_TIMEOUT, code::WRITE_TIMEOUT];
        let own = answer.body.windows(8).any(|w| w == b"Helenus:");
        if seen.error.is_some_and(|code| late.contains(&code)) && !own {
            self.counts.timed_out[at] += 1;
        }
    }

    /// Prepares the statement again, as every driver does when it hears that it is not prepared: it learns the id
    /// and the columns anew. Returns the refusal if it cannot be prepared any more.
    fn prepare_again(&mut self, at: usize, op: &Op) -> Result<Option<Seen>> {
        self.counts.prepared_again += 1;
        for back in op.prepared() {
            let index = self.sides[at].at(back);
            let (opcode, body) = self.sides[at].body(&self.texts[index], None);
            let answer = self.clients[at].ask(opcode, 0, &body)?;
            let seen = see(
                &answer,
                self.sides[at].version,
                &self.sides[1].keyspace,
                &self.sides[0].keyspace,
            )?;
            match seen.prepared {
                Some(known) => self.sides[at].known[index] = known,
                None => return Ok(Some(seen)),
            }
        }
        Ok(None)
    }

    /// True if the client of the proxy takes rows that come without their columns for others.
    fn is_misread(&self, op: &Op, seen: &Seen) -> bool {
        let side = &self.sides[1];
        match op.what {
            What::Execute(back, _) if seen.no_metadata => {
                side.known[side.at(back)].columns != seen.columns
            }
            _ => false,
        }
    }

    fn count(&mut self, seen: &Seen) {
        self.counts.answers += 1;
        self.counts.errors += usize::from(seen.error.is_some());
        self.counts.warnings += usize::from(seen.warned);
        self.counts.rows += usize::from(seen.rows);
    }

    /// An operation with the statements that it names.
    fn told(&self, op: &Op) -> String {
        let mut text = format!("{op:?}");
        for back in op.prepared() {
            text.push_str(&format!(
                "\n  {back}: {:?}",
                self.texts[self.sides[0].at(back)]
            ));
        }
        text
    }

    fn report(&mut self, op: &Op, page: usize, seen: &[Seen; 2]) {
        let what = format!("page {page}: {}", self.told(op));
        self.differ(&what, seen);
    }

    /// Both sides were told different things.
    pub(crate) fn differ(&mut self, what: &str, seen: &[Seen; 2]) {
        let side = |seen: &Seen| {
            format!(
                "opcode {:#04x} flags {:#04x} error {:x?}\n  {}\n  {}",
                seen.opcode,
                seen.flags,
                seen.error,
                seen.body
                    .iter()
                    .map(|b| format!("{b:02x}"))
                    .collect::<String>(),
                String::from_utf8_lossy(&seen.body).escape_debug(),
            )
        };
        self.note_difference(format!(
            "{what}\ndirect:  {}\nproxied: {}",
            side(&seen[0]),
            side(&seen[1])
        ));
    }

    pub(crate) fn note_difference(&mut self, what: String) {
        let text = format!(
            "seed {}, operation {} ({:?}), {what}",
            self.seed, self.counts.operations, self.sides[0].version,
        );
        println!("DIFFERENCE {text}");
        self.counts.differences.push(text);
    }

    /// Connections that broke a rule may be closed by either server; both begin anew.
    fn reconnect(&mut self) -> Result<()> {
        self.counts.reconnects += 1;
        for (client, side) in self.clients.iter_mut().zip(&self.sides) {
            client.reconnect()?;
            // Statements that were prepared without a keyspace must find it again.
            let What::Query(text, options) = plain("USE {ks}".to_owned()).what else {
                continue;
            };
            let (opcode, body) = side.body(&What::Query(text, options), None);
            client.ask(opcode, 0, &body)?;
        }
        Ok(())
    }
}
