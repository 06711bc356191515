//! Rows of the catalogue's tables as nodes send them.

use helenus_catalogue::stored::Stored;
use helenus_wire::Reader;

use crate::control::rows::Rows;

/// Rows of the catalogue, as far as they can be read.
pub(super) fn stored(rows: &Rows) -> Vec<Stored> {
    let stored = |row: &Vec<Option<Vec<u8>>>| {
        let text = |name: &str| rows.text(row, name);
        let cell = |name: &str| rows.cell(row, name);
        Stored {
            version: rows.bigint(row, "version"),
            keyspace: text("keyspace_name"),
            table: text("table_name"),
            kind: text("kind"),
            item: text("item"),
            flag: rows.bigint(row, "flag"),
            rows: rows.bigint(row, "rows"),
            distinct: cell("distinct_values").map(counts).unwrap_or_default(),
            physical: text("physical"),
            clustering: cell("clustering").map(texts).unwrap_or_default(),
            state: text("state"),
            created: rows.bigint(row, "created"),
            hidden: text("hidden"),
            codec: text("codec"),
            dictionary: rows.int(row, "dictionary"),
            goal: text("goal"),
        }
    };
    rows.rows.iter().map(stored).collect()
}

/// A cell of type `list<text>`, up to what cannot be read.
fn texts(cell: &[u8]) -> Vec<String> {
    let mut reader = Reader::new(cell);
    let n = reader.i32().unwrap_or(0);
    (0..n).map_while(|_| text(&mut reader)).collect()
}

/// A cell of type `map<text, bigint>`, up to what cannot be read.
fn counts(cell: &[u8]) -> Vec<(String, i64)> {
    let mut reader = Reader::new(cell);
    let n = reader.i32().unwrap_or(0);
    let mut next = || {
        let name = text(&mut reader)?;
        let count = reader.bytes().ok().flatten()?;
        Some((name, i64::from_be_bytes(count.try_into().ok()?)))
    };
    (0..n).map_while(|_| next()).collect()
}

fn text(reader: &mut Reader<'_>) -> Option<String> {
    let bytes = reader.bytes().ok().flatten()?;
    String::from_utf8(bytes.to_vec()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::testing::rows;

    #[test]
    fn rows_are_read_as_far_as_they_can_be() {
        let names = [
            "version",
            "kind",
            "clustering",
            "distinct_values",
            "dictionary",
        ];
        let mut found = rows(
            &names,
            &[
                &["?", "layout", "", "", "?"],
                &["null", "null", "null", "null", "null"],
            ],
        );
        let list = |items: &[&[u8]]| {
            let mut bytes = (items.len() as i32).to_be_bytes().to_vec();
            for item in items {
                bytes.extend((item.len() as i32).to_be_bytes());
                bytes.extend(*item);
            }
            bytes
        };
        found.rows[0][2] = Some(list(&[b"clerk", b"day"]));
        let mut counted = list(&[b"day", &365i64.to_be_bytes()]);
        counted[3] = 1;
        found.rows[0][3] = Some(counted);
        let read = stored(&found);
        assert_eq!(read[0].kind.as_deref(), Some("layout"));
        assert_eq!(read[0].clustering, ["clerk", "day"]);
        assert_eq!(read[0].distinct, [("day".to_owned(), 365)]);
        assert_eq!(
            (read[0].version, read[0].dictionary),
            (None, None),
            "too short"
        );
        assert_eq!(read[1], Stored::default());
        // Lengths that are not there, and a count that is far too large.
        for cell in [
            &b"\x00\x00\x00\x02\x00\x00\x00\x01a"[..],
            b"\x7f\xff\xff\xff",
            b"\xff\xff\xff\xff",
            b"",
        ] {
            found.rows[0][2] = Some(cell.to_vec());
            found.rows[0][3] = Some(cell.to_vec());
            assert!(stored(&found)[0].clustering.len() <= 1);
        }
    }
}
