//! Nodes that do on a socket what no real one can be made to do: answer a login, or end a connection,
//! exactly as a test wants it.
//!
//! They speak version 4, know each other, and have an empty schema. Every query of a table that is
//! not theirs is answered with one row, which says by which token the connection was logged in.

use std::io::{Read, Result, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use helenus_wire::{ErrorBody, Reader, code, write};

use crate::raw::{op, value};

pub const PASSWORD_AUTHENTICATOR: &str = "org.apache.cassandra.auth.PasswordAuthenticator";

const INT: &[u8] = &[0, 0x09];
const UUID: &[u8] = &[0, 0x0C];
const TEXT: &[u8] = &[0, 0x0D];
const INET: &[u8] = &[0, 0x10];
const SET_OF_TEXT: &[u8] = &[0, 0x22, 0, 0x0D];

/// A node's answer to an AUTH_RESPONSE.
#[derive(Clone, Debug)]
pub enum Verdict {
    Accept,
    /// AUTH_SUCCESS with a token of the node's.
    AcceptWith(Vec<u8>),
    /// AUTH_SUCCESS, and then the end of the connection.
    AcceptAndClose,
    /// BAD_CREDENTIALS with this text.
    Refuse(String),
    Challenge,
    Silence,
    /// The end of the connection, without a word.
    Close,
}

impl Verdict {
    /// As PasswordAuthenticator says it.
    pub fn incorrect() -> Self {
        Self::Refuse("Provided username x and/or password are incorrect".to_owned())
    }

    /// As PasswordAuthenticator says it when system_auth cannot be read.
    pub fn unable() -> Self {
        let text =
            "Unable to perform authentication: Cannot achieve consistency level LOCAL_QUORUM";
        Self::Refuse(text.to_owned())
    }
}

type Judge = Arc<dyn Fn(&[u8]) -> Verdict + Send + Sync>;

/// A node's behaviour, and what it has seen.
struct Script {
    authenticator: Option<String>,
    cluster: String,
    judge: Judge,
    delay: Duration,
    logins: Vec<Vec<u8>>,
    startups: Vec<Vec<(String, String)>>,
    connections: Vec<TcpStream>,
}

struct Shared {
    script: Mutex<Script>,
    judging: AtomicUsize,
    judging_max: AtomicUsize,
    members: Vec<SocketAddr>,
    index: usize,
}

/// A node, until the process ends.
pub struct Node {
    pub address: SocketAddr,
    shared: Arc<Shared>,
}

/// Starts nodes that know each other, with PasswordAuthenticator, which let everybody in.
pub fn start(count: usize) -> Result<Vec<Node>> {
    let listeners = (0..count)
        .map(|_| TcpListener::bind(("127.0.0.1", 0)))
        .collect::<Result<Vec<_>>>()?;
    let members = listeners
        .iter()
        .map(TcpListener::local_addr)
        .collect::<Result<Vec<_>>>()?;
    let nodes = listeners.into_iter().enumerate().map(|(index, listener)| {
        let shared = Arc::new(Shared {
            script: Mutex::new(Script {
                authenticator: Some(PASSWORD_AUTHENTICATOR.to_owned()),
                cluster: "scripted".to_owned(),
                judge: Arc::new(|_| Verdict::Accept),
                delay: Duration::ZERO,
                logins: Vec::new(),
                startups: Vec::new(),
                connections: Vec::new(),
            }),
            judging: AtomicUsize::new(0),
            judging_max: AtomicUsize::new(0),
            members: members.clone(),
            index,
        });
        let node = Node {
            address: members[index],
            shared: shared.clone(),
        };
        thread::spawn(move || accept(&listener, &shared));
        node
    });
    Ok(nodes.collect())
}

impl Node {
    /// The class that AUTHENTICATE names from now on; none: READY without a login.
    pub fn set_authenticator(&self, class: Option<&str>) {
        self.shared.script().authenticator = class.map(str::to_owned);
    }

    /// The name of its cluster from now on.
    pub fn set_cluster(&self, name: &str) {
        name.clone_into(&mut self.shared.script().cluster);
    }

    /// How tokens are judged from now on.
    pub fn set_judge(&self, judge: impl Fn(&[u8]) -> Verdict + Send + Sync + 'static) {
        self.shared.script().judge = Arc::new(judge);
    }

    /// How long judging takes from now on.
    pub fn set_delay(&self, delay: Duration) {
        self.shared.script().delay = delay;
    }

    /// The tokens that have come so far.
    pub fn logins(&self) -> Vec<Vec<u8>> {
        self.shared.script().logins.clone()
    }

    /// The options of every STARTUP so far.
    pub fn startups(&self) -> Vec<Vec<(String, String)>> {
        self.shared.script().startups.clone()
    }

    /// Most logins that were being judged at a time since this was last asked.
    pub fn judging_max(&self) -> usize {
        self.shared.judging_max.swap(0, Ordering::SeqCst)
    }

    /// Ends all connections.
    pub fn close_all(&self) {
        for connection in self.shared.script().connections.drain(..) {
            // The other end may have gone.
            let _ = connection.shutdown(Shutdown::Both);
        }
    }
}

impl Shared {
    fn script(&self) -> MutexGuard<'_, Script> {
        self.script.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn judge(&self, token: &[u8]) -> Verdict {
        let now = self.judging.fetch_add(1, Ordering::SeqCst) + 1;
        self.judging_max.fetch_max(now, Ordering::SeqCst);
        let (judge, delay) = {
            let mut script = self.script();
            script.logins.push(token.to_vec());
            (script.judge.clone(), script.delay)
        };
        thread::sleep(delay);
        let verdict = judge(token);
        self.judging.fetch_sub(1, Ordering::SeqCst);
        verdict
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    for stream in listener.incoming() {
        let Ok(stream) = stream else { return };
        let Ok(handle) = stream.try_clone() else {
            continue;
        };
        shared.script().connections.push(handle);
        let shared = shared.clone();
        thread::spawn(move || {
            // The other end has hung up, or a test has closed everything.
            let _ = serve(stream, &shared);
        });
    }
}

fn serve(mut stream: TcpStream, shared: &Shared) -> Result<()> {
    stream.set_nodelay(true)?;
    let mut token = Vec::new();
    loop {
        let mut header = [0; 9];
        stream.read_exact(&mut header)?;
        let length = u32::from_be_bytes([header[5], header[6], header[7], header[8]]);
        let mut body = vec![0; length as usize];
        stream.read_exact(&mut body)?;
        let mut answer = |opcode: u8, body: &[u8]| {
            let mut out = vec![0x84, 0, header[2], header[3], opcode];
            out.extend((body.len() as u32).to_be_bytes());
            out.extend(body);
            stream.write_all(&out)
        };
        if header[0] != 4 {
            let text = "Invalid or unsupported protocol version (5); supported versions are (4/v4)";
            answer(op::ERROR, &error(code::PROTOCOL, text))?;
            return Ok(());
        }
        match header[4] {
            op::OPTIONS => {
                let mut body = vec![0, 1];
                write::string(&mut body, "CQL_VERSION");
                write::string_list(&mut body, &["3.4.7"]);
                answer(op::SUPPORTED, &body)?;
            }
            op::STARTUP => {
                let class = {
                    let mut script = shared.script();
                    let options = Reader::new(&body).string_map().unwrap_or_default();
                    let owned = options.iter().map(|(k, v)| ((*k).into(), (*v).into()));
                    script.startups.push(owned.collect());
                    script.authenticator.clone()
                };
                match class {
                    None => answer(op::READY, &[])?,
                    Some(class) => {
                        let mut body = Vec::new();
                        write::string(&mut body, &class);
                        answer(op::AUTHENTICATE, &body)?;
                    }
                }
            }
            op::AUTH_RESPONSE => {
                token = body.get(4..).unwrap_or_default().to_vec();
                match shared.judge(&token) {
                    Verdict::Accept => answer(op::AUTH_SUCCESS, &[0xFF; 4])?,
                    Verdict::AcceptWith(bytes) => {
                        answer(op::AUTH_SUCCESS, &value(&bytes))?;
                    }
                    Verdict::AcceptAndClose => {
                        answer(op::AUTH_SUCCESS, &[0xFF; 4])?;
                        return stream.shutdown(Shutdown::Both);
                    }
                    Verdict::Refuse(text) => {
                        answer(op::ERROR, &error(code::BAD_CREDENTIALS, &text))?
                    }
                    Verdict::Challenge => answer(op::AUTH_CHALLENGE, &value(b"and?"))?,
                    Verdict::Silence => {}
                    Verdict::Close => return stream.shutdown(Shutdown::Both),
                }
            }
            op::REGISTER => answer(op::READY, &[])?,
            op::QUERY => {
                let text = Reader::new(&body).long_string().unwrap_or_default();
                answer(op::RESULT, &shared.rows(text, &token))?;
            }
            _ => answer(op::ERROR, &error(code::INVALID, "this is not scripted"))?,
        }
    }
}

type Column<'a> = (&'a str, &'static [u8], Vec<u8>);

impl Shared {
    fn rows(&self, query: &str, token: &[u8]) -> Vec<u8> {
        let about = |table: &str| query.contains(&format!("FROM {table}"));
        if about("system.local") {
            return rows(&[self.member(self.index, true)]);
        }
        if about("system.peers") {
            let others = (0..self.members.len()).filter(|member| *member != self.index);
            let others: Vec<_> = others.map(|other| self.member(other, false)).collect();
            return rows(&others);
        }
        if about("system_schema") || about("system_views") {
            return rows(&[]);
        }
        rows(&[vec![("token", TEXT, token.to_vec())]])
    }

    /// A row of `system.local`, or of `system.peers` and `system.peers_v2` alike.
    fn member(&self, index: usize, local: bool) -> Vec<Column<'static>> {
        let address = self.members[index];
        let ip = match address {
            SocketAddr::V4(v4) => v4.ip().octets().to_vec(),
            SocketAddr::V6(v6) => v6.ip().octets().to_vec(),
        };
        let port = i32::from(address.port()).to_be_bytes().to_vec();
        let mut host_id = vec![0; 15];
        host_id.push(index as u8 + 1);
        let mut tokens = 1_u32.to_be_bytes().to_vec();
        tokens.extend(value((index as i64 * 1000).to_string().as_bytes()));
        let mut row = vec![
            ("host_id", UUID, host_id),
            ("data_center", TEXT, b"dc1".to_vec()),
            ("rack", TEXT, b"rack1".to_vec()),
            ("release_version", TEXT, b"4.1.10".to_vec()),
            ("schema_version", UUID, vec![7; 16]),
            ("tokens", SET_OF_TEXT, tokens),
        ];
        if local {
            let partitioner = b"org.apache.cassandra.dht.Murmur3Partitioner";
            row.insert(0, ("key", TEXT, b"local".to_vec()));
            let cluster = self.script().cluster.clone();
            row.push(("cluster_name", TEXT, cluster.into_bytes()));
            row.push(("partitioner", TEXT, partitioner.to_vec()));
            row.push(("rpc_address", INET, ip));
        } else {
            row.insert(0, ("peer", INET, ip.clone()));
            row.push(("native_address", INET, ip.clone()));
            row.push(("native_port", INT, port));
            row.push(("rpc_address", INET, ip));
        }
        row
    }
}

/// A RESULT of rows that all have the columns of the first.
fn rows(rows: &[Vec<Column<'_>>]) -> Vec<u8> {
    let columns = rows.first().map_or(&[][..], Vec::as_slice);
    let mut body = Vec::new();
    for n in [2, 1, columns.len() as u32] {
        write::u32(&mut body, n);
    }
    write::string(&mut body, "scripted");
    write::string(&mut body, "scripted");
    for (name, column_type, _) in columns {
        write::string(&mut body, name);
        body.extend(*column_type);
    }
    write::u32(&mut body, rows.len() as u32);
    for (_, _, value) in rows.iter().flatten() {
        write::bytes(&mut body, Some(value));
    }
    body
}

fn error(code: i32, message: &str) -> Vec<u8> {
    let mut body = Vec::new();
    let fields = &[];
    let error = ErrorBody {
        code,
        message,
        fields,
    };
    error.write(&mut body);
    body
}
