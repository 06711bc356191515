//! Connections for the lists: each has a node of its own and carries one request at a time, so that a node that
//! stands still holds up one of them.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use helenus_layout::insync::Stored;
use helenus_wire::Consistency;
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::member::{Beats, ListName, Owners, ProxyRow, Start, TableName};
use super::{now_us, rows};
use crate::catalogue::reader::Reader;
use crate::conn::ConnError;
use crate::control;
use crate::process::Process;
use crate::rows::Rows;

/// What is asked of the catalogue.
#[derive(Clone, Debug)]
pub(super) enum Question {
    /// Versions of all lists, and signs of life; with one of one's own.
    Renew {
        tables: Vec<TableName>,
        beat: Option<(Start, i64)>,
    },
    Read(ListName),
    ReadIntents,
    /// A compare-and-set.
    Change(String),
}

/// What the catalogue says. `sent_us` is from before the request was sent.
#[derive(Debug)]
pub(super) enum Told {
    Renewed {
        proxies: (Beats, u64),
        copies: Vec<(TableName, Vec<(Owners, i64)>, u64)>,
    },
    Proxies {
        version: i64,
        rows: Vec<ProxyRow>,
        sent_us: u64,
    },
    Copies {
        table: TableName,
        rows: Vec<(Owners, Stored)>,
        sent_us: u64,
    },
    Intents {
        left: Vec<(Start, i32)>,
        sent_us: u64,
    },
    Changed {
        is_applied: bool,
    },
}

pub(super) struct Answer {
    pub lane: usize,
    pub told: Result<Told, ConnError>,
}

/// One of the connections.
pub(super) struct Lane {
    questions: mpsc::Sender<Question>,
    is_busy: bool,
}

impl Lane {
    /// Ends when it is dropped. Lanes with different numbers begin with different nodes. A question may take
    /// `patience`, with the connection if there is none.
    pub(super) fn open(
        common: Arc<Process>,
        number: usize,
        patience: Duration,
        answers: mpsc::Sender<Answer>,
    ) -> Lane {
        let (questions, mut asked) = mpsc::channel(1);
        tokio::spawn(async move {
            let mut connection = Connection {
                common,
                reader: None,
                next: number,
            };
            while let Some(question) = asked.recv().await {
                let done = timeout(patience, connection.ask(&question)).await;
                let told = done.unwrap_or(Err(ConnError::Timeout(patience)));
                if told.is_err() {
                    connection.reader = None;
                }
                let answer = Answer { lane: number, told };
                if answers.send(answer).await.is_err() {
                    return;
                }
            }
        });
        Lane {
            questions,
            is_busy: false,
        }
    }

    /// False if it is busy with another question.
    pub(super) fn ask(&mut self, question: Question) -> bool {
        if self.is_busy {
            return false;
        }
        self.is_busy = self.questions.try_send(question).is_ok();
        self.is_busy
    }

    pub(super) fn is_busy(&self) -> bool {
        self.is_busy
    }

    pub(super) fn on_answer(&mut self) {
        self.is_busy = false;
    }
}

struct Connection {
    common: Arc<Process>,
    reader: Option<Reader>,
    /// Which node is next.
    next: usize,
}

impl Connection {
    async fn ask(&mut self, question: &Question) -> Result<Told, ConnError> {
        if self.reader.is_none() {
            self.reader = Some(self.connect().await?);
        }
        let Some(reader) = &mut self.reader else {
            return Err(ConnError::Closed);
        };
        match question {
            Question::Renew { tables, beat } => renew(reader, tables, *beat).await,
            Question::Read(list) => read(reader, list).await,
            Question::ReadIntents => {
                let sent_us = now_us();
                let found = reader
                    .rows(rows::SELECT_INTENTS, Consistency::QUORUM)
                    .await?;
                let left = rows::intents(&found);
                Ok(Told::Intents { left, sent_us })
            }
            Question::Change(batch) => {
                let answer = reader.rows(batch, Consistency::QUORUM).await?;
                let is_applied = rows::is_applied(&answer);
                Ok(Told::Changed { is_applied })
            }
        }
    }

    /// To the next node: whichever was the last one has failed.
    async fn connect(&mut self) -> Result<Reader, ConnError> {
        let snapshot = self.common.snapshot.load_full();
        let config = self.common.settings.load_full();
        let dialer = (**self.common.dialer.load()).clone();
        // No node is the lost one.
        let none = SocketAddr::from(([0, 0, 0, 0], 0));
        let addresses = control::in_order(&snapshot, &config, none);
        let at = self.next.checked_rem(addresses.len());
        let address = at.and_then(|at| addresses.get(at)).copied();
        self.next = self.next.wrapping_add(1);
        let address = address.ok_or(ConnError::Closed)?;
        Reader::connect(&config, &dialer, address, snapshot.version).await
    }
}

/// What renews leases comes first.
async fn renew(
    reader: &mut Reader,
    tables: &[TableName],
    beat: Option<(Start, i64)>,
) -> Result<Told, ConnError> {
    let (found, sent_us) = timed(reader, rows::SELECT_BEATS, Consistency::QUORUM).await?;
    let proxies = (rows::beats(&found), sent_us);
    let mut copies = Vec::new();
    for table in tables {
        let select = rows::select_versions(table);
        let (found, sent_us) = timed(reader, &select, Consistency::QUORUM).await?;
        copies.push((table.clone(), rows::versions(&found), sent_us));
    }
    if let Some((start, beat)) = beat {
        let update = rows::update_beat(start, beat);
        reader.run(&update, Consistency::QUORUM).await?;
    }
    Ok(Told::Renewed { proxies, copies })
}

async fn read(reader: &mut Reader, list: &ListName) -> Result<Told, ConnError> {
    match list {
        ListName::Proxies => {
            let (found, sent_us) = timed(reader, rows::SELECT_PROXIES, Consistency::SERIAL).await?;
            let (version, rows) = rows::proxies(&found);
            Ok(Told::Proxies {
                version,
                rows,
                sent_us,
            })
        }
        ListName::Copies(table) => {
            let select = rows::select_lists(table);
            let (found, sent_us) = timed(reader, &select, Consistency::SERIAL).await?;
            Ok(Told::Copies {
                table: table.clone(),
                rows: rows::copies(&found),
                sent_us,
            })
        }
    }
}

async fn timed(
    reader: &mut Reader,
    select: &str,
    consistency: Consistency,
) -> Result<(Rows, u64), ConnError> {
    let sent_us = now_us();
    Ok((reader.rows(select, consistency).await?, sent_us))
}
