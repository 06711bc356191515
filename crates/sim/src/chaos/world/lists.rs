//! Lists that clients write and read.

use super::World;
use crate::chaos::checks::Span;
use crate::chaos::client::Purpose;
use crate::chaos::coverage::Check;
use crate::chaos::cql;
use crate::chaos::lists::{self, Change, How};
use crate::dice::Dice;

/// A list that has become so long is replaced.
const LONG: usize = 8;

/// Whether clients write lists in the runs of a seed.
pub(super) fn has_lists(seed: u64) -> bool {
    // Of its own, so that other seeds stay what they are.
    Dice::of(seed, 10, 0).below(4) == 0
}

impl World {
    /// Changes a list, or reads it.
    pub(super) fn begin_list(&mut self, number: usize) -> i16 {
        let key = self.dice.below(lists::KEYS as u64) as i64;
        if self.dice.below(3) == 0 {
            let values = [key.to_be_bytes().to_vec()];
            return self.ask(number, lists::READ, &values, Purpose::ReadList(key));
        }
        let is_long = self.cluster.lists.now(key).len() >= LONG;
        let how = match self.dice.below(5) {
            _ if is_long => How::Replace,
            0 => How::Replace,
            1 => How::SetFirst,
            2 => How::Prepend,
            _ => How::Append,
        };
        let id = self.clients[number].unique(number);
        self.note_made(number, id);
        let change = Change { key, how, id };
        let purpose = Purpose::List(change);
        self.ask(number, change.text(), &change.values(), purpose)
    }

    /// Judges a list that a client has read.
    pub(super) fn judge_list(
        &mut self,
        key: i64,
        rows: &[Vec<Vec<u8>>],
        span: Span,
    ) -> Result<(), String> {
        let could_fail = self.cluster.lists.versions(key) > 2;
        self.checked(Check::List, could_fail);
        let [row] = rows else {
            return Err(format!("list {key} has {} rows", rows.len()));
        };
        let found = cql::elements(&row[0]).ok_or("no list has come")?;
        self.cluster.lists.judge(key, &found, span)
    }
}
