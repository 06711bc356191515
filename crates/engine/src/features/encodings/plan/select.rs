//! Selections: encoded values stand behind what is selected, or, where no row has a text any more, in place of the
//! texts.
//!
//! In place they keep the name that nodes know them by, and the answer gets the clients' ([`TextFrom::InPlace`]):
//! with an alias of ours a node would process every row's values one by one. The documents of SELECT JSON have
//! their names from the node all the same.

use helenus_catalogue::Form;
use helenus_cql::{Facts, SelectFacts, Selected, quote_identifier};

use super::change::{Change, NOT_UNDERSTOOD};
use crate::features::encodings::shown::{SelectedText, Selection, Shown, TextFrom};

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
            let from = match of.written.has_texts() {
                true => {
                    let place = behind.iter().position(|of| *of == column);
                    let place = place.unwrap_or_else(|| {
                        behind.push(column);
                        behind.len() - 1
                    });
                    match of.first {
                        Form::Text => TextFrom::Behind(place),
                        Form::Encoded => TextFrom::FirstBehind(place),
                    }
                }
                false => {
                    let stored = quote_identifier(&of.hidden);
                    let is_named = item.alias.is_some() || select.json;
                    let stored = match select.json && item.alias.is_none() {
                        true => format!("{stored} AS {}", quote_identifier(&of.name)),
                        false => stored.into_owned(),
                    };
                    self.pieces.push((item.span.clone(), stored));
                    TextFrom::InPlace((!is_named).then_some(column))
                }
            };
            texts.push(SelectedText { at, from });
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
        let selection = Selection {
            behind: behind.len(),
            texts: texts.into(),
        };
        Ok(Some(match select.json {
            true => Shown::Json(Some(selection)),
            false => Shown::Selected(selection),
        }))
    }
}
