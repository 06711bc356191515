//! The schema as clients see it.

use super::*;

#[test]
fn clients_see_no_column_of_encoded_values_in_the_schema() {
    let mut bench = bench((Version::V5, Version::V5), Written::Encoded);
    let columns = [
        ("keyspace_name", VARCHAR),
        ("table_name", VARCHAR),
        ("column_name", VARCHAR),
    ];
    let row = |column: &'static [u8]| [Some(&b"app"[..]), Some(TABLE.as_bytes()), Some(column)];
    let (customer, note, hidden) = (row(b"customer"), row(b"note"), row(b"note__encoded"));
    let text = "SELECT * FROM system_schema.columns";
    bench.ask(
        Opcode::Query,
        2,
        &Asking::default().query(Version::V5, text),
    );
    let (_, stream, _) = bench.one_at_node();
    let of_node = page(&columns, &[&customer, &note, &hidden], None);
    bench.say(Opcode::Result, stream, &of_node);
    let of_client = page(&columns, &[&customer, &note], None);
    let (_, body) = bench.answer();
    let shown = RowsView::parse(&body).expect("rows");
    let expected = RowsView::parse(&of_client).expect("rows");
    let rows = |view: &RowsView<'_>| {
        let rows = view.rows().map(|row| row.expect("a row").concat_cells());
        rows.collect::<Vec<_>>()
    };
    assert_eq!(rows(&shown), rows(&expected));

    // Where nothing in a row tells its table, the statement does, or the column may be of any.
    let only_column = [("column_name", VARCHAR)];
    let (note, hidden) = ([Some(&b"note"[..])], [Some(&b"note__encoded"[..])]);
    for (which, is_hidden) in [
        ("WHERE keyspace_name = 'app'", true),
        (
            "WHERE keyspace_name = 'app' AND table_name = 'orders'",
            true,
        ),
        (
            "WHERE keyspace_name = 'app' AND table_name = 'other'",
            false,
        ),
        ("WHERE keyspace_name = 'other'", false),
        ("", true),
    ] {
        let text = format!("SELECT column_name FROM system_schema.columns {which}");
        let asked = Asking::default().query(Version::V5, &text);
        bench.ask(Opcode::Query, 2, &asked);
        let (_, stream, _) = bench.one_at_node();
        bench.say(
            Opcode::Result,
            stream,
            &page(&only_column, &[&note, &hidden], None),
        );
        let (_, body) = bench.answer();
        let shown = RowsView::parse(&body).expect("rows");
        assert_eq!(shown.row_count, if is_hidden { 1 } else { 2 }, "{which}");
    }

    let columns = [
        ("keyspace_name", VARCHAR),
        ("type", VARCHAR),
        ("name", VARCHAR),
        ("create_statement", VARCHAR),
    ];
    for (definition, expected) in [
        (
            "CREATE TABLE app.orders (\n    customer bigint PRIMARY KEY,\n    note text,\n    note__encoded blob\n) WITH x",
            "CREATE TABLE app.orders (\n    customer bigint PRIMARY KEY,\n    note text\n) WITH x",
        ),
        (
            "CREATE TABLE app.orders (\n    customer bigint,\n    note__encoded blob,\n    z text,\n    PRIMARY KEY (customer)\n) WITH x",
            "CREATE TABLE app.orders (\n    customer bigint,\n    z text,\n    PRIMARY KEY (customer)\n) WITH x",
        ),
    ] {
        let query = Asking::default().query(Version::V5, "DESCRIBE TABLE app.orders");
        bench.ask(Opcode::Query, 2, &query);
        let (_, stream, _) = bench.one_at_node();
        let row = [
            Some(&b"app"[..]),
            Some(&b"table"[..]),
            Some(TABLE.as_bytes()),
            Some(definition.as_bytes()),
        ];
        bench.say(Opcode::Result, stream, &page(&columns, &[&row], None));
        let (_, body) = bench.answer();
        let shown = RowsView::parse(&body).expect("rows");
        let cells = shown.rows().next().expect("a row").expect("cells");
        assert_eq!(
            cells[3].map(String::from_utf8_lossy).as_deref(),
            Some(expected)
        );
    }
}

trait ConcatCells {
    fn concat_cells(&self) -> Vec<u8>;
}

impl ConcatCells for Vec<Option<&[u8]>> {
    fn concat_cells(&self) -> Vec<u8> {
        let cells = self.iter().map(|cell| cell.unwrap_or(b"null"));
        cells.collect::<Vec<_>>().join(&b'|')
    }
}
