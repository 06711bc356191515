//! The warnings of several answers as those of one.

use helenus_wire::{Header, Malformed, Reader, flags, write};

/// Cassandra warns when a statement without a keyspace runs on a connection of another keyspace than
/// it was prepared in. On a shared link that says nothing about the client.
pub(crate) const USE_WARNING: &str =
    "`USE <keyspace>` with prepared statements is considered to be an anti-pattern";

/// Cassandra warns of what the proxy has put into one batch, if that is larger than nodes have said.
const BATCH_WARNINGS: [&str; 3] = [
    "Unlogged batch covering ",
    "Batch for ",
    "Batch of prepared statements for ",
];

/// More of them say nothing new.
const WARNINGS_MAX: usize = 100;

/// Warnings that have come, each once.
#[derive(Debug, Default)]
pub(crate) struct Warnings(Vec<String>);

impl Warnings {
    /// Adds the warnings of an answer that are not known yet, and are not about the link's keyspace.
    pub(crate) fn note(&mut self, prelude: &[u8]) {
        let Ok(warnings) = Reader::new(prelude).string_list() else {
            return;
        };
        for warning in warnings {
            if !warning.starts_with(USE_WARNING) {
                self.add(warning);
            }
        }
    }

    /// Adds those of another answer.
    pub(crate) fn extend(&mut self, others: &Warnings) {
        for warning in &others.0 {
            self.add(warning);
        }
    }

    /// Adds one that a node has of the statement: behind those of guardrails, before those of what it reads.
    pub(crate) fn add_of_statement(&mut self, warning: &str) {
        let of_guardrails = self.0.iter().take_while(|of| of.starts_with("Guardrail "));
        self.0.insert(of_guardrails.count(), warning.to_owned());
    }

    fn add(&mut self, warning: &str) {
        if self.0.len() < WARNINGS_MAX && !self.0.iter().any(|known| known == warning) {
            self.0.push(warning.to_owned());
        }
    }

    /// Writes them, if there are any; the flag that announces them.
    pub(crate) fn write(&self, out: &mut Vec<u8>) -> u8 {
        if self.0.is_empty() {
            return 0;
        }
        let warnings: Vec<&str> = self.0.iter().map(String::as_str).collect();
        write::string_list(out, &warnings);
        flags::WARNING
    }
}

/// The body of an answer with one more warning, behind its own, and its flags.
pub(crate) fn with_warning(
    header_flags: u8,
    body: &[u8],
    warning: &str,
) -> Result<(u8, Vec<u8>), Malformed> {
    let mut reader = Reader::new(body);
    let mut out = Vec::with_capacity(body.len() + warning.len() + 4);
    if header_flags & flags::TRACING != 0 {
        out.extend_from_slice(&reader.uuid()?);
    }
    let mut warnings = match header_flags & flags::WARNING {
        0 => Vec::new(),
        _ => reader.string_list()?,
    };
    warnings.push(warning);
    write::string_list(&mut out, &warnings);
    out.extend_from_slice(reader.rest());
    Ok((header_flags | flags::WARNING, out))
}

/// The prelude of an answer to an EXECUTE without Cassandra's remarks about what the proxy has made of it:
/// about USE, and, if it was sent as one `of_several`, about the batch. `None` if it has none.
pub(crate) fn without_own_warnings(
    header: &mut Header,
    prelude: &[u8],
    of_several: bool,
) -> Option<Vec<u8>> {
    let is_own = |warning: &str| {
        let of_batch = || BATCH_WARNINGS.iter().any(|own| warning.starts_with(own));
        warning.starts_with(USE_WARNING) || of_several && of_batch()
    };
    let mut reader = Reader::new(prelude);
    let mut body = Vec::with_capacity(prelude.len());
    if header.flags & flags::TRACING != 0 {
        body.extend_from_slice(&reader.uuid().ok()?);
    }
    let warnings = reader.string_list().ok()?;
    if !warnings.iter().any(|warning| is_own(warning)) {
        return None;
    }
    let kept: Vec<&str> = warnings
        .into_iter()
        .filter(|warning| !is_own(warning))
        .collect();
    if kept.is_empty() {
        header.flags &= !flags::WARNING;
    } else {
        write::string_list(&mut body, &kept);
    }
    body.extend_from_slice(reader.rest());
    Some(body)
}
