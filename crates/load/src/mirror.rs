//! Reads of a running proxy's clients, sent to one or two other endpoints while they come.
//!
//! A capture of the proxy says what was asked; each read of it is sent a second later, with the gaps with which
//! reads came. Requests that fall behind are dropped and counted; the proxy and its clients never wait for any of this.

mod backoff;
mod clock;
mod compared;
mod connections;
mod counted;
mod options;
mod outcome;
mod pages;
mod queue;
mod request;
mod statements;
#[cfg(test)]
mod tests;

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};
use helenus_capture::{Event, Follower, MIRROR_NAME, Recorded, Start, Statement, kinds};
use helenus_wire::Opcode;
use tokio::task::JoinSet;
use tokio::time::error::Elapsed;
use tokio::time::{interval_at, sleep_until, timeout_at};

use crate::client::endpoint::Endpoint;
use crate::replay::step::{Step, byte_len, judged, why_not};

pub use counted::Interval;
pub use options::Options;
pub use outcome::{Outcome, Progress};
pub use queue::Limits;

use clock::{Clock, DELAY};
use connections::Connections;
use counted::Counted;
use queue::Queue;
use request::{Played, Request, Target, play};
use statements::{KEPT_MAX, Statements};

/// How long the last answers are waited for.
const END_PATIENCE: Duration = Duration::from_secs(5);
/// A capture has a mark every second. Without any of its bytes for so long, nothing more will come.
const SILENCE_MAX: Duration = Duration::from_secs(30);
const GONE: &str = "the proxy has stopped, or has given this reader up; its log says which";
/// The name of the clients' own answers beside those of endpoints.
pub const CLIENTS: &str = "clients";

/// A capture as it comes.
pub trait Source {
    /// The next bytes; None at the end. It may be given up while it waits, and loses nothing then.
    fn next(&mut self) -> impl Future<Output = Result<Option<Vec<u8>>>>;
}

/// Endpoints that are ready.
pub struct Mirror {
    targets: Vec<Arc<Target>>,
    arms: Vec<String>,
    options: Options,
}

impl Mirror {
    /// Connects to one endpoint or two.
    ///
    /// # Errors
    /// One of them cannot be reached. Later that is no error: it may come back.
    pub async fn open(endpoints: &[Endpoint], options: Options) -> Result<Mirror> {
        ensure!(
            (1..=2).contains(&endpoints.len()),
            "reads are sent to one endpoint or two"
        );
        let (mut targets, mut arms) = (Vec::new(), vec![CLIENTS.to_owned()]);
        for (place, endpoint) in endpoints.iter().enumerate() {
            let mut endpoint = endpoint.clone();
            endpoint.application = Some(MIRROR_NAME);
            let connections = Connections::open(&endpoint, options.connections).await?;
            targets.push(Target::new(place, connections));
            arms.push(endpoint.name);
        }
        Ok(Mirror {
            targets,
            arms,
            options,
        })
    }

    /// Follows a capture until it ends, or `stop` does. The outcome tells of errors on the way.
    ///
    /// # Errors
    /// None of the capture's making.
    pub async fn run(
        self,
        mut source: impl Source,
        stop: impl Future<Output = ()>,
        mut on_progress: impl FnMut(Progress),
    ) -> Result<Outcome> {
        let began = Instant::now();
        let mut run = Run::new(&self, began);
        let mut stop = std::pin::pin!(stop);
        let every = self.options.progress;
        let mut ticks = interval_at((began + every).into(), every);
        let (mut is_coming, mut is_stopped, mut until) = (true, false, None);
        let mut heard = tokio::time::Instant::now();
        loop {
            let now = Instant::now();
            run.send(now);
            if !is_coming && run.queue.is_empty() {
                if run.in_flight.is_empty() {
                    break;
                }
                until.get_or_insert(now + END_PATIENCE);
            }
            let due = run.next_due();
            tokio::select! {
                next = timeout_at(heard + SILENCE_MAX, source.next()), if is_coming => {
                    heard = tokio::time::Instant::now();
                    is_coming = run.take(next);
                }
                Some(done) = run.in_flight.join_next() => run.on_done(done.context("a request failed")?),
                () = sleep_until(due.unwrap_or(now).into()), if due.is_some() => {}
                () = sleep_until(until.unwrap_or(now).into()), if until.is_some() => break,
                _ = ticks.tick() => on_progress(run.progress()),
                () = &mut stop, if !is_stopped => {
                    (is_coming, is_stopped) = (false, true);
                    run.unfinished += run.queue.clear();
                }
            }
        }
        Ok(run.outcome())
    }
}

