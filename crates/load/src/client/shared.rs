//! A plain client of protocol v5 whose simulated clients share a few connections: what an application
//! with a simple driver opens, which pipelines the requests of all its threads.
//!
//! It knows nothing of tokens. Connections are spread round-robin over the contact points, and the
//! caller says which connection carries a request. Answers come in the order in which the server sends
//! them; a large one holds up those behind it on its connection.

use super::raw::{BROKEN, CONNECT_TIMEOUT, Plan, UNREADABLE, error_code, error_text};
pub(crate) use super::raw::{Envelope, OPENING_MAX};
use crate::client::endpoint::Endpoint;
use crate::client::failure::code_kind;
use crate::measure::ErrorKind;
use anyhow::{Context, Result, anyhow, bail};
use connection::Connection;
use helenus_wire::{
    Opcode, PreparedView, RowsView, Version, code, query_flags, strip_prelude, write,
};
use std::sync::{Arc, PoisonError, RwLock};
use tokio::sync::Mutex;
use tokio::time::timeout;

mod connection;

#[derive(Debug)]
pub(crate) struct SharedConnections {
    /// None after a failure, until the next request.
    slots: Vec<Mutex<Option<Arc<Session>>>>,
    plan: Plan,
}

/// A connection with all statements prepared.
#[derive(Debug)]
pub(crate) struct Session {
    connection: Connection,
    prepared: RwLock<Vec<Prepared>>,
}

#[derive(Clone, Debug)]
struct Prepared {
    id: Vec<u8>,
    result_metadata_id: Vec<u8>,
}

impl SharedConnections {
    pub(crate) async fn open(
        endpoint: &Endpoint,
        statements: &[&str],
        connections: usize,
    ) -> Result<Self> {
        let plan = Plan::new(endpoint, statements)?;
        let mut slots = Vec::new();
        for number in 0..connections.max(1) {
            let session = Session::open(&plan, number).await?;
            slots.push(Mutex::new(Some(Arc::new(session))));
        }
        Ok(Self { slots, plan })
    }

    /// Executes a statement on connection `number` (modulo their count) and passes each page to
    /// `take`. If dropped, late answers are ignored.
    pub(crate) async fn read(
        &self,
        number: u64,
        statement: usize,
        values: &[&[u8]],
        page_rows: i32,
        mut take: impl FnMut(&RowsView<'_>) -> Result<(), ErrorKind>,
    ) -> Result<(), ErrorKind> {
        let slot = (number % self.slots.len() as u64) as usize;
        let mut state: Option<Vec<u8>> = None;
        loop {
            let session = self.session(slot).await?;
            let envelope = session
                .page(&self.plan, statement, values, page_rows, state.as_deref())
                .await?;
            if let Some(code) = error_code(&envelope) {
                return Err(code_kind(code));
            }
            let (_, body) =
                strip_prelude(envelope.flags, &envelope.body).map_err(|_| UNREADABLE)?;
            let view = RowsView::parse(body).map_err(|_| UNREADABLE)?;
            take(&view)?;
            match view.paging_state {
                Some(next) => state = Some(next.to_vec()),
                None => return Ok(()),
            }
        }
    }

    async fn session(&self, number: usize) -> Result<Arc<Session>, ErrorKind> {
        let mut slot = self.slots[number].lock().await;
        match &*slot {
            Some(session) if !session.connection.is_broken() => Ok(session.clone()),
            _ => {
                let opened = Session::open(&self.plan, number).await;
                let session = Arc::new(opened.map_err(|_| "no connection")?);
                *slot = Some(session.clone());
                Ok(session)
            }
        }
    }
}

impl Session {
    /// Without prepared statements, to the contact point whose turn this number is.
    pub(crate) async fn to(endpoint: &Endpoint, number: usize) -> Result<Self> {
        Self::open(&Plan::new(endpoint, &[])?, number).await
    }

    pub(crate) fn is_broken(&self) -> bool {
        self.connection.is_broken()
    }

    async fn open(plan: &Plan, number: usize) -> Result<Self> {
        let address = &plan.contact_points[number % plan.contact_points.len()];
        timeout(CONNECT_TIMEOUT, Self::open_at(plan, address))
            .await
            .with_context(|| format!("{address} did not answer in time"))?
            .with_context(|| format!("cannot open a connection to {address}"))
    }

