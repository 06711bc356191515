//! Pages of scans as they are carried out: in pieces, in parts, or in stretches.

use crate::exec::context::ExecContext;
use crate::exec::outcome::{Outcome, Step};
use crate::exec::scan::paged::{Flow, PagedScan};
use crate::exec::strategy::Strategy;
use crate::keys::NodeRequestKey;

impl Strategy for PagedScan {
    fn begin(&mut self, cx: &mut ExecContext<'_>) -> Step<'static> {
        match self.begin_stretches(cx) || self.begin_parts(cx) {
            true => Step::Wait,
            false => self.send_piece(cx, cx.target.clone()),
        }
    }

    fn on_whole<'a>(&mut self, cx: &mut ExecContext<'_>, outcome: Outcome<'a>) -> Step<'a> {
        self.on_piece(cx, outcome)
    }

    fn on_part<'a>(
        &mut self,
        cx: &mut ExecContext<'_>,
        part: u16,
        outcome: Outcome<'a>,
    ) -> Step<'a> {
        match self.flow {
            Flow::Stretches(_) => self.on_stretch(cx, part, outcome),
            _ => self.on_part_outcome(cx, part, outcome),
        }
    }

    fn whole(&self) -> Option<NodeRequestKey> {
        match &self.flow {
            Flow::Pieces(request) => *request,
            Flow::Tail(request, _) | Flow::AsItIs(request) => Some(*request),
            Flow::Parts { .. } | Flow::Stretches(_) => None,
        }
    }

    fn children(&self) -> Vec<NodeRequestKey> {
        match &self.flow {
            Flow::Parts { parts, .. } => parts.children(),
            Flow::Stretches(stretches) => stretches.children(),
            Flow::Pieces(_) | Flow::Tail(..) | Flow::AsItIs(_) => Vec::new(),
        }
    }

    fn awaits(&self, part: u16, child: NodeRequestKey) -> bool {
        match &self.flow {
            Flow::Parts { parts, .. } => parts.gather.awaits(part, child),
            Flow::Stretches(stretches) => stretches.awaits(part, child),
            Flow::Pieces(_) | Flow::Tail(..) | Flow::AsItIs(_) => false,
        }
    }

    fn is_in_parts(&self) -> bool {
        matches!(self.flow, Flow::Parts { .. } | Flow::Stretches(_))
    }

    fn is_page(&self) -> bool {
        true
    }

    fn has_rows(&self) -> bool {
        self.has_read()
    }

    fn name(&self) -> &'static str {
        match self.flow {
            Flow::Stretches(_) => "scan in stretches",
            Flow::Parts { .. } => "scan in parts",
            Flow::Pieces(_) | Flow::Tail(..) | Flow::AsItIs(_) => "scan in pieces",
        }
    }

    fn byte_len(&self) -> usize {
        let parts = match &self.flow {
            Flow::Parts { parts, .. } => parts.gather.byte_len(),
            Flow::Stretches(stretches) => stretches.byte_len(),
            Flow::Pieces(_) | Flow::Tail(..) | Flow::AsItIs(_) => 0,
        };
        self.join.held_len() + parts
    }
}
