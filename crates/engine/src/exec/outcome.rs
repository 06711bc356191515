//! Outcomes of node requests, and the next step of the client request that they are for.

use helenus_policy::route::Plan;
use helenus_wire::{ErrorBody, Header, JoinedBody, Opcode, ResultKind, Version, code, result_kind};

use crate::keys::LinkKey;

/// A node's answer.
#[derive(Clone, Copy)]
pub(crate) struct Response<'a> {
    pub header: Header,
    /// Tracing id, warnings and payload.
    pub prelude: &'a [u8],
    /// The body behind them.
    pub content: &'a [u8],
    /// In which the node has written it.
    pub version: Version,
    /// From sending to the answer.
    pub service_us: u32,
    /// Over which it came.
    pub link: LinkKey,
}

impl<'a> Response<'a> {
    /// This response with a prelude in front of its content.
    pub(crate) fn with(self, header: Header, prelude: &'a [u8]) -> Response<'a> {
        Response {
            header,
            prelude,
            ..self
        }
    }

    pub(crate) fn has_rows(&self) -> bool {
        self.header.opcode == Opcode::Result as u8
            && matches!(result_kind(self.content), Ok(ResultKind::Rows))
    }
}

/// The outcome of a node request.
pub(crate) enum Outcome<'a> {
    Answered(Response<'a>),
    Failed(Failure<'a>),
}

impl<'a> Outcome<'a> {
    /// `untried`: where the node request could have gone next.
    pub(crate) fn of_response(
        response: Response<'a>,
        untried: Option<Plan>,
        in_doubt: bool,
    ) -> Outcome<'a> {
        if response.header.opcode == Opcode::Error as u8
            && let Ok(error) = ErrorBody::parse(response.content)
        {
            let by = FailedBy::Node(response.version);
            return Outcome::Failed(Failure {
                by,
                error,
                header_flags: response.header.flags,
                prelude: response.prelude,
                untried,
                in_doubt,
            });
        }
        Outcome::Answered(response)
    }

    /// The proxy ends it for a reason of its own.
    pub(crate) fn of_proxy(
        error: ErrorBody<'a>,
        untried: Option<Plan>,
        in_doubt: bool,
    ) -> Outcome<'a> {
        Outcome::Failed(Failure {
            by: FailedBy::Proxy,
            error,
            header_flags: 0,
            prelude: &[],
            untried,
            in_doubt,
        })
    }

    /// The client gets it.
    pub(crate) fn unchanged(self) -> Step<'a> {
        match self {
            Outcome::Answered(_) => Step::PassThrough,
            Outcome::Failed(failure) if failure.by != FailedBy::Proxy => Step::PassThrough,
            Outcome::Failed(failure) => Step::Failed(failure),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FailedBy {
    /// In whose version its fields are.
    Node(Version),
    Proxy,
}

/// Why a node request has no answer that is of use.
#[derive(Debug)]
pub(crate) struct Failure<'a> {
    pub by: FailedBy,
    pub error: ErrorBody<'a>,
    /// Of the node's answer, as is its prelude.
    pub header_flags: u8,
    /// Tracing id, warnings and payload.
    pub prelude: &'a [u8],
    /// Where it could have gone next.
    pub untried: Option<Plan>,
    /// An earlier attempt may have been carried out.
    pub in_doubt: bool,
}

impl Failure<'_> {
    /// Nothing else is to be asked then.
    pub(crate) fn is_of_overload(&self) -> bool {
        self.error.code == code::OVERLOADED
    }

    /// Nodes say in these words that a page is larger than they take.
    pub(crate) fn is_of_page_size(&self) -> bool {
        let message = self.error.message;
        self.error.code == code::INVALID && message.starts_with("Guardrail page_size ")
    }

    pub(crate) fn is_refusal(&self) -> bool {
        is_refusal(self.error.code)
    }

    pub(crate) fn is_unprepared(&self) -> bool {
        self.error.code == code::UNPREPARED
    }
}

/// True if no node has begun a statement that it has answered so.
pub(crate) fn is_refusal(code: i32) -> bool {
    matches!(
        code,
        code::PROTOCOL
            | code::SYNTAX
            | code::UNAUTHORIZED
            | code::INVALID
            | code::CONFIG
            | code::ALREADY_EXISTS
            | code::UNPREPARED
    )
}

/// An answer that waits for something else.
#[derive(Debug)]
pub(crate) struct KeptAnswer {
    pub opcode: Opcode,
    pub header_flags: u8,
    pub body: Vec<u8>,
    /// In which it is written.
    pub version: Version,
}

impl KeptAnswer {
    /// A node's answer.
    pub(crate) fn of_response(response: &Response<'_>) -> KeptAnswer {
        KeptAnswer {
            opcode: Opcode::Result,
            header_flags: response.header.flags,
            body: [response.prelude, response.content].concat(),
            version: response.version,
        }
    }

    /// `own`: the version of what the proxy says itself.
    pub(crate) fn of_failure(failure: &Failure<'_>, own: Version) -> KeptAnswer {
        let mut body = failure.prelude.to_vec();
        failure.error.write(&mut body);
        KeptAnswer {
            opcode: Opcode::Error,
            header_flags: failure.header_flags,
            body,
            version: match failure.by {
                FailedBy::Node(version) => version,
                FailedBy::Proxy => own,
            },
        }
    }

    /// The proxy's own error.
    pub(crate) fn of_error(error: ErrorBody<'_>, version: Version) -> KeptAnswer {
        let mut body = Vec::with_capacity(error.message.len() + error.fields.len() + 8);
        error.write(&mut body);
        KeptAnswer {
            opcode: Opcode::Error,
            header_flags: 0,
            body,
            version,
        }
    }
}

/// The next step of a client request.
pub(crate) enum Step<'a> {
    /// Nothing until another of its node requests is answered.
    Wait,
    /// It goes whole after all.
    Whole,
    /// Its client gets the node's answer.
    PassThrough,
    /// Its client gets an answer that was kept.
    Kept(KeptAnswer),
    /// Its client gets an answer that was kept, once the nodes agree on the schema. The link goes to the node that has changed
    /// it last.
    Agreed(KeptAnswer, LinkKey),
    /// Its client gets these rows.
    Done { header_flags: u8, body: JoinedBody },
    /// Its client gets an error.
    Failed(Failure<'a>),
    /// A node's answer cannot be understood.
    Broken(String),
    /// There is no room for what it holds.
    NoMemory,
    /// Nobody waits for it any more.
    Unwanted,
}