    async fn open_at(plan: &Plan, address: &str) -> Result<Self> {
        let session = Self {
            connection: Connection::open(address, plan.tls.as_ref()).await?,
            prepared: RwLock::default(),
        };
        let mut options = vec![("CQL_VERSION", "3.0.0")];
        options.extend(plan.application.map(|name| ("APPLICATION_NAME", name)));
        let startup = |body: &mut Vec<u8>| write::string_map(body, &options);
        let mut answer = session.ask(Opcode::Startup, startup).await?;
        if answer.opcode == Opcode::Authenticate as u8 {
            let token = plan.sasl_token()?;
            let write_token = |body: &mut Vec<u8>| write::bytes(body, Some(token.as_bytes()));
            answer = session.ask(Opcode::AuthResponse, write_token).await?;
        }
        if answer.opcode == Opcode::Error as u8 {
            bail!("{}", error_text(&answer));
        }
        for text in &plan.statements {
            let prepared = session.prepare(text).await?;
            session.statements_mut(|statements| statements.push(prepared));
        }
        Ok(session)
    }

    /// Asks for anything.
    pub(crate) async fn ask_kind(
        &self,
        opcode: Opcode,
        write_body: impl FnOnce(&mut Vec<u8>),
    ) -> Result<Envelope, ErrorKind> {
        self.connection.ask(opcode, write_body).await
    }

    pub(crate) async fn ask(
        &self,
        opcode: Opcode,
        write_body: impl FnOnce(&mut Vec<u8>),
    ) -> Result<Envelope> {
        let answer = self.ask_kind(opcode, write_body).await;
        answer.map_err(|error| match self.connection.why_broken() {
            Some(why) if error == BROKEN => anyhow!("{error}: {why}"),
            _ => anyhow!(error),
        })
    }

    async fn prepare(&self, text: &str) -> Result<Prepared> {
        let write_body = |body: &mut Vec<u8>| {
            write::long_string(body, text);
            write::u32(body, 0);
        };
        let answer = self.ask(Opcode::Prepare, write_body).await?;
        if answer.opcode != Opcode::Result as u8 {
            bail!("cannot prepare: {text}: {}", error_text(&answer));
        }
        let (_, body) = strip_prelude(answer.flags, &answer.body)?;
        let view = PreparedView::parse(body, Version::V5)?;
        Ok(Prepared {
            id: view.id.to_vec(),
            result_metadata_id: view.result_metadata_id.unwrap_or_default().to_vec(),
        })
    }

    /// Prepares the statement again, once, if the node no longer knows it.
    async fn page(
        &self,
        plan: &Plan,
        statement: usize,
        values: &[&[u8]],
        page_rows: i32,
        state: Option<&[u8]>,
    ) -> Result<Envelope, ErrorKind> {
        let envelope = self
            .page_once(plan, statement, values, page_rows, state)
            .await?;
        if error_code(&envelope) != Some(code::UNPREPARED) {
            return Ok(envelope);
        }
        let text = &plan.statements[statement];
        let prepared = self.prepare(text).await.map_err(|_| BROKEN)?;
        self.statements_mut(|statements| statements[statement] = prepared);
        self.page_once(plan, statement, values, page_rows, state)
            .await
    }

    async fn page_once(
        &self,
        plan: &Plan,
        statement: usize,
        values: &[&[u8]],
        page_rows: i32,
        state: Option<&[u8]>,
    ) -> Result<Envelope, ErrorKind> {
        let Prepared {
            id,
            result_metadata_id,
        } = {
            let prepared = self.prepared.read().unwrap_or_else(PoisonError::into_inner);
            prepared[statement].clone()
        };
        let write_body = |body: &mut Vec<u8>| {
            write::short_bytes(body, &id);
            write::short_bytes(body, &result_metadata_id);
            write::u16(body, plan.consistency);
            let paged = match state {
                Some(_) => query_flags::PAGING_STATE,
                None => 0,
            };
            write::u32(body, query_flags::VALUES | query_flags::PAGE_SIZE | paged);
            write::u16(body, values.len() as u16);
            for value in values {
                write::bytes(body, Some(value));
            }
            write::i32(body, page_rows);
            if let Some(state) = state {
                write::bytes(body, Some(state));
            }
        };
        self.connection.ask(Opcode::Execute, write_body).await
    }

    fn statements_mut(&self, change: impl FnOnce(&mut Vec<Prepared>)) {
        let prepared = self.prepared.write();
        change(&mut prepared.unwrap_or_else(PoisonError::into_inner));
    }
}

#[cfg(test)]
pub(crate) mod tests;
