//! Values that are written.

use super::*;

#[test]
fn a_value_that_is_written_is_encoded_and_the_text_deleted() {
    for versions in VERSIONS {
        let mut bench = bench(versions, Written::Encoded);
        bench.prepare(INSERT, b"own", &INSERTED, &[]);
        let asking = Asking {
            values: &[CUSTOMER, DOCUMENT.as_bytes()],
            timestamp: Some(77),
            ..Asking::default()
        };
        let check = |values: Vec<ValueRef<'_>>, timestamp: Option<i64>| {
            let [ValueRef::Set(key), ValueRef::Set(value), ValueRef::Null] = values[..] else {
                panic!("{values:?}");
            };
            assert_eq!((key, &*decoded(value)), (CUSTOMER, DOCUMENT));
            assert!(value.len() < DOCUMENT.len() / 2);
            assert_eq!(timestamp, Some(77));
        };
        // Until the node has prepared what is sent, it is sent as a text.
        bench.ask(Opcode::Execute, 2, &asking.execute(versions.0, b"own"));
        let markers = [
            ("customer", BIGINT),
            ("note__encoded", BLOB),
            ("note", VARCHAR),
        ];
        let others = answer_prepares(&mut bench, INSERT_STORED, b"stored", &markers, &[]);
        let [(Opcode::Query, stream, body)] = &others[..] else {
            panic!("{others:?}");
        };
        let view = QueryView::parse(body, versions.1).expect("a QUERY");
        assert_eq!(view.text, INSERT_STORED);
        let values = view.options.values.iter().map(|(_, value)| value);
        check(values.collect(), view.options.timestamp);
        bench.say(Opcode::Result, *stream, &void());
        assert_eq!(bench.answer(), (Opcode::Result, void()));

        bench.ask(Opcode::Execute, 3, &asking.execute(versions.0, b"own"));
        let (opcode, stream, body) = bench.one_at_node();
        assert_eq!(opcode, Opcode::Execute);
        let view = ExecuteView::parse(&body, versions.1).expect("an EXECUTE");
        assert_eq!(view.id, b"stored");
        let values = view.options.values.iter().map(|(_, value)| value);
        check(values.collect(), view.options.timestamp);
        bench.say(Opcode::Result, stream, &void());
        assert_eq!(bench.answer(), (Opcode::Result, void()));

        // By name, in another order.
        let named = Asking {
            values: &[DOCUMENT.as_bytes(), CUSTOMER],
            names: &["note", "customer"],
            timestamp: Some(77),
            ..Asking::default()
        };
        bench.ask(Opcode::Execute, 4, &named.execute(versions.0, b"own"));
        let (_, stream, body) = bench.one_at_node();
        let view = ExecuteView::parse(&body, versions.1).expect("an EXECUTE");
        let values = view.options.values.iter().map(|(_, value)| value);
        check(values.collect(), view.options.timestamp);
        bench.say(Opcode::Result, stream, &void());
        assert_eq!(bench.answer(), (Opcode::Result, void()));

        let not_text = Asking {
            values: &[CUSTOMER, b"\xff"],
            ..Asking::default()
        };
        bench.ask(Opcode::Execute, 5, &not_text.execute(versions.0, b"own"));
        let (code, message) = bench.error();
        assert_eq!(code, code::INVALID);
        assert!(message.contains("didn't validate"), "{message}");
        bench.is_done();
    }
}

