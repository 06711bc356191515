//! Parameters of connections.

use crate::client::Compression;
use crate::client::endpoint::Endpoint;
use crate::client::tls::Tls;
use anyhow::{Context, Result, ensure};
use helenus_client::{auth_response, plain_token};
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

    /// The answer to AUTHENTICATE.
    pub(in crate::client) fn auth_response(&self) -> Result<Vec<u8>> {
        let (user, password) = self
            .credentials
            .as_ref()
            .context("it requires a role and a password: give --username")?;
        Ok(auth_response(&plain_token(user, password)))
    }
}
