//! Statements on the table with clustering columns, and on its layouts, as the modelled nodes read them.

use helenus_wire::{ValueRef, Values};

use super::{CLUSTERING, Change, KEYSPACE, LAYOUTS, Row, Select, TABLE};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::chaos) struct Statement {
    /// The table's name, or that of a layout.
    pub table: String,
    /// The keyspace is named.
    pub qualified: bool,
    pub partition: i64,
    pub action: Action,
    /// Its own, as writes have that proxies have put into one batch.
    pub timestamp: Option<i64>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::chaos) enum Action {
    Change(Change),
    Select(Select),
    /// A deletion of the rows with this value of the first column, which layouts cannot follow.
    Slice(i64),
    /// A row gets a value if it has the other one.
    If(Row, i64, i64),
    /// Another write that layouts cannot follow.
    Uncopied,
    /// It changes the table itself, or drops it.
    Definition,
}

impl Statement {
    /// What it changes, if it is a write that nodes carry out. `slices`: slices are deleted.
    pub(in crate::chaos) fn change(&self, slices: bool) -> Option<Change> {
        match self.action {
            Action::Change(change) => Some(change),
            Action::Slice(first) => slices.then_some(Change::DeleteSlice(first)),
            Action::Select(_) | Action::If(..) | Action::Uncopied | Action::Definition => None,
        }
    }

    /// Whether its table is in this keyspace.
    pub(in crate::chaos) fn is_in(&self, keyspace: Option<&str>) -> bool {
        self.qualified || keyspace == Some(KEYSPACE)
    }
}

fn words(text: &str) -> impl Iterator<Item = &str> + Clone {
    let words = text.split([' ', ',', '(', ')', ';']);
    words.filter(|word| !word.is_empty())
}

/// The table that a text is about, if that is this one or one of its layouts.
pub(in crate::chaos) fn table(text: &str) -> Option<&str> {
    let mut names = words(text).filter_map(|word| match word.strip_prefix("ks.") {
        Some(name) => Some(name),
        None if word.starts_with(LAYOUTS) => word.split('.').nth(1),
        None => (word == TABLE).then_some(word),
    });
    names.find(|name| *name == TABLE || name.starts_with("g__layout_"))
}

fn column(name: &str) -> Option<usize> {
    CLUSTERING.iter().position(|column| *column == name)
}

/// Words of a statement, and the values of its markers.
struct Terms<W> {
    words: W,
    values: std::vec::IntoIter<Option<i64>>,
}

impl<'a, W: Iterator<Item = &'a str>> Terms<W> {
    /// A literal, or the next marker's value.
    fn term(&mut self) -> Option<i64> {
        match self.words.next()? {
            "?" => self.values.next()?,
            literal => literal.parse().ok(),
        }
    }
}

fn int(value: ValueRef<'_>) -> Option<i64> {
    match value {
        ValueRef::Set(bytes) => Some(i64::from_be_bytes(bytes.try_into().ok()?)),
        _ => None,
    }
}

/// What stands behind WHERE.
#[derive(Default)]
struct Clauses {
    partition: Option<i64>,
    select: Select,
    conditional: bool,
    /// The value that a row must have.
    expected: Option<i64>,
}