#[test]
fn a_batch_is_encoded_child_by_child() {
    for versions in VERSIONS {
        let mut bench = bench(versions, Written::Encoded);
        bench.prepare(INSERT, b"own", &INSERTED, &[]);
        let mut body = vec![1];
        write::u16(&mut body, 3);
        body.push(1);
        write::short_bytes(&mut body, b"own");
        write::u16(&mut body, 2);
        write::bytes(&mut body, Some(CUSTOMER));
        write::bytes(&mut body, Some(DOCUMENT.as_bytes()));
        body.push(0);
        let other = "UPDATE app.others SET note = ? WHERE customer = 1";
        write::long_string(&mut body, other);
        write::u16(&mut body, 1);
        write::bytes(&mut body, Some(b"stays"));
        body.push(0);
        write::long_string(&mut body, "DELETE note FROM app.orders WHERE customer = 1");
        write::u16(&mut body, 0);
        write::u16(&mut body, 6);
        match versions.0 {
            Version::V5 => write::u32(&mut body, 0),
            _ => body.push(0),
        }
        bench.ask(Opcode::Batch, 2, &body);
        let markers = [
            ("customer", BIGINT),
            ("note__encoded", BLOB),
            ("note", VARCHAR),
        ];
        let others = answer_prepares(&mut bench, INSERT_STORED, b"stored", &markers, &[]);
        let [(Opcode::Batch, stream, body)] = &others[..] else {
            panic!("{others:?}");
        };
        let view = BatchView::parse(body, versions.1).expect("a BATCH");
        let children: Vec<(String, Vec<ValueRef<'_>>)> = view
            .children
            .iter()
            .map(|child| match child {
                BatchChild::Text(text, values) => {
                    ((*text).to_owned(), values.iter().map(|(_, v)| v).collect())
                }
                BatchChild::Prepared(id, _) => panic!("{id:?}"),
            })
            .collect();
        assert_eq!(children[0].0, INSERT_STORED);
        let [_, ValueRef::Set(value), ValueRef::Null] = children[0].1[..] else {
            panic!("{children:?}");
        };
        assert_eq!(decoded(value), DOCUMENT);
        assert_eq!(
            children[1],
            (other.to_owned(), vec![ValueRef::Set(&b"stays"[..])])
        );
        assert_eq!(
            children[2].0,
            "DELETE note, note__encoded FROM app.orders WHERE customer = 1"
        );
        bench.say(Opcode::Result, *stream, &void());
        assert_eq!(bench.answer(), (Opcode::Result, void()));
        bench.is_done();
    }
}

#[test]
fn an_error_names_the_columns_of_all_tables_of_a_batch_as_clients_know_them() {
    let mut bench = bench((Version::V5, Version::V5), Written::Encoded);
    let mut both = encodings(Written::Encoded);
    let tables = both.tables.get_mut("app").expect("the keyspace");
    let first = &tables[TABLE];
    let second = EncodedTable {
        keyspace: "app".to_owned(),
        name: "others".to_owned(),
        columns: vec![EncodedColumn {
            name: "page".to_owned(),
            hidden: "page__encoded".to_owned(),
            ..first.columns[0].clone()
        }],
        dictionaries: first.dictionaries.clone(),
    };
    tables.insert("others".to_owned(), Arc::new(second));
    bench.adopt_encodings(both);
    let texts = [
        "INSERT INTO app.orders (customer, note) VALUES (1, 'a')",
        "INSERT INTO app.others (customer, page) VALUES (1, 'b')",
    ];
    let mut batch = vec![1];
    write::u16(&mut batch, 2);
    for text in texts {
        batch.push(0);
        write::long_string(&mut batch, text);
        write::u16(&mut batch, 0);
    }
    write::u16(&mut batch, 6);
    write::u32(&mut batch, 0);
    let text = format!("BEGIN BATCH {}; {} APPLY BATCH", texts[0], texts[1]);
    let text = Asking::default().query(Version::V5, &text);
    for (opcode, body) in [(Opcode::Batch, batch), (Opcode::Query, text)] {
        bench.ask(opcode, 2, &body);
        let (_, stream, _) = bench.one_at_node();
        let told = "page__encoded and note__encoded are too large";
        bench.say_error(stream, code::INVALID, told, &[]);
        let (_, message) = bench.error();
        assert_eq!(message, "page and note are too large");
        bench.is_done();
    }
}
