//! Aggregates as they are carried out: whole, or in parts.

use helenus_wire::RowsView;

use crate::exec::context::ExecContext;
use crate::exec::outcome::{Outcome, Step};
use crate::exec::scan::aggregate::{Aggregate, Beside, Flow, NO_PAGE_SIZE, Rest, rows_folded};
use crate::exec::scan::plan_parts::plan_aggregate;
use crate::exec::scan::ring_parts::{Asked, AtOnce, RingParts};
use crate::exec::scan::token_splits::AggregatePlan;
use crate::exec::strategy::Strategy;
use crate::keys::NodeRequestKey;
use crate::statement::learned::Learned;

impl Strategy for Aggregate {
    fn begin(&mut self, cx: &mut ExecContext<'_>) -> Step<'static> {
        let plan = plan_aggregate(cx, self.bounds);
        let Some(bounds) = self.bounds else {
            return self.send_whole(cx);
        };
        let page_size = self
            .page_size
            .map(|size| i32::try_from(size).unwrap_or(i32::MAX));
        let asked = Asked {
            page_size: page_size.unwrap_or(NO_PAGE_SIZE),
            state: None,
            bounds,
            above: bounds.above,
            owners: self.owners.clone(),
        };
        let new = || Box::new(RingParts::new(cx, asked, AtOnce::Few));
        match plan {
            AggregatePlan::AsItIs => self.send_whole(cx),
            AggregatePlan::Parts { parts, rows } => {
                let (new, rest) = (new(), None);
                self.flow = Flow::Parts { parts: new, rest };
                self.launch_rest(cx, parts, rows)
            }
            AggregatePlan::Sample { sample, rest } => {
                let (parts, rest) = (new(), Some(Rest::Uncut(rest)));
                self.flow = Flow::Parts { parts, rest };
                self.launch(cx, vec![sample])
            }
        }
    }

    fn on_whole<'a>(&mut self, cx: &mut ExecContext<'_>, outcome: Outcome<'a>) -> Step<'a> {
        let (Some(statement), Outcome::Answered(response)) = (cx.statement(), &outcome) else {
            return outcome.unchanged();
        };
        if !response.has_rows() {
            return Step::PassThrough;
        }
        let page = match RowsView::parse(response.content) {
            Ok(page) => page,
            Err(e) => return Step::Broken(e.to_string()),
        };
        if std::mem::take(&mut self.parts_refused) {
            cx.blame_parts(statement);
        }
        if let Some(stretch) = self.bounds {
            let rows = rows_folded(&self.folds, &page, response.service_us, Beside::Nothing);
            statement.learned.note_density(rows, stretch.tokens());
        }
        Step::PassThrough
    }

    fn on_part<'a>(
        &mut self,
        cx: &mut ExecContext<'_>,
        index: u16,
        outcome: Outcome<'a>,
    ) -> Step<'a> {
        match outcome {
            Outcome::Answered(response) => self.on_part_answered(cx, index, response),
            Outcome::Failed(failure) => self.on_part_failed(cx, index, failure),
        }
    }

    fn on_range_settled(&mut self, cx: &mut ExecContext<'_>) -> Step<'static> {
        let Flow::Parts { parts, rest } = &mut self.flow else {
            return Step::Wait;
        };
        let Some(Rest::Cut(stretches)) = rest.take_if(|rest| matches!(rest, Rest::Cut(_))) else {
            return Step::Wait;
        };
        if !cx.is_wanted {
            return Step::Unwanted;
        }
        parts.adopt_form(cx);
        self.launch(cx, stretches)
    }

    fn whole(&self) -> Option<NodeRequestKey> {
        match &self.flow {
            Flow::AsItIs(request) => *request,
            Flow::Parts { .. } => None,
        }
    }

    fn children(&self) -> Vec<NodeRequestKey> {
        match &self.flow {
            Flow::Parts { parts, .. } => parts.children(),
            Flow::AsItIs(_) => Vec::new(),
        }
    }

    fn awaits(&self, part: u16, child: NodeRequestKey) -> bool {
        matches!(&self.flow, Flow::Parts { parts, .. } if parts.gather.awaits(part, child))
    }

    fn is_in_parts(&self) -> bool {
        matches!(self.flow, Flow::Parts { .. })
    }

    fn halved(&self, part: u16) -> u8 {
        let Flow::Parts { parts, .. } = &self.flow else {
            return 0;
        };
        let part = parts.gather.parts().get(usize::from(part));
        part.map_or(0, |part| part.of.halved)
    }

    fn name(&self) -> &'static str {
        match self.flow {
            Flow::Parts { .. } => "aggregate in parts",
            Flow::AsItIs(_) => "aggregate",
        }
    }

    fn byte_len(&self) -> usize {
        match &self.flow {
            Flow::Parts { parts, .. } => parts.gather.byte_len(),
            Flow::AsItIs(_) => 0,
        }
    }

    /// The next one is sampled.
    fn note_timeout(&self, learned: &Learned) {
        if matches!(self.flow, Flow::AsItIs(_)) {
            learned.forget_density();
        }
    }
}
