//! Changes of all lists of a table, and of how far its command is, together: all of them, or none.

use anyhow::{Result, bail};
use helenus_layout::insync::{Copies, State, Stored, TABLE};
use helenus_rows::TableName;

use super::stage::{self, Stage, Standing};
use crate::online::cluster::Cluster;
use crate::online::compare_and_set::{now_ms, place};

/// Attempts at lists that proxies may change meanwhile.
pub(super) const ATTEMPTS: usize = 32;

/// What is to become of the lists.
pub(super) struct Switch<'a> {
    pub table: &'a TableName,
    /// The command at work, from now on.
    pub created: i64,
    pub stage: Stage,
    /// When a member was last in sync, in milliseconds since 1970, that joins by this.
    pub left: Option<(usize, i64)>,
}

impl Switch<'_> {
    /// Carries it out, with what is to become of each list, by its owners and what it is, if nothing of what is known has changed. False if something has: proxies change lists, too. Then the
    /// lists are to be read anew.
    pub(super) async fn is_made(
        &self,
        cluster: &Cluster,
        known: &Standing,
        change: impl Fn(&[String], &Copies) -> Result<Copies>,
    ) -> Result<bool> {
        let batch = self.batch(known, change)?;
        if matches!(cluster.is_applied(&batch).await, Ok(true)) {
            return Ok(true);
        }
        // Without an answer it may have been made; where the stage stays what it is, the lists tell that themselves.
        let now = stage::read(cluster, self.table).await?;
        let is_new = !known.is(Some(self.created), Some(self.stage));
        Ok(is_new && now.is(Some(self.created), Some(self.stage)))
    }

    fn batch(
        &self,
        known: &Standing,
        change: impl Fn(&[String], &Copies) -> Result<Copies>,
    ) -> Result<String> {
        let (table, now_ms) = (self.table, now_ms());
        let set = format!(
            "created = {}, stage = '{}'",
            self.created,
            self.stage.name()
        );
        let mut batch = format!("BEGIN BATCH {}; ", stage::update(table, &set, known));
        for row in &known.lists {
            let before = match &row.list {
                Ok(list) => list,
                Err(why) => bail!("a list of copies of {table} cannot be as it is: {why}"),
            };
            let list = change(&row.owners, before)?;
            let gone = before.in_sync().minus(list.in_sync()).iter();
            let left = gone.map(|member| (member, now_ms));
            let joins = |of: &&(usize, i64)| {
                before.state(of.0) == State::Out && list.state(of.0) == State::Joining
            };
            let left = left.chain(self.left.iter().filter(joins).copied());
            let left = left.map(|(member, ms)| format!(", left[{member}] = {ms}"));
            batch.push_str(&format!(
                "UPDATE helenus.copies SET {}, changed = {now_ms}{} WHERE {} AND owners = [{}] IF version = {}; ",
                Stored::of(&list, row.owners.len()).assignments(),
                left.collect::<String>(),
                place(table),
                row.owners.join(", "),
                before.version()
            ));
        }
        batch.push_str("APPLY BATCH");
        Ok(batch)
    }
}

/// Without these members, as far as they are listed. Fails if nobody would be in sync.
pub(super) fn without(list: &Copies, members: impl Iterator<Item = usize>) -> Result<Copies> {
    let mut list = *list;
    for member in members {
        if list.state(member) != State::Out {
            list = list.evict(member)?;
        }
    }
    Ok(list)
}

/// Without the copies, where the table is in sync.
pub(super) fn table_alone(name: &TableName, list: &Copies, copies: usize) -> Result<Copies> {
    if list.state(TABLE) != State::InSync {
        bail!(
            "{name} itself is not in sync in all ranges, so its copies are needed: see `helenus layouts status {name}`"
        );
    }
    without(list, 0..copies)
}

#[cfg(test)]
mod tests {
    use helenus_layout::insync::Members;

    use super::super::super::lists::CopiesRow;
    use super::*;

    fn row(owner: &str, list: Copies) -> CopiesRow {
        CopiesRow {
            table: "shop.orders".to_owned(),
            owners: vec![owner.to_owned(), "z".to_owned()],
            ranges: None,
            list: Ok(list),
            changed_ms: None,
        }
    }

    #[test]
    fn all_lists_change_with_the_stage_or_none() {
        let table: TableName = "shop.orders".parse().expect("a name");
        let both = Copies::new(Members::first(2), [7, 8, 0, 0, 0, 0]);
        let joined = both.join(TABLE, 0).expect("it is out");
        let rows = vec![row("a", both), row("b", joined)];
        let known = Standing::of(5, Stage::Returning, rows);
        let to = Switch {
            table: &table,
            created: 6,
            stage: Stage::Returning,
            left: Some((TABLE, 77)),
        };
        let join = |_: &[String], list: &Copies| match list.state(TABLE) {
            State::Out => Ok(list.join(TABLE, 0)?),
            _ => Ok(*list),
        };
        let batch = to.batch(&known, join).expect("a batch");
        let statements: Vec<&str> = batch.split("; ").collect();
        let [stage, first, second, end] = statements[..] else {
            panic!("{batch}");
        };
        assert!(
            stage.ends_with("IF created = 5 AND stage = 'returning'"),
            "{stage}"
        );
        assert!(
            stage.contains("SET created = 6, stage = 'returning'"),
            "{stage}"
        );
        let joins = "SET version = 2, in_sync = {0, 1}, joining = {5}, since = [1, 1, 0, 0, 0, 2], boot = [7, 8, 0, 0, 0, 0]";
        assert!(
            first.contains(joins) && first.contains(", left[5] = 77 WHERE"),
            "{first}"
        );
        assert!(first.ends_with("owners = [a, z] IF version = 1"), "{first}");
        // As it was; if it is not any more, nothing changes.
        assert!(
            second.contains(joins) && !second.contains("left["),
            "{second}"
        );
        assert!(
            second.ends_with("owners = [b, z] IF version = 2"),
            "{second}"
        );
        assert_eq!(end, "APPLY BATCH");
    }

    #[test]
    fn who_leaves_those_in_sync_is_noted_and_somebody_stays() {
        let table: TableName = "shop.orders".parse().expect("a name");
        let both = Copies::new(Members::first(2), [7, 8, 0, 0, 0, 0]);
        let all = both.join(TABLE, 0).and_then(|list| list.promote(TABLE, 2));
        let known = Standing::of(5, Stage::Returning, vec![row("a", all.expect("in sync"))]);
        let to = Switch {
            table: &table,
            created: 5,
            stage: Stage::Closing,
            left: None,
        };
        let batch = to
            .batch(&known, |_, list| without(list, 0..2))
            .expect("a batch");
        assert!(
            batch.contains("in_sync = {5}, joining = {}, since = [4, 5, 0, 0, 0, 3]"),
            "{batch}"
        );
        assert!(
            batch.contains(", left[0] = ") && batch.contains(", left[1] = "),
            "{batch}"
        );
        assert!(
            to.batch(&known, |_, list| without(list, 0..6)).is_err(),
            "nobody"
        );
        let last = without(&both, [0].into_iter()).expect("one stays");
        assert_eq!(
            without(&last, [0].into_iter()).expect("it is out already"),
            last
        );
    }
}
