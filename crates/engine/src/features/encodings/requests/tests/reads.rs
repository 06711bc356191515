//! Values that are read.

use super::*;

#[test]
fn a_value_that_is_read_is_the_text_in_whichever_column_it_stands() {
    let columns = [("note", VARCHAR), ("day", BIGINT), ("note__encoded", BLOB)];
    let stored = encoded(DOCUMENT);
    let day = Some(CUSTOMER);
    let of_node = page(
        &columns,
        &[
            &[None, day, Some(&stored)],
            &[Some(b"a text"), day, None],
            // One of them was written past the proxies.
            &[Some(b"other"), None, Some(&stored)],
            &[None, day, None],
        ],
        Some(b"state"),
    );
    let of_client = page(
        &columns[..2],
        &[
            &[Some(DOCUMENT.as_bytes()), day],
            &[Some(b"a text"), day],
            &[Some(b"other"), None],
            &[None, day],
        ],
        Some(b"state"),
    );
    for versions in VERSIONS {
        for written in [Written::Text, Written::Both, Written::Encoded] {
            let mut bench = bench(versions, written);
            bench.prepare(READ, b"own", &[("customer", BIGINT)], &columns[..2]);
            let asking = Asking {
                values: &[CUSTOMER],
                skip_metadata: true,
                page_size: Some(100),
                ..Asking::default()
            };
            bench.ask(Opcode::Execute, 2, &asking.execute(versions.0, b"own"));
            let markers = [("customer", BIGINT)];
            let others = answer_prepares(&mut bench, READ_STORED, b"stored", &markers, &columns);
            let [(Opcode::Query, stream, body)] = &others[..] else {
                panic!("{others:?}");
            };
            let view = QueryView::parse(body, versions.1).expect("a QUERY");
            assert_eq!(view.options.flags & query_flags::SKIP_METADATA, 0);
            bench.say(Opcode::Result, *stream, &of_node);
            assert_eq!(bench.answer(), (Opcode::Result, of_client.clone()));

            bench.ask(Opcode::Execute, 3, &asking.execute(versions.0, b"own"));
            let (opcode, stream, body) = bench.one_at_node();
            assert_eq!(opcode, Opcode::Execute);
            let view = ExecuteView::parse(&body, versions.1).expect("an EXECUTE");
            assert_eq!(view.id, b"stored");
            assert_eq!(view.options.flags & query_flags::SKIP_METADATA, 0);
            assert_eq!(view.options.page_size, Some(100));
            bench.say(Opcode::Result, stream, &of_node);
            assert_eq!(bench.answer(), (Opcode::Result, of_client.clone()));
            bench.is_done();
        }
    }
}

