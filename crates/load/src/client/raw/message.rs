//! Parameters of connections, and the messages that are sent over them.

use crate::client::Compression;
use crate::client::endpoint::Endpoint;
use crate::client::tls::Tls;
use anyhow::{Context, Result, ensure};
use helenus_wire::{ErrorBody, Opcode, strip_prelude};
use std::time::Duration;

pub(in crate::client) const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);

/// The parameters with which every connection is opened.
#[derive(Debug)]
pub(in crate::client) struct Plan {
    pub(in crate::client) contact_points: Vec<String>,
    pub(in crate::client) statements: Vec<String>,
    pub(in crate::client) credentials: Option<(String, String)>,
    pub(in crate::client) consistency: u16,
    pub(super) serial_consistency: Option<u16>,
    pub(super) compression: Compression,
    pub(in crate::client) tls: Option<Tls>,
    pub(in crate::client) application: Option<&'static str>,
    pub(super) request_timeout: Duration,
}

impl Plan {
    pub(in crate::client) fn new(endpoint: &Endpoint, statements: &[&str]) -> Result<Self> {
        ensure!(
            !endpoint.contact_points.is_empty(),
            "{} has no contact point",
            endpoint.name
        );
        Ok(Self {
            contact_points: endpoint.contact_points.clone(),
            statements: statements.iter().map(|text| (*text).to_owned()).collect(),
            credentials: endpoint.credentials.clone(),
            consistency: endpoint.consistency as u16,
            serial_consistency: endpoint.serial_consistency.map(|serial| serial as u16),
            compression: endpoint.compression,
            tls: endpoint.tls.clone(),
            application: endpoint.application,
            request_timeout: endpoint.request_timeout,
        })
    }

    /// SASL PLAIN: no identity to act as, then user and password.
    pub(in crate::client) fn sasl_token(&self) -> Result<String> {
        let (user, password) = self
            .credentials
            .as_ref()
            .context("it requires a role and a password: give --username")?;
        Ok(format!("\0{user}\0{password}"))
    }
}

#[derive(Debug)]
pub(crate) struct Envelope {
    pub(crate) opcode: u8,
    pub(crate) flags: u8,
    pub(crate) body: Vec<u8>,
}

impl Envelope {
    /// The code of the error that it is.
    pub(crate) fn code(&self) -> Option<i32> {
        error_code(self)
    }

    /// The error's text.
    pub(crate) fn error_text(&self) -> String {
        error_text(self)
    }
}

pub(in crate::client) fn error_code(envelope: &Envelope) -> Option<i32> {
    if envelope.opcode != Opcode::Error as u8 {
        return None;
    }
    let (_, body) = strip_prelude(envelope.flags, &envelope.body).ok()?;
    Some(ErrorBody::parse(body).ok()?.code)
}

pub(in crate::client) fn error_text(envelope: &Envelope) -> String {
    let parsed = strip_prelude(envelope.flags, &envelope.body)
        .and_then(|(_, body)| Ok(ErrorBody::parse(body)?.message.to_owned()));
    parsed.unwrap_or_else(|_| format!("unexpected answer, opcode {:#04x}", envelope.opcode))
}
