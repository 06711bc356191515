//! Messages between a node's agent and a proxy (docs/agent.md, `ReportProtocol.java`).
//!
//! All numbers are big-endian, all messages of fixed length:
//!
//! ```text
//! greeting, from the agent    magic 4 · version 1 · flags 1 · interval in ms 2 · nonce 32
//! answer, from the proxy      magic 4 · version 1 · zero 3 · nonce 32 · proof 32
//! acceptance, from the agent  proof 32
//! report, from the agent      magic 4 · version 1 · zero 1 · length 2 · sequence 8 · time in µs 8
//!                             · age in µs 4 · interval in ms 2 · resources 90 · authenticator 32
//! ```
//!
//! A proof is the HMAC-SHA256 of a label and both nonces under the secret; a report's authenticator is that
//! of the report under a key of this connection, made in the same way. Shares are in ten-thousandths, so no
//! bytes stand for something that is no number.

use helenus_engine::snapshot::HostId;
use helenus_engine::upstream::node_reports::{Rejected, Resources};
use ring::hmac;

#[cfg(test)]
pub(super) mod tests;

const MAGIC: [u8; 4] = *b"HRPT";
pub(crate) const VERSION: u8 = 1;
const HAS_SECRET: u8 = 1;
pub(crate) const NONCE: usize = 32;
pub(crate) const PROOF: usize = 32;
pub(crate) const GREETING: usize = 8 + NONCE;
pub(crate) const ANSWER: usize = 8 + NONCE + PROOF;
const BODY: usize = 120;
pub(crate) const REPORT: usize = BODY + PROOF;

/// The key where there is no secret: then authenticators are checksums.
const OPEN: &[u8] = b"helenus report without a secret";
const PROXY: &[u8] = b"helenus report proxy";
const AGENT: &[u8] = b"helenus report agent";
const SESSION: &[u8] = b"helenus report session";

const WHOLE: u16 = 10_000;
const UNKNOWN: u16 = u16::MAX;
/// More of anything cannot be true.
const CORES_MILLI_MAX: u32 = 100_000_000;
const TASKS_MAX: u32 = 100_000_000;
const HEAP_MAX: u64 = 1 << 50;
const INTERVAL_MS_MAX: u16 = 60_000;

/// An agent's first message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Greeting {
    pub has_secret: bool,
    pub nonce: [u8; NONCE],
}

/// One report, as sent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Report {
    pub sequence: u64,
    /// When it was measured, by the node's own clock, which began at any time.
    pub sampled_us: u64,
    /// How long ago that was when it was sent.
    pub age_us: u32,
    pub host_id: HostId,
    pub resources: Resources,
}

/// The keys of a connection, which both sides have.
pub(crate) struct Keys {
    secret: hmac::Key,
    agent: [u8; NONCE],
    proxy: [u8; NONCE],
}

impl Keys {
    pub(crate) fn new(secret: Option<&[u8]>, agent: [u8; NONCE], proxy: [u8; NONCE]) -> Keys {
        Keys {
            secret: hmac::Key::new(hmac::HMAC_SHA256, secret.unwrap_or(OPEN)),
            agent,
            proxy,
        }
    }

    fn said(&self, label: &[u8]) -> Vec<u8> {
        [label, &self.agent, &self.proxy].concat()
    }

    /// The proxy's answer to the greeting.
    pub(crate) fn answer(&self) -> [u8; ANSWER] {
        let mut answer = [0; ANSWER];
        answer[..4].copy_from_slice(&MAGIC);
        answer[4] = VERSION;
        answer[8..8 + NONCE].copy_from_slice(&self.proxy);
        let proof = hmac::sign(&self.secret, &self.said(PROXY));
        answer[8 + NONCE..].copy_from_slice(proof.as_ref());
        answer
    }

    /// The agent's acceptance.
    #[cfg(test)]
    pub(super) fn acceptance(&self) -> Vec<u8> {
        hmac::sign(&self.secret, &self.said(AGENT))
            .as_ref()
            .to_vec()
    }

    /// True if an agent's acceptance proves that it knows the secret.
    pub(crate) fn is_proof(&self, proof: &[u8]) -> bool {
        hmac::verify(&self.secret, &self.said(AGENT), proof).is_ok()
    }

    /// The key of the reports.
    pub(crate) fn session(&self) -> hmac::Key {
        let key = hmac::sign(&self.secret, &self.said(SESSION));
        hmac::Key::new(hmac::HMAC_SHA256, key.as_ref())
    }
}

