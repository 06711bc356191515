//! Aggregates that are computed from those of parts of the ring.
//!
//! The number of parts follows from the number of rows that the statement has gone over before. If that
//! is not known, a sample of the ring is read first: the rest of a small table is then read in one part,
//! that of a large one in many, as soon as the nodes have the statement prepared. An aggregate that fits
//! into one part is sent as it came, and its answer is learned from as well, since tables grow.

use helenus_cql::Fold;
use helenus_policy::schedule::Class;
use helenus_wire::{Opcode, RowsJoin, RowsView};

use crate::engine::{Engine, RequestKey};
use crate::execution::fold::{fold, rows_counted};
use crate::execution::in_range::Preparation;
use crate::execution::paged_scan::Scan;
use crate::execution::scatter_gather::Part;
use crate::execution::token_splits::{AggregatePlan, Stretch};
use crate::statement::prepared::Statement;

/// What nodes say of aggregates without a partition key; the parts have at least its token.
const WARNING: &str = "Aggregation query used without partition key";

/// Assumed cost of a row that is aggregated but not counted, in microseconds, on top of what a request
/// over no rows may take.
const ROW_US: u32 = 20;
const REQUEST_US: u32 = 20_000;
/// What takes longer than this has read more rows than it has counted: a filter drops them.
const COUNTED_US: u32 = 50_000;
/// The same for a part that may have waited for others in its node.
const COUNTED_BESIDE_US: u32 = 1_000_000;

/// What has not been sent yet of an aggregate.
#[derive(Debug)]
pub(crate) enum Rest {
    /// A sample will tell how it is to be cut.
    Uncut(Stretch),
    /// The nodes are preparing the statement.
    Cut(Vec<Stretch>),
}

impl Engine {
    /// Reads aggregates in parts, if that is worth it; false if they must go as they are.
    pub(crate) fn begin_aggregate(&mut self, key: RequestKey) -> bool {
        let plan = self.plan_aggregate(key);
        if matches!(plan, AggregatePlan::AsItIs) || !self.open_fan(key) {
            self.go_as_it_is(key);
            return false;
        }
        let begun = match plan {
            AggregatePlan::AsItIs => false,
            AggregatePlan::Parts { parts, rows } => self.launch_rest(key, parts, rows),
            AggregatePlan::Sample { sample, rest } => {
                if let Some(fan) = self.fan(key) {
                    fan.rest = Some(Rest::Uncut(rest));
                }
                self.launch(key, vec![Part::of(sample)])
            }
        };
        if !begun {
            if let Some((scan, _)) = self.scan_and_learned(key) {
                scan.fan = None;
            }
            self.go_as_it_is(key);
        }
        begun
    }

    /// All parts that were sent have come back: there may be more to send.
    pub(crate) fn advance_aggregate(&mut self, key: RequestKey) {
        let Some(fan) = self.fan(key) else {
            return;
        };
        let rows = fan.rows;
        let Some(rest) = fan.rest.take() else {
            return self.fold_parts(key);
        };
        let Some((scan, learned)) = self.scan_and_learned(key) else {
            return;
        };
        if let Rest::Uncut(stretch) = rest {
            let known = learned.pieces();
            let left = scan.left().unwrap_or(stretch);
            let sampled = (left.tokens() - stretch.tokens()).max(1);
            let density = (rows as f64).max(0.5) / sampled as f64;
            let parts = self.cut_aggregate(stretch, density, &known);
            let parts = parts.unwrap_or_else(|| vec![stretch]);
            if !self.launch_rest(key, parts, density * stretch.tokens() as f64) {
                self.abandon_fan(key);
            }
        }
    }

    /// The nodes have prepared the statement over parts of the ring, or refused to.
    pub(crate) fn resume_aggregate(&mut self, key: RequestKey) {
        if !self.is_wanted(key) {
            return self.drop_request(key);
        }
        let Some(request) = self.requests.get(key) else {
            return;
        };
        let form = self.range_form(request);
        let Some(fan) = self.fan(key) else {
            return;
        };
        fan.form = form;
        if let Some(Rest::Cut(parts)) = fan.rest.take() {
            let parts = parts.into_iter().map(Part::of).collect();
            if !self.launch(key, parts) {
                self.abandon_fan(key);
            }
        }
    }

