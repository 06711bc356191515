//! A write with a marker for its timestamp.
//!
//! In a batch with others of other clients it goes as `… USING TIMESTAMP ?`, which the nodes prepare once:
//! a batch has one default timestamp for all that is in it, and each client's write has its own.

use helenus_cql::{Facts, Kind};

/// The text with a marker for the timestamp and with its keyspace, and the marker's number. `None` if it
/// is no write, or has markers whose number is not known.
pub(crate) fn timed(text: &str, facts: &Facts, keyspace: &str) -> Option<(String, u16)> {
    let spans = &facts.spans;
    let table = spans.table.clone()?;
    let end = spans.statement.end;
    // Where the clause goes if there is none, and how many markers come before.
    let (own, before) = match facts.kind {
        Kind::Insert => (end, facts.markers),
        Kind::Update => (table.end, 0),
        // The deleted cells may have markers, as in `DELETE m[?] FROM`.
        Kind::Delete if !text.get(..table.start)?.contains(['?', ':']) => (table.end, 0),
        _ => return None,
    };
    let qualified = match &facts.keyspace {
        Some(_) => text.get(table.clone())?.to_owned(),
        None => format!("{}.{}", quoted(keyspace), text.get(table.clone())?),
    };
    let mut timed = String::with_capacity(text.len() + keyspace.len() + 32);
    timed.push_str(text.get(..table.start)?);
    timed.push_str(&qualified);
    match &spans.using {
        None => {
            timed.push_str(text.get(table.end..own)?);
            timed.push_str(" USING TIMESTAMP ?");
            timed.push_str(text.get(own..end)?);
        }
        // It has a time to live, which an INSERT says behind all other markers.
        Some(using) => {
            let at = match facts.kind {
                Kind::Insert => using.end,
                _ => using.start + "USING".len(),
            };
            timed.push_str(text.get(table.end..at)?);
            timed.push_str(match facts.kind {
                Kind::Insert => " AND TIMESTAMP ?",
                _ => " TIMESTAMP ? AND",
            });
            timed.push_str(text.get(at..end)?);
        }
    }
    Some((timed, before))
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Option<(&str, u16)>) {
        let facts = helenus_cql::facts(text);
        let timed = timed(text, &facts, "app");
        let timed = timed.as_ref().map(|(text, at)| (&**text, *at));
        assert_eq!(timed, expected, "{text}");
    }

    #[test]
    fn a_write_says_when_it_was_written() {
        check(
            "INSERT INTO app.t (k, v) VALUES (?, ?);",
            Some((
                "INSERT INTO app.t (k, v) VALUES (?, ?) USING TIMESTAMP ?",
                2,
            )),
        );
        check(
            "insert into t(k,v) values(?,?) using ttl ?",
            Some((
                "insert into \"app\".t(k,v) values(?,?) using ttl ? AND TIMESTAMP ?",
                3,
            )),
        );
        check(
            "UPDATE app.t SET v = ? WHERE k = ?",
            Some(("UPDATE app.t USING TIMESTAMP ? SET v = ? WHERE k = ?", 0)),
        );
        check(
            "UPDATE app.t USING TTL 5 SET v = ? WHERE k = ?",
            Some((
                "UPDATE app.t USING TIMESTAMP ? AND TTL 5 SET v = ? WHERE k = ?",
                0,
            )),
        );
        check(
            "DELETE v FROM t WHERE k = ?",
            Some(("DELETE v FROM \"app\".t USING TIMESTAMP ? WHERE k = ?", 0)),
        );
        check("DELETE m[?] FROM app.t WHERE k = ?", None);
        check("SELECT v FROM app.t WHERE k = ?", None);
    }
}
