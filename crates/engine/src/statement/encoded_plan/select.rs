//! Selections.

use helenus_cql::{Facts, SelectFacts, Selected, quote_identifier};

use super::change::{Change, NOT_UNDERSTOOD};
use crate::encodings::shown::{Behind, BehindText, Counts, Shown};

impl Change<'_> {
    /// `None`: it says nothing of encoded columns.
    pub(super) fn select(&mut self, facts: &Facts) -> Result<Option<Shown>, String> {
        let Some(select) = facts.select.as_deref() else {
            return Ok(None);
        };
        let spans = &facts.spans;
        let clauses = [&spans.where_clause, &spans.group_by, &spans.order_by];
        for clause in clauses.into_iter().flatten() {
            self.refuse_mention(clause.clone(), "restrict, group or order by it")?;
        }
        match &select.columns {
            Selected::All => Ok(select.json.then_some(Shown::Json(None))),
            Selected::Columns(_) => self.select_columns(facts, select),
        }
    }

    fn select_columns(
        &mut self,
        facts: &Facts,
        select: &SelectFacts,
    ) -> Result<Option<Shown>, String> {
        let Selected::Columns(selected) = &select.columns else {
            return Ok(None);
        };
        let mut texts = Vec::new();
        let mut behind: Vec<usize> = Vec::new();
        for (at, item) in selected.iter().enumerate() {
            let Some(name) = &item.column else {
                self.refuse_mention(item.span.clone(), "call functions of it")?;
                continue;
            };
            self.refuse_hidden(name)?;
            let column = self.column(name);
            let has_encoded = |at: &usize| {
                let column = self.table.columns.get(*at);
                column.is_some_and(|column| column.written.has_encoded())
            };
            let Some(column) = column.filter(has_encoded) else {
                continue;
            };
            let of = self.column_that_fits(column)?;
            let place = behind.iter().position(|of| *of == column);
            let place = place.unwrap_or_else(|| {
                behind.push(column);
                behind.len() - 1
            });
            texts.push(BehindText {
                at,
                behind: place,
                counts: Counts::of(of),
            });
        }
        if texts.is_empty() {
            return Ok(None);
        }
        let columns = behind.iter().filter_map(|at| self.table.columns.get(*at));
        let added: String = columns
            .map(|column| format!(", {}", quote_identifier(&column.hidden)))
            .collect();
        let end = facts.spans.selection.as_ref().ok_or(NOT_UNDERSTOOD)?.end;
        self.pieces.push((end..end, added));
        let behind = Behind {
            count: behind.len(),
            texts: texts.into(),
        };
        Ok(Some(match select.json {
            true => Shown::Json(Some(behind)),
            false => Shown::Behind(behind),
        }))
    }
}
