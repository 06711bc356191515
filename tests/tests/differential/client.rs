//! A bare client: one request, one answer, bodies as they came.

use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use helenus_client::{Compression, Opcode};
use helenus_wire::Version;

pub(crate) use helenus_client::Answer;

/// Longer than any time-out of the nodes or the proxy in these tests.
const PATIENCE: Duration = Duration::from_secs(900);

/// A protocol version and a compression.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dialect {
    pub version: Version,
    pub compression: Compression,
}

pub(crate) struct Client {
    address: SocketAddr,
    dialect: Dialect,
    of: helenus_client::Client<TcpStream>,
    stream: i16,
}

impl Client {
    /// Connects and gets ready.
    pub(crate) fn connect(address: SocketAddr, dialect: Dialect) -> Result<Client> {
        let socket = TcpStream::connect(address).with_context(|| format!("connect {address}"))?;
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(PATIENCE))?;
        let version = dialect.version as u8;
        let mut of = helenus_client::Client::compressing(socket, version, dialect.compression);
        let answer = of.hello(&[])?;
        ensure!(
            answer.opcode == Opcode::Ready as u8,
            "{address} answers STARTUP with {answer:?}"
        );
        Ok(Client {
            address,
            dialect,
            of,
            stream: 0,
        })
    }

    /// Makes the connection anew, after the server has closed it.
    pub(crate) fn reconnect(&mut self) -> Result<()> {
        *self = Client::connect(self.address, self.dialect)?;
        Ok(())
    }

    /// Another connection to the same server, in the same dialect.
    pub(crate) fn again(&self) -> Result<Client> {
        Client::connect(self.address, self.dialect)
    }

    /// Sends requests without waiting for any answer: each on the stream of its number.
    pub(crate) fn send_all(&mut self, requests: &[(Opcode, Vec<u8>)]) -> Result<()> {
        for (stream, (opcode, body)) in (0..).zip(requests) {
            self.of.push(stream, *opcode as u8, 0, body);
        }
        Ok(self.of.flush()?)
    }

    /// Their answers, in the order of the requests.
    pub(crate) fn receive_all(&mut self, number: usize) -> Result<Vec<Answer>> {
        let mut answers: Vec<Option<Answer>> = vec![None; number];
        for _ in 0..number {
            let answer = self.receive()?;
            match answers.get_mut(answer.stream as usize) {
                Some(place @ None) => *place = Some(answer),
                _ => bail!("{} answers more than it was asked", self.address),
            }
        }
        self.check_nothing_more()?;
        Ok(answers.into_iter().flatten().collect())
    }

    fn check_nothing_more(&self) -> Result<()> {
        ensure!(
            !self.of.has_answers(),
            "{} answers more than it was asked",
            self.address
        );
        Ok(())
    }

    fn receive(&mut self) -> Result<Answer> {
        let answer = self.of.receive();
        answer.with_context(|| format!("no answer from {}", self.address))
    }

    /// Sends a request and waits for its answer.
    pub(crate) fn ask(&mut self, opcode: Opcode, flags: u8, body: &[u8]) -> Result<Answer> {
        self.stream = (self.stream + 1) % 1000;
        self.of.push(self.stream, opcode as u8, flags, body);
        self.of.flush()?;
        let answer = self.receive()?;
        // A node that could not read a request at all may not know its stream.
        ensure!(
            answer.stream == self.stream || answer.stream == 0,
            "{} answers more than it was asked",
            self.address
        );
        self.check_nothing_more()?;
        Ok(answer)
    }
}
