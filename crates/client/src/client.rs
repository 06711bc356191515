//! A client that waits for each answer.

use std::collections::{BTreeSet, VecDeque};
use std::io::{Error, ErrorKind, Read, Result, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use helenus_wire::{Compression, Opcode, flags, write};

use crate::answer::{Answer, Judged, Prepared, Row, invalid};
use crate::body::{
    BatchChild, Options, Statement, auth_response, batch, plain_token, prepare, request,
    set_values, startup,
};
use crate::codec::Codec;

/// Longest wait for an answer over connections that are opened here: generous, but nobody hangs.
pub const PATIENCE: Duration = Duration::from_secs(20);

const ONE: u16 = 1;
/// Stream ids that are used in turn.
const STREAMS: i16 = 1000;
/// Bytes that are read at a time.
const READ_BYTES: usize = 16 * 1024;

/// A connection. Whoever wants to send bytes that are no request writes to its stream.
pub struct Client<S> {
    pub stream: S,
    pub version: u8,
    codec: Codec,
    answers: VecDeque<Answer>,
    next_stream: i16,
    /// Streams of requests that nobody waits for any more, and that have not been answered.
    abandoned: BTreeSet<i16>,
    /// Why nothing more can be sent.
    ended: Option<String>,
    /// Nor can anything be received.
    is_garbled: bool,
    /// The flags of all requests.
    asked: u8,
}

impl Client<TcpStream> {
    /// Opens a TCP connection and nothing more.
    pub fn connect(address: SocketAddr, version: u8) -> Result<Self> {
        Self::of(TcpStream::connect_timeout(&address, PATIENCE)?, version)
    }

    /// A client over a connection that is open already.
    pub fn of(stream: TcpStream, version: u8) -> Result<Self> {
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(Self::over(stream, version))
    }

    /// This connection once more, for a thread that only sends.
    pub fn sender(&self) -> Result<Self> {
        let codec = self.codec.sender();
        Ok(Self::with(self.stream.try_clone()?, self.version, codec))
    }

    /// A connection that is ready for queries.
    pub fn ready(address: SocketAddr, version: u8) -> Result<Self> {
        let mut client = Self::connect(address, version)?;
        client.startup(None)?.map_err(Error::from)?;
        Ok(client)
    }
}

impl<S: Read + Write> Client<S> {
    pub fn over(stream: S, version: u8) -> Self {
        Self::compressing(stream, version, Compression::None)
    }

    pub fn compressing(stream: S, version: u8, compression: Compression) -> Self {
        Self::with(stream, version, Codec::new(version, compression))
    }

    fn with(stream: S, version: u8, codec: Codec) -> Self {
        Self {
            stream,
            version,
            codec,
            answers: VecDeque::new(),
            next_stream: 1,
            abandoned: BTreeSet::new(),
            ended: None,
            is_garbled: false,
            asked: 0,
        }
    }

    /// STARTUP and, if asked for, name and password.
    pub fn startup(&mut self, login: Option<(&str, &str)>) -> Judged<()> {
        let mut answer = self.hello(&[])?;
        if let Some((name, password)) = login
            && answer.opcode == Opcode::Authenticate as u8
        {
            answer = self.log_in(&plain_token(name, password))?;
        }
        match Opcode::from_number(answer.opcode) {
            Some(Opcode::Ready | Opcode::AuthSuccess) => Ok(Ok(())),
            Some(Opcode::Error) => Ok(Err(answer.fault()?)),
            _ => Err(invalid(format!(
                "opcode {} instead of READY",
                answer.opcode
            ))),
        }
    }

    /// STARTUP with these options beside those that it needs; READY, AUTHENTICATE or ERROR.
    pub fn hello(&mut self, options: &[(&str, &str)]) -> Result<Answer> {
        let body = startup(self.codec.compression(), options);
        self.call(Opcode::Startup as u8, &body)
    }

    /// Events of these kinds are wanted.
    pub fn register(&mut self, kinds: &[&str]) -> Result<()> {
        let mut body = Vec::new();
        write::string_list(&mut body, kinds);
        let answer = self.call(Opcode::Register as u8, &body)?;
        match answer.opcode == Opcode::Ready as u8 {
            true => Ok(()),
            false => Err(invalid(answer.error_text())),
        }
    }

    /// AUTH_RESPONSE with this token.
    pub fn log_in(&mut self, token: &[u8]) -> Result<Answer> {
        self.call(Opcode::AuthResponse as u8, &auth_response(token))
    }

    /// QUERY or EXECUTE.
    pub fn ask(&mut self, statement: Statement<'_>, options: &Options<'_>) -> Judged<Answer> {
        let body = request(self.version, statement, options);
        self.call(statement.opcode() as u8, &body)?.judged()
    }

    /// BATCH. `kind`: 0 is logged, 1 unlogged, 2 of counters.
    pub fn batch(
        &mut self,
        kind: u8,
        children: &[BatchChild<'_>],
        options: &Options<'_>,
    ) -> Judged<Answer> {
        let body = batch(self.version, kind, children, options);
        self.call(Opcode::Batch as u8, &body)?.judged()
    }

    /// A query that may be answered by an error.
    pub fn try_query(&mut self, cql: &str, consistency: u16) -> Judged<Answer> {
        self.ask(Statement::Text(cql), &Options::at(consistency))
    }

    /// A query that must work; the rows of its result, if any.
    pub fn query(&mut self, cql: &str) -> Result<Vec<Row>> {
        self.try_query(cql, ONE)?.map_err(Error::from)?.rows()
    }

    pub fn prepare(&mut self, cql: &str) -> Result<Prepared> {
        self.prepare_in(cql, None)
    }

    /// PREPARE that names a keyspace itself (v5).
    pub fn prepare_in(&mut self, cql: &str, keyspace: Option<&str>) -> Result<Prepared> {
        let answer = self.ask_to_prepare(cql, keyspace)?;
        answer.map_err(Error::from)?.prepared()
    }

    /// PREPARE that may be answered by an error.
    pub fn try_prepare(&mut self, cql: &str) -> Judged<Prepared> {
        match self.ask_to_prepare(cql, None)? {
            Ok(answer) => answer.prepared().map(Ok),
            Err(fault) => Ok(Err(fault)),
        }
    }

    fn ask_to_prepare(&mut self, cql: &str, keyspace: Option<&str>) -> Judged<Answer> {
        let body = prepare(self.version, cql, keyspace);
        self.call(Opcode::Prepare as u8, &body)?.judged()
    }

    pub fn execute(
        &mut self,
        prepared: &Prepared,
        values: &[&[u8]],
        consistency: u16,
    ) -> Judged<Answer> {
        let body = self.execute_body(prepared, values, consistency);
        self.call(Opcode::Execute as u8, &body)?.judged()
    }

    /// As drivers do it: without the columns, which they know from PREPARE.
    pub fn execute_known(&mut self, prepared: &Prepared, values: &[&[u8]]) -> Judged<Answer> {
        let values = set_values(values);
        let options = Options {
            values: Some(&values),
            skip_metadata: true,
            ..Options::at(ONE)
        };
        self.ask(Statement::Prepared(prepared.ids()), &options)
    }

    pub fn execute_body(&self, prepared: &Prepared, values: &[&[u8]], consistency: u16) -> Vec<u8> {
        let values = set_values(values);
        let options = Options {
            values: Some(&values),
            ..Options::at(consistency)
        };
        request(self.version, Statement::Prepared(prepared.ids()), &options)
    }

    pub fn query_body(&self, cql: &str, consistency: u16) -> Vec<u8> {
        let options = Options::at(consistency);
        request(self.version, Statement::Text(cql), &options)
    }

    /// One request and its answer.
    pub fn call(&mut self, opcode: u8, body: &[u8]) -> Result<Answer> {
        self.call_flagged(opcode, 0, body)
    }

    /// [`Self::call`] with flags in the header.
    pub fn call_flagged(&mut self, opcode: u8, flags: u8, body: &[u8]) -> Result<Answer> {
        self.check_ended()?;
        let stream = self.free_stream()?;
        self.push(stream, opcode, flags, body);
        self.flush()?;
        loop {
            match self.receive() {
                Ok(answer) if answer.stream == stream => return Ok(answer),
                // Events are skipped.
                Ok(answer) if answer.stream == -1 => {}
                Ok(answer) => {
                    self.abandoned.insert(stream);
                    return Err(invalid(format!("stream {} for {stream}", answer.stream)));
                }
                Err(e) => {
                    // The answer may come late.
                    if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) {
                        self.abandoned.insert(stream);
                    }
                    return Err(e);
                }
            }
        }
    }

    /// The next stream on which no answer is due.
    fn free_stream(&mut self) -> Result<i16> {
        for _ in 0..STREAMS {
            let stream = self.next_stream;
            self.next_stream = (stream + 1) % STREAMS;
            if !self.abandoned.contains(&stream) {
                return Ok(stream);
            }
        }
        Err(Error::other(format!(
            "{STREAMS} requests in a row were not answered in time: connect again"
        )))
    }

    pub fn send(&mut self, stream: i16, opcode: u8, body: &[u8]) -> Result<()> {
        self.push(stream, opcode, 0, body);
        self.flush()
    }

    /// [`Self::send`] with flags in the header; it leaves with those that are pushed behind it.
    pub fn push(&mut self, stream: i16, opcode: u8, flags: u8, body: &[u8]) {
        let write_body = |out: &mut Vec<u8>| out.extend_from_slice(body);
        self.asked |= flags;
        self.codec.push(stream, opcode, flags, write_body);
    }

    /// Sends what was pushed.
    ///
    /// # Errors
    /// It could not be sent as a whole. Nothing more can be.
    pub fn flush(&mut self) -> Result<()> {
        self.check_ended()?;
        let sent = self.send_pending();
        if let Err(e) = &sent {
            self.ended = Some(format!("a request could not be sent as a whole ({e})"));
        }
        sent
    }

    fn send_pending(&mut self) -> Result<()> {
        loop {
            let bytes = self.codec.pending();
            let len = bytes.len();
            if len == 0 {
                return self.stream.flush();
            }
            self.stream.write_all(bytes)?;
            self.codec.advance(len);
        }
    }

    fn check_ended(&self) -> Result<()> {
        match &self.ended {
            None => Ok(()),
            Some(why) => Err(Error::new(
                ErrorKind::NotConnected,
                format!("{why}: connect again"),
            )),
        }
    }

    /// True if an answer has come that nobody has received yet.
    pub fn has_answers(&self) -> bool {
        !self.answers.is_empty()
    }

    /// The next answer, or event. Of its flags, nobody need have asked for warnings. Late answers to calls that were not
    /// answered in time are skipped.
    pub fn receive(&mut self) -> Result<Answer> {
        let mut buffer = [0; READ_BYTES];
        loop {
            if let Some(answer) = self.answers.pop_front() {
                if self.abandoned.remove(&answer.stream) {
                    continue;
                }
                return match answer.flags & !(self.asked | flags::WARNING) {
                    0 => Ok(answer),
                    odd => Err(invalid(format!("an answer with the flags {odd:#04x}"))),
                };
            }
            if self.is_garbled {
                self.check_ended()?;
            }
            let len = match self.stream.read(&mut buffer) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(len) => len,
                Err(e) if e.kind() == ErrorKind::Interrupted => continue,
                Err(e) => return Err(e),
            };
            let answers = &mut self.answers;
            let fed = self
                .codec
                .feed(&buffer[..len], |answer| answers.push_back(answer));
            if let Err(error) = fed {
                self.ended = Some(format!(
                    "the server has sent bytes that are no answers ({error})"
                ));
                self.is_garbled = true;
                return Err(Error::new(ErrorKind::InvalidData, error));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Says these bytes, whatever it is told; nothing in time where there are none.
    struct Script {
        says: VecDeque<Vec<u8>>,
        told: Vec<u8>,
        is_full: bool,
    }

    impl Read for Script {
        fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
            let Some(said) = self.says.pop_front() else {
                return Ok(0);
            };
            if said.is_empty() {
                return Err(ErrorKind::WouldBlock.into());
            }
            buffer[..said.len()].copy_from_slice(&said);
            Ok(said.len())
        }
    }

    impl Write for Script {
        fn write(&mut self, bytes: &[u8]) -> Result<usize> {
            match self.is_full {
                true => Err(ErrorKind::WouldBlock.into()),
                false => self.told.write(bytes),
            }
        }

        fn flush(&mut self) -> Result<()> {
            Ok(())
        }
    }

    /// Of the flags and stream ids of empty results.
    fn client(says: &[[u8; 2]]) -> Client<Script> {
        let answers = says.iter();
        saying(answers.map(|[flags, stream]| answer(*flags, *stream)))
    }

    fn answer(flags: u8, stream: u8) -> Vec<u8> {
        vec![0x84, flags, 0, stream, 8, 0, 0, 0, 0]
    }

    fn saying(says: impl IntoIterator<Item = Vec<u8>>) -> Client<Script> {
        let script = Script {
            says: says.into_iter().collect(),
            told: Vec::new(),
            is_full: false,
        };
        Client::over(script, 4)
    }

    const LATE: Vec<u8> = Vec::new();

    #[test]
    fn an_answer_that_comes_late_is_not_that_of_the_next_request() {
        let halves = |bytes: Vec<u8>| [bytes[..4].to_vec(), bytes[4..].to_vec()];
        let [begun, rest] = halves(answer(0, 1));
        let says = [
            begun,
            LATE,
            rest,
            answer(0, 2),
            LATE,
            answer(0, 4),
            answer(0, 3),
        ];
        let mut client = saying(says);
        let options = Opcode::Options as u8;
        let call = |client: &mut Client<Script>| client.call(options, b"");
        let kind = |error: Error| error.kind();
        assert_eq!(call(&mut client).map_err(kind), Err(ErrorKind::WouldBlock));
        assert_eq!(call(&mut client).unwrap().stream, 2);
        assert_eq!(call(&mut client).map_err(kind), Err(ErrorKind::WouldBlock));
        assert_eq!(call(&mut client).unwrap().stream, 4);
        // What comes behind has been abandoned, too.
        let end = client.receive().map_err(kind);
        assert_eq!(end, Err(ErrorKind::UnexpectedEof));
        assert!(client.abandoned.is_empty());
    }

    #[test]
    fn a_stream_on_which_an_answer_is_due_is_not_used_again() {
        let count = usize::try_from(STREAMS).unwrap();
        let mut client = saying(std::iter::repeat_n(LATE, count));
        for _ in 0..count {
            let late = client.call(Opcode::Options as u8, b"").unwrap_err();
            assert_eq!(late.kind(), ErrorKind::WouldBlock);
        }
        let none = client.call(Opcode::Options as u8, b"").unwrap_err();
        assert!(none.to_string().contains("connect again"), "{none}");
    }

    #[test]
    fn a_connection_is_of_no_use_behind_half_a_request_or_bytes_that_are_no_answer() {
        let mut client = client(&[[0, 1], [0, 2]]);
        client.stream.is_full = true;
        let options = Opcode::Options as u8;
        assert!(client.call(options, b"").is_err());
        client.stream.is_full = false;
        let ended = client.call(options, b"").unwrap_err();
        assert!(ended.to_string().contains("connect again"), "{ended}");
        assert!(client.stream.told.is_empty());
        // What the server has said before tells why.
        assert_eq!(client.receive().unwrap().stream, 1);
        let mut client = saying([b"HTTP/1.1 ".to_vec(), answer(0, 2)]);
        assert!(client.call(options, b"").is_err());
        for ended in [client.call(options, b""), client.receive()] {
            let ended = ended.unwrap_err().to_string();
            assert!(ended.contains("connect again"), "{ended}");
        }
    }

    #[test]
    fn an_answer_is_of_its_request_and_has_no_flags_that_nobody_asked_for() {
        let (warning, tracing) = (flags::WARNING, flags::TRACING);
        for (answer, asked, is_taken) in [
            ([warning, 1], 0, true),
            ([tracing, 1], tracing, true),
            ([tracing, 1], 0, false),
            ([0, 7], 0, false),
        ] {
            let mut client = client(&[answer]);
            let taken = client.call_flagged(Opcode::Options as u8, asked, b"");
            assert_eq!(taken.is_ok(), is_taken, "{answer:?} to {asked}");
            assert_eq!(client.stream.told, [4, asked, 0, 1, 5, 0, 0, 0, 0]);
            let end = client.receive().unwrap_err();
            assert_eq!(end.kind(), ErrorKind::UnexpectedEof);
        }
    }

    #[test]
    fn what_is_pushed_leaves_together() {
        let mut client = client(&[]);
        client.push(1, Opcode::Options as u8, 0, b"");
        client.push(2, 0x55, 0x80, b"odd");
        assert!(client.stream.told.is_empty());
        client.flush().unwrap();
        let expected = b"\x04\0\0\x01\x05\0\0\0\0\x04\x80\0\x02\x55\0\0\0\x03odd";
        assert_eq!(client.stream.told, expected);
    }
}