#[test]
fn of_two_values_of_a_row_the_one_in_the_column_that_all_come_from_is_the_newest() {
    let columns = [("note", VARCHAR), ("day", BIGINT), ("note__encoded", BLOB)];
    let stored = encoded(DOCUMENT);
    let of_node = page(
        &columns,
        &[
            // A client has written one of them with an older timestamp than that of the other.
            &[Some(b"a text"), None, Some(&stored)],
            &[Some(b"a text"), None, None],
            &[None, None, Some(&stored)],
        ],
        None,
    );
    let json = |note: &str, hidden: &str| {
        format!(r#"{{"note": {note}, "day": 1, "note__encoded": {hidden}}}"#)
    };
    let digits: String = stored.iter().map(|byte| format!("{byte:02x}")).collect();
    let documents = [json("\"a text\"", &format!("\"0x{digits}\""))];
    let documents: Vec<[Option<&[u8]>; 1]> =
        documents.iter().map(|of| [Some(of.as_bytes())]).collect();
    let documents: Vec<&[Option<&[u8]>]> = documents.iter().map(|of| &of[..]).collect();
    let of_json = page(&[("[json]", VARCHAR)], &documents, None);
    for (first, newest) in [(Form::Text, "a text"), (Form::Encoded, DOCUMENT)] {
        for written in [Written::Text, Written::Both, Written::Encoded] {
            let mut bench = bench((Version::V5, Version::V5), written);
            bench.adopt_encodings(encodings_from(first, written));
            for text in [
                "SELECT note, day FROM app.orders",
                "SELECT * FROM app.orders",
            ] {
                let asked = Asking::default().query(Version::V5, text);
                bench.ask(Opcode::Query, 2, &asked);
                let (_, stream, _) = bench.one_at_node();
                bench.say(Opcode::Result, stream, &of_node);
                let (_, body) = bench.answer();
                let shown = RowsView::parse(&body).expect("rows");
                let notes: Vec<String> = shown
                    .rows()
                    .map(|row| {
                        let cells = row.expect("a row");
                        String::from_utf8_lossy(cells[0].expect("a note")).into_owned()
                    })
                    .collect();
                assert_eq!(notes, [newest, "a text", DOCUMENT], "{first:?} {text}");
            }
            for text in [
                "SELECT JSON note, day FROM app.orders",
                "SELECT JSON * FROM app.orders",
            ] {
                let asked = Asking::default().query(Version::V5, text);
                bench.ask(Opcode::Query, 2, &asked);
                let (_, stream, _) = bench.one_at_node();
                bench.say(Opcode::Result, stream, &of_json);
                let (_, body) = bench.answer();
                let shown = RowsView::parse(&body).expect("rows");
                let cells = shown.rows().next().expect("a row").expect("cells");
                let document = String::from_utf8_lossy(cells[0].expect("a document"));
                let is_text = document.contains("a text");
                assert_eq!(is_text, first == Form::Text, "{document}");
            }
        }
    }
}

#[test]
fn where_no_row_has_a_text_any_more_only_the_encoded_value_is_read() {
    let columns = [("note__encoded", BLOB), ("day", BIGINT)];
    let shown = [("note", VARCHAR), ("day", BIGINT)];
    let (stored, empty) = (encoded(DOCUMENT), [0xff, 0x10]);
    let day = Some(CUSTOMER);
    let of_node = page(
        &columns,
        &[&[Some(&stored), day], &[None, day], &[Some(&empty), None]],
        Some(b"state"),
    );
    let of_client = page(
        &shown,
        &[
            &[Some(DOCUMENT.as_bytes()), day],
            &[None, day],
            &[Some(b""), None],
        ],
        Some(b"state"),
    );
    for versions in VERSIONS {
        let mut bench = bench(versions, Written::EncodedOnly);
        bench.prepare(READ, b"own", &[("customer", BIGINT)], &shown);
        let asking = Asking {
            values: &[CUSTOMER],
            skip_metadata: true,
            page_size: Some(100),
            ..Asking::default()
        };
        bench.ask(Opcode::Execute, 2, &asking.execute(versions.0, b"own"));
        let markers = [("customer", BIGINT)];
        let others = answer_prepares(&mut bench, READ_IN_PLACE, b"stored", &markers, &columns);
        let [(Opcode::Query, stream, _)] = &others[..] else {
            panic!("{others:?}");
        };
        bench.say(Opcode::Result, *stream, &of_node);
        assert_eq!(bench.answer(), (Opcode::Result, of_client.clone()));

        bench.ask(Opcode::Execute, 3, &asking.execute(versions.0, b"own"));
        let (opcode, stream, body) = bench.one_at_node();
        assert_eq!(opcode, Opcode::Execute);
        let view = ExecuteView::parse(&body, versions.1).expect("an EXECUTE");
        assert_eq!(view.id, b"stored");
        bench.say(Opcode::Result, stream, &of_node);
        assert_eq!(bench.answer(), (Opcode::Result, of_client.clone()));

        // A name that the client has given stays; an error has the name that it knows.
        let text = "SELECT note AS x, day FROM app.orders WHERE customer = ?";
        bench.ask(Opcode::Query, 4, &asking.query(versions.0, text));
        let (_, stream, body) = bench.one_at_node();
        let view = QueryView::parse(&body, versions.1).expect("a QUERY");
        let sent = "SELECT note__encoded AS x, day FROM app.orders WHERE customer = ?";
        assert_eq!(view.text, sent);
        let row: &[Option<&[u8]>] = &[Some(&stored), day];
        let named = page(&[("x", BLOB), ("day", BIGINT)], &[row], None);
        bench.say(Opcode::Result, stream, &named);
        let row: &[Option<&[u8]>] = &[Some(DOCUMENT.as_bytes()), day];
        let named = page(&[("x", VARCHAR), ("day", BIGINT)], &[row], None);
        assert_eq!(bench.answer(), (Opcode::Result, named));
        bench.ask(Opcode::Execute, 5, &asking.execute(versions.0, b"own"));
        let (_, stream, _) = bench.one_at_node();
        let damaged = page(&columns, &[&[Some(b"\xff"), day]], None);
        bench.say(Opcode::Result, stream, &damaged);
        let (code, message) = bench.error();
        assert_eq!(code, code::SERVER);
        assert!(message.contains("column note, row 1"), "{message}");
        bench.is_done();
    }
}

#[test]
fn where_no_row_has_a_text_any_more_all_columns_show_none() {
    let columns = [
        ("customer", BIGINT),
        ("note", VARCHAR),
        ("note__encoded", BLOB),
    ];
    let stored = encoded(DOCUMENT);
    let mut bench = bench((Version::V5, Version::V5), Written::EncodedOnly);
    let asking = Asking {
        values: &[CUSTOMER],
        ..Asking::default()
    };
    let text = "SELECT * FROM app.orders WHERE customer = ?";
    bench.ask(Opcode::Query, 2, &asking.query(Version::V5, text));
    let (_, stream, _) = bench.one_at_node();
    // Two of them were written past the proxies.
    let of_node = page(
        &columns,
        &[
            &[Some(CUSTOMER), None, Some(&stored)],
            &[Some(CUSTOMER), Some(b"past"), Some(&stored)],
            &[Some(CUSTOMER), Some(b"past"), None],
        ],
        None,
    );
    bench.say(Opcode::Result, stream, &of_node);
    let of_client = page(
        &columns[..2],
        &[
            &[Some(CUSTOMER), Some(DOCUMENT.as_bytes())],
            &[Some(CUSTOMER), Some(DOCUMENT.as_bytes())],
            &[Some(CUSTOMER), None],
        ],
        None,
    );
    assert_eq!(bench.answer(), (Opcode::Result, of_client));
    bench.is_done();
}

#[test]
fn all_columns_are_those_that_clients_know() {
    let columns = [
        ("customer", BIGINT),
        ("note", VARCHAR),
        ("note__encoded", BLOB),
    ];
    let stored = encoded(DOCUMENT);
    for versions in VERSIONS {
        let mut bench = bench(versions, Written::Encoded);
        let mut body = Vec::new();
        let text = "SELECT * FROM app.orders WHERE customer = ?";
        write::long_string(&mut body, text);
        if versions.0 == Version::V5 {
            write::u32(&mut body, 0);
        }
        bench.ask(Opcode::Prepare, 1, &body);
        let (_, stream, _) = bench.one_at_node();
        let answer = bench.prepared(b"own", TABLE, &[("customer", BIGINT)], &columns);
        bench.say(Opcode::Result, stream, &answer);
        let (_, body) = bench.answer();
        let view = helenus_wire::PreparedView::parse(&body, versions.0).expect("PREPARED");
        let names: Vec<_> = view.result_columns.iter().map(|c| c.name).collect();
        assert_eq!(names, ["customer", "note"]);

        let asking = Asking {
            values: &[CUSTOMER],
            skip_metadata: true,
            ..Asking::default()
        };
        bench.ask(Opcode::Execute, 2, &asking.execute(versions.0, b"own"));
        let (opcode, stream, body) = bench.one_at_node();
        assert_eq!(opcode, Opcode::Execute);
        let view = ExecuteView::parse(&body, versions.1).expect("an EXECUTE");
        assert_eq!(view.id, b"own");
        assert_eq!(view.options.flags & query_flags::SKIP_METADATA, 0);
        let of_node = page(&columns, &[&[Some(CUSTOMER), None, Some(&stored)]], None);
        bench.say(Opcode::Result, stream, &of_node);
        let row: &[Option<&[u8]>] = &[Some(CUSTOMER), Some(DOCUMENT.as_bytes())];
        let of_client = page(&columns[..2], &[row], None);
        assert_eq!(bench.answer(), (Opcode::Result, of_client));
        bench.is_done();
    }
}

#[test]
fn a_value_that_cannot_be_read_is_an_error_that_names_the_table() {
    let columns = [("note", VARCHAR), ("day", BIGINT), ("note__encoded", BLOB)];
    let unknown: &[u8] = &[0xff, 0x15, 9, 1, 2, 3];
    let damaged: &[u8] = &[0xff, 0x15, 3, 0xee, 0xee, 0xee, 0xee];
    for stored in [unknown, damaged, b"\xff", b"\xfe\xfe"] {
        let mut bench = bench((Version::V5, Version::V5), Written::Encoded);
        let asking = Asking {
            values: &[CUSTOMER],
            ..Asking::default()
        };
        bench.ask(Opcode::Query, 2, &asking.query(Version::V5, READ));
        let (_, stream, _) = bench.one_at_node();
        let of_node = page(&columns, &[&[None, None, Some(stored)]], None);
        bench.say(Opcode::Result, stream, &of_node);
        let (code, message) = bench.error();
        assert_eq!(code, code::SERVER);
        assert!(message.contains("app.orders"), "{message}");
        bench.is_done();
    }
    // A node that answers something else than was asked for.
    let mut bench = bench((Version::V5, Version::V5), Written::Encoded);
    let asking = Asking {
        values: &[CUSTOMER],
        ..Asking::default()
    };
    bench.ask(Opcode::Query, 2, &asking.query(Version::V5, READ));
    let (_, stream, _) = bench.one_at_node();
    bench.say(
        Opcode::Result,
        stream,
        &[0, 0, 0, 2, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0],
    );
    assert_eq!(bench.error().0, code::SERVER);
    bench.is_done();
}
