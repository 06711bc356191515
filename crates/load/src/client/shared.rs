//! A plain client of protocol v5 whose simulated clients share a few connections: what an application
//! with a simple driver opens, which pipelines the requests of all its threads.
//!
//! It knows nothing of tokens. Connections are spread round-robin over the contact points, and the
//! caller says which connection carries a request. Answers come in the order in which the server sends
//! them; a large one holds up those behind it on its connection.

pub(crate) use super::raw::OPENING_MAX;
use super::raw::{BROKEN, CONNECT_TIMEOUT, Plan, UNREADABLE};
use crate::client::endpoint::Endpoint;
use crate::client::failure::code_kind;
use crate::measure::ErrorKind;
use anyhow::{Context, Result, anyhow, bail};
use connection::Connection;
pub(crate) use connection::VERSION;
use helenus_client::{
    Answer, Compression, Opcode, Options, Prepared, Statement, prepare, request, set_values,
    startup,
};
use helenus_wire::{RowsView, code};
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
            let answer = session
                .page(&self.plan, statement, values, page_rows, state.as_deref())
                .await?;
            if let Some(code) = answer.code() {
                return Err(code_kind(code));
            }
            let message = answer.message().map_err(|_| UNREADABLE)?;
            let view = RowsView::parse(message).map_err(|_| UNREADABLE)?;
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
        let name = plan.application.map(|name| ("APPLICATION_NAME", name));
        let body = startup(Compression::None, name.as_slice());
        let mut answer = session.ask(Opcode::Startup, &body).await?;
        if answer.opcode == Opcode::Authenticate as u8 {
            let body = plan.auth_response()?;
            answer = session.ask(Opcode::AuthResponse, &body).await?;
        }
        if answer.opcode == Opcode::Error as u8 {
            bail!("{}", answer.error_text());
        }
        for text in &plan.statements {
            let prepared = session.prepare(text).await?;
            session.statements_mut(|statements| statements.push(prepared));
        }
        Ok(session)
    }

    /// Asks for anything.
    pub(crate) async fn ask_kind(&self, opcode: Opcode, body: &[u8]) -> Result<Answer, ErrorKind> {
        self.connection.ask(opcode, body).await
    }

    pub(crate) async fn ask(&self, opcode: Opcode, body: &[u8]) -> Result<Answer> {
        let answer = self.ask_kind(opcode, body).await;
        answer.map_err(|error| match self.connection.why_broken() {
            Some(why) if error == BROKEN => anyhow!("{error}: {why}"),
            _ => anyhow!(error),
        })
    }

    async fn prepare(&self, text: &str) -> Result<Prepared> {
        let body = prepare(VERSION, text, None);
        let answer = self.ask(Opcode::Prepare, &body).await?;
        if answer.opcode != Opcode::Result as u8 {
            bail!("cannot prepare: {text}: {}", answer.error_text());
        }
        Ok(answer.prepared()?)
    }

    /// Prepares the statement again, once, if the node no longer knows it.
    async fn page(
        &self,
        plan: &Plan,
        statement: usize,
        values: &[&[u8]],
        page_rows: i32,
        state: Option<&[u8]>,
    ) -> Result<Answer, ErrorKind> {
        let answer = self
            .page_once(plan, statement, values, page_rows, state)
            .await?;
        if answer.code() != Some(code::UNPREPARED) {
            return Ok(answer);
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
    ) -> Result<Answer, ErrorKind> {
        let prepared = {
            let statements = self.prepared.read().unwrap_or_else(PoisonError::into_inner);
            statements[statement].clone()
        };
        let values = set_values(values);
        let options = Options {
            values: Some(&values),
            page_size: Some(page_rows),
            paging_state: state,
            ..Options::at(plan.consistency)
        };
        let body = request(VERSION, Statement::Prepared(prepared.ids()), &options);
        self.connection.ask(Opcode::Execute, &body).await
    }

    fn statements_mut(&self, change: impl FnOnce(&mut Vec<Prepared>)) {
        let prepared = self.prepared.write();
        change(&mut prepared.unwrap_or_else(PoisonError::into_inner));
    }
}

#[cfg(test)]
pub(crate) mod tests;