/// A request that was sent, or left out.
struct Done {
    request: Request,
    played: Played,
    bytes: usize,
}

/// A capture that is followed.
struct Run<'a> {
    mirror: &'a Mirror,
    began: Instant,
    follower: Follower,
    /// None until the capture has begun.
    clock: Option<Clock>,
    classes: Vec<String>,
    has_ended: bool,
    statements: Statements,
    queue: Queue<Request>,
    in_flight: JoinSet<Done>,
    counted: Counted,
    sent: u64,
    /// At the last progress.
    shown: (Instant, u64),
    lost: u64,
    unfinished: u64,
    broken_off: Option<String>,
}

impl<'a> Run<'a> {
    fn new(mirror: &'a Mirror, began: Instant) -> Run<'a> {
        let endpoints = mirror.targets.len();
        Run {
            mirror,
            began,
            follower: Follower::default(),
            clock: None,
            classes: Vec::new(),
            has_ended: false,
            statements: Statements::new(endpoints),
            queue: Queue::new(mirror.options.limits),
            in_flight: JoinSet::new(),
            counted: Counted::new(endpoints),
            sent: 0,
            shown: (began, 0),
            lost: 0,
            unfinished: 0,
            broken_off: None,
        }
    }

    /// Takes what has come; false at the end.
    fn take(&mut self, next: Result<Result<Option<Vec<u8>>>, Elapsed>) -> bool {
        let taken = match next {
            Ok(Ok(Some(bytes))) => self.on_bytes(&bytes),
            Ok(Ok(None)) => Err(anyhow!(GONE)),
            Ok(Err(e)) => Err(e.context(GONE)),
            Err(_) => Err(anyhow!(
                "nothing has come from the proxy for {SILENCE_MAX:?}: see whether it hangs, or cannot be reached"
            )),
        };
        if let Err(e) = taken {
            self.broken_off = Some(format!("{e:#}"));
            return false;
        }
        // The fate of the connection after the end is of no interest.
        !self.has_ended
    }

    fn on_bytes(&mut self, bytes: &[u8]) -> Result<()> {
        let now = Instant::now();
        self.follower.handle_bytes(bytes);
        while let Some(event) = self.follower.poll_event()? {
            match (event, &mut self.clock) {
                (Event::Start(start), _) => self.on_start(start, now)?,
                (Event::Mark(mark), Some(clock)) => {
                    clock.on_mark(Duration::from_micros(mark.at_us), now);
                    self.lost = mark.lost;
                }
                (Event::End(end), _) => {
                    (self.lost, self.has_ended) = (end.mark.lost, true);
                    break;
                }
                (
                    Event::Chunk {
                        statements,
                        requests,
                    },
                    Some(clock),
                ) => {
                    let clock = *clock;
                    let statements: Vec<Statement> = statements.into_iter().map(judged).collect();
                    for one in requests {
                        self.on_recorded(one, &statements, clock);
                    }
                }
                // The start comes first.
                (Event::Mark(_) | Event::Chunk { .. }, None) => {}
            }
        }
        Ok(())
    }

    fn on_start(&mut self, start: Start, now: Instant) -> Result<()> {
        if !start.has_values {
            bail!("the capture has no values, and no read can be sent without them");
        }
        self.clock = Some(Clock::new(now));
        self.classes = start.classes;
        Ok(())
    }

    fn on_recorded(&mut self, one: Recorded, statements: &[Statement], clock: Clock) {
        let writes = Some("writes, which are never sent");
        if let Some(why) = why_not(&one, |number| &statements[number], writes) {
            return self.counted.leave_out(why, 1);
        }
        let (Some(answer), Some((number, _))) = (one.answer, one.parts.first()) else {
            let why =
                "requests that were not answered before their client left or the capture ended";
            return self.counted.leave_out(why, 1);
        };
        if one.request.opcode == Opcode::Batch as u8 {
            return self
                .counted
                .leave_out("batches of reads, which nodes refuse", 1);
        }
        let statement = &statements[*number];
        let is_prepared = one.request.opcode != Opcode::Query as u8;
        let Some(known) = self.statements.of(statement, is_prepared) else {
            let why = format!(
                "requests of further prepared statements: {KEPT_MAX} different ones, or 64 MiB of them, are \
                 kept at most"
            );
            return self.counted.leave_out(&why, 1);
        };
        let mut hasher = DefaultHasher::new();
        (one.worker, one.request.connection).hash(&mut hasher);
        // A statement that was not prepared is not kept, so the request brings its text along.
        let text_bytes = match is_prepared {
            true => 0,
            false => statements::byte_len(statement),
        };
        let bytes = byte_len(&one) + size_of::<Request>() + text_bytes;
        let skips_metadata = one.request.skips_metadata();
        let mut step = Step::of(one, 0, statement.kinds & kinds::READ != 0);
        // Two endpoints are also compared by the names and types of columns.
        step.skips_metadata = skips_metadata && self.mirror.targets.len() == 1;
        let (due, answered) = (clock.at(step.due + DELAY), clock.at(step.answered));
        let request = Request {
            step,
            known,
            connection: hasher.finish(),
            answer,
        };
        self.queue.push(request, due, answered, bytes);
    }

    /// Sends what is due.
    fn send(&mut self, now: Instant) {
        while self.has_room()
            && let Some((request, bytes)) = self.queue.pop(now)
        {
            let targets = self.mirror.targets.clone();
            self.sent += 1;
            self.in_flight.spawn(async move {
                let played = play(&request, &targets).await;
                Done {
                    request,
                    played,
                    bytes,
                }
            });
        }
        self.queue.drop_surplus(now);
    }

    fn has_room(&self) -> bool {
        self.in_flight.len() < self.mirror.options.in_flight_max
    }

    /// When there is something to send next.
    fn next_due(&self) -> Option<Instant> {
        self.queue.next_due().filter(|_| self.has_room())
    }

    fn on_done(&mut self, done: Done) {
        self.queue.release(done.bytes);
        match done.played {
            Played::Answered(samples) => self.counted.add(&done.request, &samples),
            Played::Not(why) => {
                self.sent -= 1;
                self.counted.leave_out(&why, 1);
            }
        }
    }

    fn progress(&mut self) -> Progress {
        let now = Instant::now();
        let (at, sent) = std::mem::replace(&mut self.shown, (now, self.sent));
        let seconds = now.saturating_duration_since(at).as_secs_f64();
        Progress {
            since_began: now - self.began,
            sent_per_s: self.sent.saturating_sub(sent) as f64 / seconds.max(0.001),
            dropped: self.queue.dropped().all(),
            lost: self.lost,
            behind: self.queue.lag(now),
            of: self.counted.interval(),
            differences: self.counted.differences,
        }
    }

    fn outcome(self) -> Outcome {
        let dropped = self.queue.dropped();
        let statements = &self.statements;
        Outcome {
            arms: self.mirror.arms.clone(),
            seconds: self.began.elapsed().as_secs_f64(),
            played: self.counted.played,
            dropped: dropped.all(),
            dropped_behind: dropped.behind,
            dropped_bytes: dropped.bytes,
            dropped_late: dropped.late,
            lost: self.lost,
            unfinished: self.unfinished + self.in_flight.len() as u64,
            not_played: self.counted.not_played.clone(),
            groups: self
                .counted
                .groups(&self.classes, |shown| statements.text(shown)),
            broken_off: self.broken_off,
        }
    }
}
