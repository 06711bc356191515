//! Rows that clients are answered, and whether they may be so.

use std::collections::BTreeSet;

use helenus_wire::PageStart;

use super::World;
use super::requests::page_size;
use crate::chaos::checks::Span;
use crate::chaos::client::{InFlight, Purpose, role_name};
use crate::chaos::coverage::Check;
use crate::chaos::cql;

fn int(cell: &[u8]) -> i64 {
    i64::from_be_bytes(cell.try_into().unwrap_or([0xEE; 8]))
}

impl World {
    pub(super) fn judge_rows(
        &mut self,
        number: usize,
        request: &InFlight,
        rows: &[Vec<Vec<u8>>],
        state: Option<&[u8]>,
    ) -> Result<(), String> {
        let span = Span::of(request.begun_us, self.now_us());
        if rows.len() > request.rows_max {
            let (rows, max) = (rows.len(), request.rows_max);
            return Err(format!("{rows} rows came, {max} were asked for"));
        }
        match &request.purpose {
            Purpose::Cas(key, id, expected) => {
                let row = rows.first().map_or(&[][..], |row| row);
                if let [_, value] = row {
                    let value = int(value);
                    let could_fail = self.cluster.conditional_values(*key) > 2;
                    self.checked(Check::Conditional, could_fail);
                    if value == *expected || !self.cluster.had_conditional(*key, value, span) {
                        return Err(format!(
                            "not applied because of {value}, which was not there"
                        ));
                    }
                }
                match rows.first().and_then(|row| row.first()).map(|cell| cell[0]) {
                    Some(1) => self.cluster.once.acknowledge(*id),
                    _ => self.refused.push(*id),
                }
                Ok(())
            }
            Purpose::Read(key) => {
                let could_fail = self.registers.could_be_stale(*key, span.begun_us);
                self.checked(Check::Register, could_fail);
                let value = rows.first().map(|row| int(&row[0]));
                self.registers.judge(*key, value, span)
            }
            Purpose::ReadCas(key) => {
                let value = rows.first().map(|row| int(&row[0]));
                let could_fail = self.cluster.conditional_values(*key) > 1;
                self.checked(Check::Conditional, could_fail);
                match value.is_none_or(|value| self.cluster.had_conditional(*key, value, span)) {
                    true => Ok(()),
                    false => Err(format!(
                        "key {key} of conditional writes has not had {value:?}"
                    )),
                }
            }
            Purpose::ReadList(key) => self.judge_list(*key, rows, span),
            Purpose::Many(keys) => {
                self.checked(Check::Many, rows.len() > 1);
                self.judge_many(keys, rows, span)
            }
            Purpose::Count => {
                self.checked(Check::Count, self.keys > 1);
                let counted = rows.first().map(|row| int(&row[0]));
                match counted == Some(self.keys) && rows.len() == 1 {
                    true => Ok(()),
                    false => Err(format!("{counted:?} rows were counted of {}", self.keys)),
                }
            }
            Purpose::Who if self.authenticated => {
                self.checked(Check::Role, true);
                self.judge_role(self.clients[number].role, rows)
            }
            Purpose::Who => self.judge_role(self.clients[number].role, rows),
            Purpose::Scan(text, seen) => self.judge_page(number, text, seen, rows, state),
            Purpose::Rows(scan) => self.judge_selected(number, scan, rows, state, span),
            Purpose::RowWrite(write) => {
                let connection = self.clients[number].connection;
                let at = connection.map(|connection| self.connections[connection].at);
                let at = at.ok_or("an answer without a connection")?;
                self.judge_outcome(at, write, rows, span)
            }
            purpose => Err(format!("{purpose:?} is answered with rows")),
        }
    }

    fn judge_many(&self, keys: &[i64], rows: &[Vec<Vec<u8>>], span: Span) -> Result<(), String> {
        let found: Vec<i64> = rows.iter().map(|row| int(&row[0])).collect();
        let mut wanted = keys.to_vec();
        // Their rows come in the order of the key's type.
        wanted.sort_unstable();
        wanted.dedup();
        if found != wanted {
            return Err(format!("keys {wanted:?} were asked for, {found:?} came"));
        }
        rows.iter()
            .try_for_each(|row| self.registers.judge(int(&row[0]), Some(int(&row[1])), span))
    }

    fn judge_role(&self, role: usize, rows: &[Vec<Vec<u8>>]) -> Result<(), String> {
        let cell = rows.first().and_then(|row| row.first());
        let found = String::from_utf8_lossy(cell.map_or(&[], |cell| cell)).into_owned();
        let wanted = match self.authenticated {
            true => role_name(role),
            false => "nobody".to_owned(),
        };
        match found == wanted {
            true => Ok(()),
            false => Err(format!("{wanted} sees an answer for {found}")),
        }
    }

    fn judge_page(
        &mut self,
        number: usize,
        text: &'static str,
        seen: &BTreeSet<i64>,
        rows: &[Vec<Vec<u8>>],
        state: Option<&[u8]>,
    ) -> Result<(), String> {
        let now_us = self.now_us();
        let mut seen = seen.clone();
        for row in rows {
            let (key, value) = (int(&row[0]), int(&row[1]));
            if !seen.insert(key) {
                return Err(format!("key {key} comes twice"));
            }
            if !cql::returns(text, key) {
                return Err(format!("key {key} comes, which {text} does not ask for"));
            }
            if !self.registers.is_of(key, value) {
                return Err(format!("key {key} has {value}, which nobody wrote to it"));
            }
        }
        let limit = cql::limit(text).unwrap_or(i32::MAX as u32);
        if let Some(state) = state {
            let left = PageStart::parse(state).map(|start| start.remaining);
            if left.ok() != limit.checked_sub(seen.len() as u32) {
                return Err(format!(
                    "{left:?} rows left of {limit} behind {}",
                    seen.len()
                ));
            }
            let size = page_size(&mut self.dice);
            let client = &mut self.clients[number];
            let purpose = Purpose::Scan(text, seen);
            client.statement(
                now_us,
                text,
                &[],
                (size, Some(state)),
                purpose,
                &mut self.dice,
            );
            return Ok(());
        }
        self.checked(Check::Page, seen.len() > rows.len());
        let kept = (0..self.keys).filter(|key| cql::returns(text, *key));
        let wanted = (kept.count() as i64).min(i64::from(limit));
        match seen.len() as i64 == wanted {
            true => Ok(()),
            false => Err(format!("a scan has {} of {wanted} keys", seen.len())),
        }
    }
}