/// Reads fixed fields one after the other.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn next<const N: usize>(&mut self) -> Result<[u8; N], Rejected> {
        let (field, rest) = self.0.split_first_chunk().ok_or(Rejected::Length)?;
        self.0 = rest;
        Ok(*field)
    }

    fn u16(&mut self) -> Result<u16, Rejected> {
        self.next().map(u16::from_be_bytes)
    }

    fn u32(&mut self) -> Result<u32, Rejected> {
        self.next().map(u32::from_be_bytes)
    }

    fn u64(&mut self) -> Result<u64, Rejected> {
        self.next().map(u64::from_be_bytes)
    }

    fn share(&mut self) -> Result<Option<f32>, Rejected> {
        match self.u16()? {
            UNKNOWN => Ok(None),
            share @ ..=WHOLE => Ok(Some(f32::from(share) / f32::from(WHOLE))),
            _ => Err(Rejected::Range),
        }
    }

    fn up_to(&mut self, max: u32) -> Result<u32, Rejected> {
        in_range(self.u32()?, max)
    }

    /// Magic and version.
    fn head(&mut self) -> Result<(), Rejected> {
        that(self.next()? == MAGIC, Rejected::Format)?;
        that(self.next()? == [VERSION], Rejected::Version)
    }
}

fn that(is_so: bool, otherwise: Rejected) -> Result<(), Rejected> {
    if is_so { Ok(()) } else { Err(otherwise) }
}

fn in_range<T: PartialOrd>(value: T, max: T) -> Result<T, Rejected> {
    that(value <= max, Rejected::Range)?;
    Ok(value)
}

pub(crate) fn greeting(bytes: &[u8]) -> Result<Greeting, Rejected> {
    that(bytes.len() == GREETING, Rejected::Length)?;
    let mut fields = Fields(bytes);
    fields.head()?;
    let [flags] = fields.next()?;
    that(flags & !HAS_SECRET == 0, Rejected::Format)?;
    let _interval_ms = fields.u16()?;
    Ok(Greeting {
        has_secret: flags == HAS_SECRET,
        nonce: fields.next()?,
    })
}

/// Takes nothing of a report before its authenticator is known to be right.
pub(crate) fn report(key: &hmac::Key, bytes: &[u8]) -> Result<Report, Rejected> {
    that(bytes.len() == REPORT, Rejected::Length)?;
    let (body, authenticator) = bytes.split_at(BODY);
    let mut fields = Fields(body);
    fields.head()?;
    let [zero] = fields.next()?;
    that(usize::from(fields.u16()?) == REPORT, Rejected::Length)?;
    let is_genuine = hmac::verify(key, body, authenticator).is_ok();
    that(is_genuine, Rejected::Authenticator)?;
    that(zero == 0, Rejected::Format)?;
    let (sequence, sampled_us, age_us) = (fields.u64()?, fields.u64()?, fields.u32()?);
    in_range(fields.u16()?, INTERVAL_MS_MAX)?;
    let resources = resources(&mut fields)?;
    that(fields.u32()? == 0, Rejected::Format)?;
    Ok(Report {
        sequence,
        sampled_us,
        age_us,
        host_id: fields.next()?,
        resources,
    })
}

fn resources(fields: &mut Fields<'_>) -> Result<Resources, Rejected> {
    let resources = Resources {
        cpu: fields.share()?,
        cpu_process: fields.share()?,
        cpu_machine: fields.share()?,
        disk: fields.share()?,
        collecting: fields.share()?,
        disk_queue: fields.u32()? as f32 / 1_000.0,
        cores: fields.up_to(CORES_MILLI_MAX)? as f32 / 1_000.0,
        heap_used: in_range(fields.u64()?, HEAP_MAX)?,
        heap_max: in_range(fields.u64()?, HEAP_MAX)?,
        collected_ms: fields.u64()?,
        read_pending: fields.up_to(TASKS_MAX)?,
        read_active: fields.up_to(TASKS_MAX)?,
        read_max: fields.up_to(TASKS_MAX)?,
        mutation_pending: fields.up_to(TASKS_MAX)?,
        mutation_active: fields.up_to(TASKS_MAX)?,
        mutation_max: fields.up_to(TASKS_MAX)?,
        compactions_pending: fields.up_to(TASKS_MAX)?,
    };
    let is_heap = resources.heap_max == 0 || resources.heap_used <= resources.heap_max;
    that(is_heap, Rejected::Range)?;
    Ok(resources)
}
