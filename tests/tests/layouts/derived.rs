//! Statements that `plan` derives, before a node and without the proxy: a layout's answer is the table's own.

use anyhow::{Result, bail, ensure};
use helenus_cql::facts;
use helenus_layout::plan::{Write, rank, read_from, write};
use helenus_tests::raw::ONE;
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use crate::client::{Answer, Request, Session};
use crate::schema::TestTable;
use crate::{selects, writes};

/// Counts of what was done, to see that it was not nothing.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub written: usize,
    pub refused: usize,
    pub selects: usize,
    /// Not taken by the table itself.
    pub invalid: usize,
    /// Chosen by `read`.
    pub chosen: usize,
    /// Answers of layouts compared with the table's.
    pub compared: usize,
    pub empty: usize,
    pub rows: usize,
}

/// Writes through the plan.
pub(crate) fn fill(
    session: &mut Session,
    rng: &mut ChaCha8Rng,
    table: &TestTable,
    count: usize,
    counts: &mut Counts,
) -> Result<()> {
    for _ in 0..count {
        let text = writes::write(rng, table).with_literals();
        let copies = match write(&table.logical, &text, &facts(&text)) {
            Write::Copies(copies) => copies,
            Write::Refused(_) | Write::Compared => {
                counts.refused += 1;
                continue;
            }
        };
        let batch = format!(
            "BEGIN UNLOGGED BATCH {text}; {} APPLY BATCH",
            copies.join("; ")
        );
        if let Err(fault) = session.client.try_query(&batch, ONE)? {
            bail!("{batch}: {}", fault.message);
        }
        counts.written += 1;
    }
    Ok(())
}

/// Asks the table, and each layout that may answer.
pub(crate) fn compare(
    session: &mut Session,
    rng: &mut ChaCha8Rng,
    table: &TestTable,
    count: usize,
    counts: &mut Counts,
) -> Result<()> {
    for _ in 0..count {
        let select = selects::select(rng, table);
        let prepared = rng.random_bool(0.4);
        let (text, values) = match prepared {
            true => select.with_markers(),
            false => (select.with_literals(), Vec::new()),
        };
        let page_size = rng.random_bool(0.7).then(|| rng.random_range(1..9));
        let request = Request {
            values: &values,
            page_size,
            consistency: ONE,
            ..Request::default()
        };
        let mut ask = |text: &str| session.carry_out(text, prepared, &request);
        counts.selects += 1;
        let Ok(own) = ask(&text)? else {
            counts.invalid += 1;
            continue;
        };
        let known = facts(&text);
        let ranked = rank(&table.logical, &text, &known);
        counts.chosen += usize::from(!ranked.is_empty());
        for of in ranked {
            let continued = read_from(&table.logical, &text, &known, of.at);
            ensure!(
                continued.is_none() == of.is_sorted,
                "{text} is continued by {continued:?}"
            );
        }
        for at in 0..table.logical.copies.len() {
            let Some(derived) = read_from(&table.logical, &text, &known, at) else {
                continue;
            };
            let copied = match ask(&derived)? {
                Ok(copied) => copied,
                Err(fault) => bail!("{text} became {derived}: {}", fault.message),
            };
            counts.compared += 1;
            counts.rows += copied.rows.len();
            counts.empty += usize::from(copied.rows.is_empty());
            let copied = as_of(table, copied);
            ensure!(
                own == copied,
                "{text} became {derived} (pages of {page_size:?}): {own:?} and {copied:?}"
            );
        }
    }
    Ok(())
}

/// The copy's name is the only thing that differs.
fn as_of(table: &TestTable, mut answer: Answer) -> Answer {
    for column in &mut answer.columns {
        column.table[1].clone_from(&table.logical.name);
    }
    answer
}
