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
            let others =
                answer_prepares(&mut bench, (READ_STORED, b"stored"), (&markers, &columns));
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
        let others = answer_prepares(&mut bench, (READ_IN_PLACE, b"stored"), (&markers, &columns));
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
