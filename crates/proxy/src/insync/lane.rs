//! Connections for the lists: each has a node of its own and carries one request at a time, so that a node that
//! stands still holds up one of them.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use helenus_wire::Consistency;
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::asked::{Beats, GroupRow, ListName, Owners, ProxyRow, Start, TableName};
use super::rows;
use crate::boot_time::now_us;
use crate::catalogue::reader::Reader;
use crate::conn::ConnError;
use crate::control;
use crate::process::Process;
use crate::rows::Rows;

/// For a connection, with its login.
const CONNECT_MAX: Duration = Duration::from_secs(2);

/// What is asked of the catalogue.
#[derive(Clone, Debug)]
pub(super) enum Question {
    /// Version and signs of life of proxies, and then one of one's own.
    RenewProxies {
        beat: Option<(Start, i64)>,
    },
    /// Versions of lists of copies, an answer for each table.
    RenewCopies(Vec<TableName>),
    Read(ListName),
    ReadIntents,
    /// A compare-and-set.
    Change(String),
    /// A plain write of intents.
    Record(String),
}

/// What the catalogue says. `sent_us` is from before the request was sent.
#[derive(Debug)]
pub(super) enum Told {
    Beats {
        told: Beats,
        sent_us: u64,
    },
    Versions {
        table: TableName,
        told: Vec<(Owners, i64)>,
        sent_us: u64,
    },
    Proxies {
        version: i64,
        rows: Vec<ProxyRow>,
        sent_us: u64,
    },
    Copies {
        table: TableName,
        rows: Vec<GroupRow>,
        sent_us: u64,
    },
    Intents {
        left: Vec<(Start, i32)>,
        sent_us: u64,
    },
    Changed {
        is_applied: bool,
    },
    Recorded,
}

pub(super) struct Answer {
    pub lane: usize,
    /// None: nothing more comes of this question.
    pub told: Option<Result<Told, ConnError>>,
}

/// Which nodes a connection may use: every `of`th, beginning with the `from`th. All, if that is none.
#[derive(Clone, Copy, Debug)]
pub(super) struct Share {
    pub from: usize,
    pub of: usize,
}

impl Share {
    fn of(self, addresses: Vec<SocketAddr>) -> Vec<SocketAddr> {
        let own = addresses.iter().skip(self.from).step_by(self.of.max(1));
        let own: Vec<SocketAddr> = own.copied().collect();
        match own.is_empty() {
            true => addresses,
            false => own,
        }
    }
}

/// One of the connections.
pub(super) struct Lane {
    questions: mpsc::Sender<Question>,
    is_busy: bool,
}