impl Clauses {
    fn read<'a>(terms: &mut Terms<impl Iterator<Item = &'a str>>) -> Option<Clauses> {
        let mut clauses = Clauses::default();
        let mut orders = false;
        while let Some(word) = terms.words.next() {
            match word {
                "AND" | "BY" => orders &= word == "BY",
                "ORDER" => orders = true,
                "ASC" | "DESC" => clauses.select.order_by.last_mut()?.1 = word == "DESC",
                "LIMIT" => {
                    orders = false;
                    clauses.select.limit = u32::try_from(terms.term()?).ok();
                }
                "ALLOW" => {
                    orders = false;
                    clauses.select.filters = terms.words.next()? == "FILTERING";
                }
                "IF" => {
                    clauses.conditional = true;
                    // `v = ?`
                    terms.words.by_ref().take(2).for_each(drop);
                    clauses.expected = terms.term();
                    return Some(clauses);
                }
                name if orders => clauses.select.order_by.push((column(name)?, false)),
                name => clauses.restrict(name, terms)?,
            }
        }
        Some(clauses)
    }

    fn restrict<'a>(
        &mut self,
        name: &str,
        terms: &mut Terms<impl Iterator<Item = &'a str>>,
    ) -> Option<()> {
        let operator = terms.words.next()?;
        let value = terms.term()?;
        match (name, operator) {
            ("p", "=") => self.partition = Some(value),
            (name, "=") => self.select.equal[column(name)?] = Some(value),
            (name, ">=") => self.select.least[column(name)?] = Some(value),
            _ => return None,
        }
        Some(())
    }

    /// The row that is bound, if it is one.
    fn row(&self) -> Option<Row> {
        let [a, b, c] = self.select.equal;
        Some([a?, b?, c?])
    }

    /// The rows that a DELETE takes away.
    fn deletion(&self) -> Action {
        match (self.row(), self.select.equal) {
            _ if self.conditional => Action::Uncopied,
            (Some(row), _) => Action::Change(Change::DeleteRow(row)),
            (None, [None, None, None]) => Action::Change(Change::DeletePartition),
            (None, [Some(first), None, None]) => Action::Slice(first),
            (None, _) => Action::Uncopied,
        }
    }
}

/// What a text with these values asks for; `None` if it is not about this table, or the model does not
/// know it.
pub(in crate::chaos) fn read(text: &str, given: &Values<'_>) -> Option<Statement> {
    read_with(text, given.iter().map(|(_, value)| int(value)).collect())
}

/// The same with numbers.
pub(in crate::chaos) fn read_with(text: &str, values: Vec<Option<i64>>) -> Option<Statement> {
    let table = table(text)?.to_owned();
    let mut words = words(text);
    let verb = words.next()?;
    let is_start = |word: &&str| !matches!(*word, "WHERE" | "VALUES" | "SET");
    let mut counts = false;
    let mut values = values.into_iter();
    let mut timestamp = None;
    let mut skipped = words.by_ref().take_while(is_start);
    if verb == "SELECT" {
        counts = skipped.any(|word| word == "count");
        skipped.for_each(drop);
    } else if !matches!(verb, "ALTER" | "DROP") && skipped.any(|word| word == "TIMESTAMP") {
        // Its marker is the first.
        timestamp = values.next()?;
        skipped.for_each(drop);
    }
    let mut terms = Terms { words, values };
    let (partition, action) = match verb {
        "SELECT" => {
            let clauses = Clauses::read(&mut terms)?;
            let mut select = clauses.select;
            select.counts = counts;
            (clauses.partition?, Action::Select(select))
        }
        "INSERT" => {
            let partition = terms.term()?;
            let row = [terms.term()?, terms.term()?, terms.term()?];
            let put = Change::Put(row, terms.term()?);
            if terms.words.any(|word| word == "TIMESTAMP") {
                timestamp = terms.term();
            }
            (partition, Action::Change(put))
        }
        "UPDATE" => {
            // `v = ? WHERE`
            terms.words.by_ref().take(2).for_each(drop);
            let value = terms.term()?;
            terms.words.next()?;
            let clauses = Clauses::read(&mut terms)?;
            let row = clauses.row()?;
            let action = match clauses.conditional {
                true => Action::If(row, value, clauses.expected?),
                false => Action::Change(Change::Put(row, value)),
            };
            (clauses.partition?, action)
        }
        "DELETE" => {
            let clauses = Clauses::read(&mut terms)?;
            (clauses.partition?, clauses.deletion())
        }
        "ALTER" | "DROP" => (0, Action::Definition),
        _ => return None,
    };
    Some(Statement {
        table,
        qualified: text.contains("ks.g") || text.contains(LAYOUTS),
        partition,
        action,
        timestamp,
    })
}

/// The columns of a statement's result; `None` if it is not about this table.
pub(in crate::chaos) fn columns(text: &str) -> Option<Vec<&'static str>> {
    const ALL: [&str; 5] = ["p", "a", "b", "c", "v"];
    let table = table(text)?;
    let selected = text.strip_prefix("SELECT ").unwrap_or("FROM");
    let mut found = Vec::new();
    for word in words(selected).take_while(|word| *word != "FROM") {
        match word {
            "count" => return Some(vec!["count"]),
            "*" => {
                // Each table lists its clustering columns in its own order, which its name tells.
                let order = table.strip_prefix("g__layout_").unwrap_or("abc");
                let place = |column: &&str| order.find(*column);
                let mut clustering = CLUSTERING;
                clustering.sort_unstable_by_key(place);
                let all = ["p"].into_iter().chain(clustering).chain(["v"]);
                return Some(all.collect());
            }
            name => found.extend(ALL.iter().find(|column| **column == name)),
        }
    }
    Some(found)
}