    /// Sends the rest, of which `rows` rows are expected, now or as soon as the nodes have prepared it. A
    /// single part may be a text.
    fn launch_rest(&mut self, key: RequestKey, parts: Vec<Stretch>, rows: f64) -> bool {
        let Some((scan, learned)) = self.scan_and_learned(key) else {
            return false;
        };
        let Some(fan) = scan.fan.as_mut() else {
            return false;
        };
        fan.expect(rows, parts.len(), |rows| learned.pieces().work_us(rows));
        let several = parts.len() > 1;
        // Before anybody is asked: the answer may be there at once, and then goes on with these.
        fan.rest = Some(Rest::Cut(parts));
        if several && self.prepare_range(key) == Preparation::UnderWay {
            return true;
        }
        let form = match self.requests.get(key) {
            Some(request) => self.range_form(request),
            None => return false,
        };
        let Some(fan) = self.fan(key) else {
            return false;
        };
        let Some(Rest::Cut(parts)) = fan.rest.take() else {
            return true;
        };
        fan.form = form;
        self.launch(key, parts.into_iter().map(Part::of).collect())
    }

    /// Aggregates that are not read in parts go as they are.
    pub(crate) fn go_as_it_is(&mut self, key: RequestKey) {
        if let Some((scan, learned)) = self.scan_and_learned(key)
            && scan.is_folded()
        {
            scan.go_as_it_is(learned.service_us(Class::Scan));
        }
    }

    /// A request has timed out. If it was an aggregate that was sent as it is, the next one is sampled.
    pub(crate) fn note_read_timeout(&mut self, key: RequestKey) {
        if let Some((scan, learned)) = self.scan_and_learned(key)
            && scan.is_as_it_is()
        {
            learned.forget_density();
        }
    }

    /// The aggregates of all parts are made into one row.
    fn fold_parts(&mut self, key: RequestKey) {
        let skips_metadata = self.skips_metadata(key);
        let Some(request) = self.request(key) else {
            return;
        };
        let Some(scan) = request.scan.as_ref() else {
            return;
        };
        let Some(fan) = scan.fan.as_ref() else { return };
        let pages: Option<Vec<RowsView<'_>>> =
            fan.contents().map(|p| RowsView::parse(p).ok()).collect();
        let folded = pages.and_then(|pages| {
            let row = fold(&scan.folds, &pages)?;
            let mut join = RowsJoin::with_capacity(row.len());
            join.push(&pages.first()?.with_rows(&row, 1)).ok()?;
            Some(join)
        });
        let now = self.cx.now;
        let Some(mut join) = folded else {
            // Values of which only the nodes know the order, or how they add up.
            if let Some((_, learned)) = self.scan_and_learned(key) {
                learned.suspend(now);
            }
            return self.abandon_fan(key);
        };
        let Some(request) = self.request(key) else {
            return;
        };
        let (Some(mut scan), Some(statement)) = (request.scan.take(), request.statement.clone())
        else {
            return;
        };
        let Some(fan) = scan.fan.take() else { return };
        let select = statement.facts.select.as_deref();
        if select.is_some_and(|select| select.tokens.is_empty()) {
            scan.warn_first(WARNING);
        }
        if let Some(stretch) = scan.left() {
            statement.learned.note_density(fan.rows, stretch.tokens());
        }
        if fan.skip_metadata && skips_metadata {
            join.skip_metadata();
        }
        let mut warnings = Vec::new();
        let header_flags = scan.write_warnings(&mut warnings);
        let body = join.into_body(warnings);
        self.cx.memory.sub(fan.byte_len());
        let version = self.cx.snapshot.version;
        self.answer_clients(key, Opcode::Result, header_flags, body, version);
    }
}

/// Whether other parts were under way with one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Beside {
    Nothing,
    Others,
}

/// The rows behind a part's aggregates: those that it counted, or, if that is more, those that the time
/// it took suggests. Only the size of parts and their predicted work depend on it.
pub(crate) fn rows_folded(
    folds: &[Fold],
    page: &RowsView<'_>,
    service_us: u32,
    beside: Beside,
) -> usize {
    let in_time = |from_us| (service_us.saturating_sub(from_us) / ROW_US) as usize;
    match (rows_counted(folds, page), beside) {
        (Some(counted), Beside::Nothing) => counted.max(in_time(COUNTED_US)),
        (Some(counted), Beside::Others) => counted.max(in_time(COUNTED_BESIDE_US)),
        (None, _) => in_time(REQUEST_US),
    }
}

/// Learns from aggregates that were sent as they are how many rows they go over.
pub(crate) fn note_as_it_is(
    scan: &Scan,
    statement: &Statement,
    page: &RowsView<'_>,
    service_us: u32,
) {
    if let Some(stretch) = scan.left() {
        let rows = rows_folded(&scan.folds, page, service_us, Beside::Nothing);
        statement.learned.note_density(rows, stretch.tokens());
    }
}