impl Lane {
    /// Ends when it is dropped. Each request may take `patience`, if there is a connection.
    pub(super) fn open(
        common: Arc<Process>,
        (number, share): (usize, Share),
        patience: Duration,
        answers: mpsc::Sender<Answer>,
    ) -> Lane {
        let (questions, mut asked) = mpsc::channel(1);
        tokio::spawn(async move {
            let mut connection = Connection {
                common,
                share,
                reader: None,
                next: 0,
            };
            while let Some(question) = asked.recv().await {
                // What has come is told at once: what comes after it may fail.
                for request in requests(question) {
                    let told = connection.ask(&request, patience).await;
                    if told.is_err() {
                        connection.reader = None;
                    }
                    // What a node refuses says nothing of the other requests.
                    let is_last = match &told {
                        Ok(_) | Err(ConnError::Node { .. }) => false,
                        Err(_) => true,
                    };
                    let told = told.transpose();
                    let answer = told.map(|told| Answer {
                        lane: number,
                        told: Some(told),
                    });
                    if let Some(answer) = answer
                        && answers.send(answer).await.is_err()
                    {
                        return;
                    }
                    if is_last {
                        break;
                    }
                }
                let end = Answer {
                    lane: number,
                    told: None,
                };
                if answers.send(end).await.is_err() {
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
    share: Share,
    reader: Option<Reader>,
    /// Which node of its share is next.
    next: usize,
}

impl Connection {
    async fn ask(
        &mut self,
        request: &Request,
        patience: Duration,
    ) -> Result<Option<Told>, ConnError> {
        let reader = match &mut self.reader {
            Some(reader) => reader,
            None => {
                let connected = timeout(CONNECT_MAX, self.connect()).await;
                let connected = connected.unwrap_or(Err(ConnError::Timeout(CONNECT_MAX)))?;
                self.reader.insert(connected)
            }
        };
        let answered = timeout(patience, answer(reader, request)).await;
        answered.unwrap_or(Err(ConnError::Timeout(patience)))
    }

    /// To the next node: whichever was the last one has failed.
    async fn connect(&mut self) -> Result<Reader, ConnError> {
        let snapshot = self.common.snapshot.load_full();
        let config = self.common.settings.load_full();
        let dialer = (**self.common.dialer.load()).clone();
        // No node is the lost one.
        let none = SocketAddr::from(([0, 0, 0, 0], 0));
        let addresses = self.share.of(control::in_order(&snapshot, &config, none));
        let at = self.next.checked_rem(addresses.len());
        let address = at.and_then(|at| addresses.get(at)).copied();
        self.next = self.next.wrapping_add(1);
        let address = address.ok_or(ConnError::Closed)?;
        Reader::connect(&config, &dialer, address, snapshot.version).await
    }
}

/// One of the requests of a question.
enum Request {
    Beats,
    Beat(Start, i64),
    Versions(TableName),
    Read(ListName),
    Intents,
    Change(String),
    Record(String),
}

/// What renews the lease comes first.
fn requests(question: Question) -> Vec<Request> {
    match question {
        Question::RenewProxies { beat } => {
            let own = beat.map(|(start, beat)| Request::Beat(start, beat));
            [Request::Beats].into_iter().chain(own).collect()
        }
        Question::RenewCopies(tables) => tables.into_iter().map(Request::Versions).collect(),
        Question::Read(list) => vec![Request::Read(list)],
        Question::ReadIntents => vec![Request::Intents],
        Question::Change(batch) => vec![Request::Change(batch)],
        Question::Record(batch) => vec![Request::Record(batch)],
    }
}

async fn answer(reader: &mut Reader, request: &Request) -> Result<Option<Told>, ConnError> {
    let told = match request {
        Request::Beats => {
            let select = rows::SELECT_BEATS;
            let (found, sent_us) = timed(reader, select, Consistency::QUORUM).await?;
            let told = rows::beats(&found);
            Told::Beats { told, sent_us }
        }
        Request::Beat(start, beat) => {
            let update = rows::update_beat(*start, *beat);
            reader.run(&update, Consistency::QUORUM).await?;
            return Ok(None);
        }
        Request::Versions(table) => {
            let select = rows::select_versions(table);
            let (found, sent_us) = timed(reader, &select, Consistency::QUORUM).await?;
            Told::Versions {
                table: table.clone(),
                told: rows::versions(&found),
                sent_us,
            }
        }
        Request::Read(list) => read(reader, list).await?,
        Request::Intents => {
            let select = rows::SELECT_INTENTS;
            let (found, sent_us) = timed(reader, select, Consistency::QUORUM).await?;
            let left = rows::intents(&found);
            Told::Intents { left, sent_us }
        }
        Request::Change(batch) => {
            let answer = reader.rows(batch, Consistency::QUORUM).await?;
            let is_applied = rows::is_applied(&answer);
            Told::Changed { is_applied }
        }
        Request::Record(batch) => {
            reader.run(batch, Consistency::QUORUM).await?;
            Told::Recorded
        }
    };
    Ok(Some(told))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn renewing_connections_share_no_node_if_there_are_two() {
        let address = |number: u8| SocketAddr::from(([10, 0, 0, number], 9042));
        let of = |nodes: &[u8], from| {
            let nodes = nodes.iter().copied().map(address).collect();
            Share { from, of: 2 }.of(nodes)
        };
        assert_eq!(of(&[1, 2, 3], 0), [1, 3].map(address));
        assert_eq!(of(&[1, 2, 3], 1), [2].map(address));
        assert_eq!(of(&[1], 0), of(&[1], 1));
        assert_eq!(of(&[], 0), []);
    }
}