/// The columns that a statement's markers are for; `None` if it is not about this table.
pub(in crate::chaos) fn markers(text: &str) -> Option<Vec<&str>> {
    table(text)?;
    if text.starts_with("INSERT") {
        let columns = words(text).skip_while(|word| *word != "INTO").skip(2);
        return Some(columns.take_while(|word| *word != "VALUES").collect());
    }
    let all: Vec<&str> = words(text).collect();
    let markers = all.windows(3).filter(|three| three[2] == "?");
    Some(markers.map(|three| three[0]).collect())
}

#[cfg(test)]
mod tests {
    use super::super::texts;
    use super::*;

    fn with(text: &str, values: &[i64]) -> Option<Statement> {
        read_with(text, values.iter().copied().map(Some).collect())
    }

    fn action(text: &str, values: &[i64]) -> Action {
        let statement = with(text, values).expect(text);
        assert_eq!(statement.table, TABLE);
        statement.action
    }

    #[test]
    fn whatever_clients_send_is_understood() {
        for text in texts::ALL.into_iter().chain(texts::HERE) {
            let markers = markers(text).expect(text);
            let values: Vec<i64> = markers
                .iter()
                .map(|name| ["v", "p", "a", "b", "c"].iter().position(|n| n == name))
                .map(|at| at.expect("a column") as i64)
                .collect();
            let statement = with(text, &values).expect(text);
            assert_eq!(statement.partition, 1, "{text}");
            assert_eq!(statement.qualified, !texts::HERE.contains(&text));
            let row = [2, 3, 4];
            match statement.action {
                Action::Change(Change::Put(of, value)) => assert_eq!((of, value), (row, 0)),
                Action::Change(Change::DeleteRow(of)) => assert_eq!(of, row),
                Action::Select(select) => {
                    let equal = select.equal.iter().zip(row);
                    assert!(
                        equal
                            .into_iter()
                            .all(|(is, of)| is.is_none_or(|is| is == of))
                    );
                    assert_eq!(select.counts, text.contains("count"));
                    assert_eq!(select.filters, text.contains("FILTERING"));
                    assert_eq!(select.limit.is_some(), text.contains("LIMIT"));
                    assert_eq!(select.order_by.len(), text.matches("ORDER").count());
                }
                _ => {}
            }
        }
    }

    #[test]
    fn what_cannot_be_copied_is_known() {
        assert_eq!(action(texts::DELETE_RANGE, &[1, 2]), Action::Slice(2));
        assert_eq!(
            action(texts::UPDATE_IF, &[9, 1, 2, 0, 1, 8]),
            Action::If([2, 0, 1], 9, 8)
        );
        assert_eq!(action(texts::ALTER, &[]), Action::Definition);
        assert_eq!(action(texts::DROP, &[]), Action::Definition);
        assert_eq!(
            action(texts::DELETE_PARTITION, &[1]),
            Action::Change(Change::DeletePartition)
        );
    }

    #[test]
    fn layouts_are_tables_too() {
        let text = "SELECT p, a, b, c, v FROM ks.g__layout_x WHERE p = 3 AND c = ?";
        let statement = with(text, &[2]).expect(text);
        assert_eq!(statement.table, "g__layout_x");
        assert_eq!(statement.partition, 3);
        assert_eq!(columns(text).expect(text), ["p", "a", "b", "c", "v"]);
        let all = columns("SELECT * FROM ks.g__layout_cab WHERE p = ?");
        assert_eq!(all.expect(text), ["p", "c", "a", "b", "v"]);
        assert_eq!(columns(texts::OF_B).expect(text), ["a", "b", "c", "v"]);
        assert_eq!(columns(texts::INSERT), Some(Vec::new()));
        assert_eq!(columns("SELECT v FROM ks.t WHERE k = ?"), None);
        assert_eq!(
            markers(texts::UPDATE).expect(text),
            ["v", "p", "a", "b", "c"]
        );
    }
}
