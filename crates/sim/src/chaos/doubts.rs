//! Partitions in doubt as the cluster stores them: what proxies and the sweep write there is read from the very texts
//! that they send.

use std::collections::BTreeMap;

use helenus_catalogue::TableKey;

use super::wide::{KEYSPACE, TABLE};

/// The key of the table.
pub(super) fn key() -> TableKey {
    TableKey::new(KEYSPACE, TABLE)
}

/// `helenus.layout_doubts`: by token, when it was written and when it was deleted last.
#[derive(Debug, Default)]
pub(super) struct Doubts(BTreeMap<i64, Times>);

#[derive(Clone, Copy, Debug, Default)]
struct Times {
    written_us: i64,
    deleted_us: i64,
}

impl Times {
    fn is_there(self) -> bool {
        self.written_us > self.deleted_us
    }
}

fn behind(text: &str, what: &str) -> Option<i64> {
    let (_, rest) = text.split_once(what)?;
    let end = rest
        .find(|c: char| !c.is_ascii_digit() && c != '-')
        .unwrap_or(rest.len());
    rest[..end].parse().ok()
}

impl Doubts {
    /// Carries out a batch that is one text. Returns the tokens that are not in doubt any more, with the times at which
    /// they were put in.
    pub(super) fn execute(&mut self, text: &str, now_us: i64) -> Vec<(i64, i64)> {
        let mut ended = Vec::new();
        for statement in text.split("; ") {
            let time_us = behind(statement, "USING TIMESTAMP ").unwrap_or(now_us);
            if let Some(token) = behind(statement, "ring_token = ") {
                let of = self.0.entry(token).or_default();
                let was_there = of.is_there();
                of.deleted_us = of.deleted_us.max(time_us);
                if was_there && !of.is_there() {
                    ended.push((token, of.written_us));
                }
            } else if statement.contains("INSERT INTO helenus.layout_doubts") {
                let values = format!("VALUES ('{KEYSPACE}', '{TABLE}', ");
                let token = behind(statement, &values).expect("a token");
                let of = self.0.entry(token).or_default();
                of.written_us = of.written_us.max(time_us);
            } else {
                assert_eq!(statement, "APPLY BATCH", "the model does not know it");
            }
        }
        ended
    }

    /// Those that are in doubt, with the times at which they were put in.
    pub(super) fn timed(&self) -> Vec<(i64, i64)> {
        let there = self.0.iter().filter(|(_, of)| of.is_there());
        there.map(|(token, of)| (*token, of.written_us)).collect()
    }
}

#[cfg(test)]
mod tests {
    use helenus_catalogue::change::{doubt, settle_doubts};

    use super::*;

    #[test]
    fn what_is_put_in_again_stays() {
        let mut doubts = Doubts::default();
        assert_eq!(doubts.execute(&doubt(&key(), &[7, -9]), 10), []);
        assert_eq!(doubts.timed(), [(-9, 10), (7, 10)]);
        doubts.execute(&doubt(&key(), &[7]), 20);
        let settled = settle_doubts(&key(), &[(7, 10), (-9, 10)]);
        assert_eq!(doubts.execute(&settled, 30), [(-9, 10)]);
        assert_eq!(doubts.timed(), [(7, 20)]);
    }
}
