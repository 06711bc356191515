//! Each conversion between versions against bytes written out by hand from the protocol's
//! specifications (native_protocol_v3.spec, v4, v5) and, where a version cannot say something, from
//! what Cassandra itself sends to it.

use helenus_wire::{
    BatchView, ConvertError, Converted, Opcode, Page, QueryView, RequestContext, Version,
    convert_request, convert_response, flags,
};

use Version::{V3, V4, V5};

/// Hexadecimal bytes, and texts in quotation marks; blanks and line ends only part them.
fn bytes(text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    for (i, part) in text.split('\'').enumerate() {
        if i % 2 == 1 {
            out.extend_from_slice(part.as_bytes());
            continue;
        }
        let digits: Vec<u32> = part.chars().filter_map(|c| c.to_digit(16)).collect();
        let pairs = digits.chunks(2);
        out.extend(pairs.map(|pair| (pair[0] << 4 | pair[1]) as u8));
    }
    out
}

fn raised(
    opcode: Opcode,
    from: Version,
    to: Version,
    context: RequestContext,
    body: &str,
) -> Vec<u8> {
    let mut out = Vec::new();
    convert_request(opcode, 0, &bytes(body), from, to, context, &mut out).unwrap();
    out
}

const NOTHING: RequestContext = RequestContext {
    keyspace: None,
    result_metadata_id: None,
    node_statement_id: None,
    page: None,
    full_metadata: false,
};

const IN_KS: RequestContext = RequestContext {
    keyspace: Some("ks"),
    ..NOTHING
};

#[track_caller]
fn lowers(opcode: Opcode, from: Version, to: Version, body: &str, expected: Option<&str>) {
    let mut out = Vec::new();
    let converted = convert_response(opcode, 0, &bytes(body), from, to, &mut out).unwrap();
    match expected {
        Some(expected) => {
            assert_eq!(converted, Converted::Rewritten { header_flags: 0 });
            assert_eq!(out, bytes(expected), "{from:?} to {to:?}");
        }
        None => assert_eq!((converted, out.len()), (Converted::Same, 0)),
    }
}

#[test]
fn query_flags_widen() {
    // <query> <consistency QUORUM> <flags: values, page size, state, serial, timestamp>
    let tail = "0001 00000004 00000007  00000064  00000002 abcd  0008  0000000000000001";
    let body = format!("00000003 'SEL' 0004 3d {tail}");
    let expected = format!("00000003 'SEL' 0004 0000003d {tail}");
    for from in [V3, V4] {
        assert_eq!(
            raised(Opcode::Query, from, V5, NOTHING, &body),
            bytes(&expected)
        );
    }
    assert_eq!(raised(Opcode::Query, V3, V4, NOTHING, &body), bytes(&body));
}

#[test]
fn the_keyspace_goes_between_timestamp_and_now() {
    let v4 = "00000001 'S' 0001 20 0000000000000009";
    let expected = "00000001 'S' 0001 000000a0 0000000000000009 0002 'ks'";
    assert_eq!(raised(Opcode::Query, V4, V5, IN_KS, v4), bytes(expected));
    let v5 = "00000001 'S' 0001 00000120 0000000000000009 65000000";
    let expected = "00000001 'S' 0001 000001a0 0000000000000009 0002 'ks' 65000000";
    assert_eq!(raised(Opcode::Query, V5, V5, IN_KS, v5), bytes(expected));
    // One that the client names itself stays.
    let v5 = "00000001 'S' 0001 00000080 0003 'own'";
    assert_eq!(raised(Opcode::Query, V5, V5, IN_KS, v5), bytes(v5));
    // v4 cannot say it.
    let v3 = "00000001 'S' 0001 00";
    assert_eq!(raised(Opcode::Query, V3, V4, IN_KS, v3), bytes(v3));
}

#[test]
fn another_page_takes_the_place_of_the_clients() {
    let page = |size, state| RequestContext {
        page: Some(Page { size, state }),
        ..NOTHING
    };
    // Values, page size, state, serial consistency; then without any page.
    let v4 = "00000001 'S' 0004 1d 0001 00000001 07 00001388 00000002 abcd 0008";
    let first = "00000001 'S' 0004 00000015 0001 00000001 07 000000fa 0008";
    let next = "00000001 'S' 0004 0000001d 0001 00000001 07 000000fa 00000003 010203 0008";
    let of = |context| raised(Opcode::Query, V4, V5, context, v4);
    assert_eq!(of(page(250, None)), bytes(first));
    assert_eq!(of(page(250, Some(&[1, 2, 3]))), bytes(next));
    let plain = "00000001 'S' 0004 00000000";
    let paged = "00000001 'S' 0004 00000004 000000fa";
    let raised = raised(Opcode::Query, V5, V5, page(250, None), plain);
    assert_eq!(raised, bytes(paged));
}

#[test]
fn columns_come_with_the_rows_where_they_are_wanted() {
    let wanted = RequestContext {
        full_metadata: true,
        result_metadata_id: Some(&[0xaa]),
        ..NOTHING
    };
    // Without metadata, with a page size.
    let v4 = "0002 0102 0006 06 000000fa";
    let v5 = "0002 0102 0001 aa 0006 00000004 000000fa";
    assert_eq!(raised(Opcode::Execute, V4, V5, wanted, v4), bytes(v5));
    let same = "0002 0102 0006 04 000000fa";
    assert_eq!(raised(Opcode::Execute, V4, V4, wanted, v4), bytes(same));
}

#[test]
fn nulls_of_v3_stay_nulls() {
    // −2 is null to v3 and unset from v4 on.
    let body =
        |null: &str, flags: &str| format!("00000001 'S' 0001 {flags} 0002 {null} 00000001 07");
    assert_eq!(
        raised(Opcode::Query, V3, V5, NOTHING, &body("fffffffe", "01")),
        bytes(&body("ffffffff", "00000001"))
    );
    assert_eq!(
        raised(Opcode::Query, V4, V5, NOTHING, &body("fffffffe", "01")),
        bytes(&body("fffffffe", "00000001"))
    );
    let batch =
        |null: &str, flags: &str| format!("00 0001 00 00000001 'I' 0001 {null} 0001 {flags}");
    assert_eq!(
        raised(Opcode::Batch, V3, V5, NOTHING, &batch("fffffff0", "00")),
        bytes(&batch("ffffffff", "00000000"))
    );
}

#[test]
fn named_values_stay() {
    let body = |flags: &str| format!("00000001 'S' 0001 {flags} 0001 0001 'a' 00000001 07");
    assert_eq!(
        raised(Opcode::Query, V3, V5, NOTHING, &body("41")),
        bytes(&body("00000041"))
    );
}

#[test]
fn execute_gains_a_metadata_id() {
    let context = RequestContext {
        result_metadata_id: Some(&[0xaa, 0xbb]),
        node_statement_id: Some(&[9, 9, 9]),
        ..IN_KS
    };
    let v4 = "0002 0102 0006 01 0001 00000001 07";
    // EXECUTE names no keyspace: that of the statement was settled when it was prepared.
    assert_eq!(
        raised(Opcode::Execute, V4, V5, context, v4),
        bytes("0003 090909 0002 aabb 0006 00000001 0001 00000001 07")
    );
    assert_eq!(
        raised(Opcode::Execute, V3, V5, NOTHING, v4),
        bytes("0002 0102 0010 00000000 00000000 00000000 00000000 0006 00000001 0001 00000001 07")
    );
    assert_eq!(raised(Opcode::Execute, V3, V4, NOTHING, v4), bytes(v4));
    let v5 = "0002 0102 0001 cc 0006 00000000";
    assert_eq!(
        raised(Opcode::Execute, V5, V5, context, v5),
        bytes("0003 090909 0001 cc 0006 00000000")
    );
}

#[test]
fn batch_flags_widen() {
    // <LOGGED> <2> text without values, prepared with one; QUORUM, serial consistency and timestamp.
    let head = "00 0002  00 00000001 'I' 0000  01 0002 0102 0001 ffffffff  0004";
    let tail = "0009 0000000000000005";
    assert_eq!(
        raised(Opcode::Batch, V4, V5, IN_KS, &format!("{head} 30 {tail}")),
        bytes(&format!("{head} 000000b0 {tail} 0002 'ks'"))
    );
}

/// A node reads the values and the page of a BATCH although it does nothing with them.
#[test]
fn a_batch_is_read_as_nodes_read_it() {
    let body = |flags: &str, null: &str, keyspace: &str| {
        bytes(&format!(
            "00 0000 0004 {flags} 0001 0001 'a' {null} 00000005 00000001 07 0009 {keyspace}"
        ))
    };
    let v5 = body("000000dd", "ffffffff", "0003 'app'");
    let options = BatchView::parse(&v5, V5).unwrap().options;
    assert_eq!(options.keyspace, Some("app"));
    assert_eq!((options.values.count, options.page_size), (1, Some(5)));
    let mut out = Vec::new();
    let v3 = body("5d", "fffffff0", "");
    convert_request(
        Opcode::Batch,
        0,
        &v3,
        V3,
        V5,
        RequestContext {
            keyspace: Some("app"),
            ..NOTHING
        },
        &mut out,
    )
    .unwrap();
    assert_eq!(out, v5);
}

/// A node would obey it, and the proxy has not seen it.
#[test]
fn a_keyspace_is_refused_before_v5() {
    for (opcode, head) in [
        (Opcode::Query, "00000001 'S' 0001"),
        (Opcode::Execute, "0002 0102 0001"),
        (Opcode::Batch, "00 0000 0001"),
    ] {
        for version in [V3, V4] {
            let body = bytes(&format!("{head} 80 0003 'app'"));
            let mut out = Vec::new();
            let why = convert_request(opcode, 0, &body, version, V4, NOTHING, &mut out);
            let why = why.unwrap_err().to_string();
            assert!(why.contains("0x80"), "{why}");
        }
    }
    // Bits without a meaning in v5 have none to nodes.
    let body = bytes("00000001 'S' 0001 40000080 0003 'app'");
    let view = QueryView::parse(&body, V5).unwrap();
    assert_eq!(view.options.keyspace, Some("app"));
}

#[test]
fn prepare_gains_flags() {
    let v4 = "00000003 'SEL'";
    let to_v5 = |context| raised(Opcode::Prepare, V4, V5, context, v4);
    assert_eq!(to_v5(NOTHING), bytes("00000003 'SEL' 00000000"));
    assert_eq!(to_v5(IN_KS), bytes("00000003 'SEL' 00000001 0002 'ks'"));
    let own = "00000003 'SEL' 00000001 0001 'x'";
    assert_eq!(raised(Opcode::Prepare, V5, V5, IN_KS, own), bytes(own));
}

#[test]
fn a_custom_payload_stays_in_front() {
    let payload = "0001 0001 'k' 00000002 0102";
    let body = bytes(&format!("{payload} 00000001 'S' 0001 00"));
    let mut out = Vec::new();
    let flags = flags::CUSTOM_PAYLOAD;
    convert_request(Opcode::Query, flags, &body, V4, V5, NOTHING, &mut out).unwrap();
    assert_eq!(out, bytes(&format!("{payload} 00000001 'S' 0001 00000000")));
}

#[test]
fn rows_lose_their_metadata_id() {
    // Flags: global table, more pages, metadata changed; one column `k int`, one row.
    let v5 = "00000002 0000000b 00000001 00000001 ee 0002 aabb
              0002 'ks' 0001 't' 0001 'k' 0009  00000001 00000004 00000007";
    let v4 = "00000002 00000003 00000001 00000001 ee
              0002 'ks' 0001 't' 0001 'k' 0009  00000001 00000004 00000007";
    lowers(Opcode::Result, V5, V4, v5, Some(v4));
    lowers(Opcode::Result, V5, V3, v5, Some(v4));
    lowers(Opcode::Result, V5, V4, v4, None);
    lowers(Opcode::Result, V5, V5, v5, None);
    // Without metadata there is nothing to convert.
    lowers(
        Opcode::Result,
        V5,
        V3,
        "00000002 00000004 00000001 00000000",
        None,
    );
}

#[test]
fn types_that_v3_does_not_know_become_custom() {
    // date (0x0011), time, smallint, tinyint came with v4; Cassandra names their classes to v3.
    for (id, class) in [
        ("0011", "SimpleDateType"),
        ("0012", "TimeType"),
        ("0013", "ShortType"),
        ("0014", "ByteType"),
    ] {
        let class = format!("org.apache.cassandra.db.marshal.{class}");
        let rows = |ty: &str| {
            format!("00000002 00000001 00000001 0001 'a' 0001 'b' 0001 'c' {ty} 00000000")
        };
        let custom = format!("0000 {:04x} '{class}'", class.len());
        lowers(Opcode::Result, V5, V3, &rows(id), Some(&rows(&custom)));
        lowers(Opcode::Result, V5, V4, &rows(id), None);
        // Also inside a list.
        let (list, custom) = (format!("0020 {id}"), format!("0020 {custom}"));
        lowers(Opcode::Result, V4, V3, &rows(&list), Some(&rows(&custom)));
    }
}

#[test]
fn prepared_loses_metadata_id_and_key_positions() {
    let variables = "0002 'ks' 0001 't' 0001 'k' 0009";
    let result = "00000004 00000000";
    let v5 = format!(
        "00000004 0002 0102 0002 aabb 00000001 00000001 00000001 0000 {variables} {result}"
    );
    let v4 = format!("00000004 0002 0102 00000001 00000001 00000001 0000 {variables} {result}");
    let v3 = format!("00000004 0002 0102 00000001 00000001 {variables} {result}");
    lowers(Opcode::Result, V5, V4, &v5, Some(&v4));
    lowers(Opcode::Result, V5, V3, &v5, Some(&v3));
    lowers(Opcode::Result, V4, V3, &v4, Some(&v3));
}

#[test]
fn failures_count_where_v5_names_nodes() {
    // <code> <message> <QUORUM> <received 1> <blockfor 2> <map of reasons: 10.0.0.1 and ::1> <end>
    let reasons = "00000002 04 0a000001 0001  10 00000000000000000000000000000001 0000";
    for (failure, timeout, end) in [("1300", "1200", "01"), ("1500", "1100", "0006 'SIMPLE'")] {
        let head = "0001 'm' 0004 00000001 00000002";
        let v5 = format!("0000{failure} {head} {reasons} {end}");
        let v4 = format!("0000{failure} {head} 00000002 {end}");
        // v3 has no failures: Cassandra tells it of a time-out.
        let words = "'Operation timed out - received only 1 responses.'";
        let v3 = format!("0000{timeout} 0030 {words} 0004 00000001 00000002 {end}");
        lowers(Opcode::Error, V5, V4, &v5, Some(&v4));
        lowers(Opcode::Error, V5, V3, &v5, Some(&v3));
        lowers(Opcode::Error, V4, V3, &v4, Some(&v3));
    }
}

#[test]
fn contentions_are_only_for_v5() {
    let fields = "0008 00000001 00000002 0003 'CAS'";
    let words = "0030 'Operation timed out - received only 1 responses.'";
    let v5 = format!("00001100 0003 'cas' {fields} 0007");
    let older = format!("00001100 {words} {fields}");
    lowers(Opcode::Error, V5, V4, &v5, Some(&older));
    lowers(Opcode::Error, V5, V3, &v5, Some(&older));
    // Other write time-outs look the same in all versions.
    lowers(
        Opcode::Error,
        V5,
        V3,
        "00001100 0001 'm' 0004 00000001 00000002 0006 'SIMPLE'",
        None,
    );
    let unknown = "00001700 0001 'm' 0008 00000001 00000002";
    lowers(Opcode::Error, V5, V4, unknown, Some(&older));
    lowers(Opcode::Error, V5, V3, unknown, Some(&older));
}

#[test]
fn errors_that_v3_does_not_know_become_invalid() {
    let function = "00001400 0001 'm' 0002 'ks' 0001 'f' 0001 0003 'int'";
    let v3 = "00002200 0019 'ERROR FUNCTION_FAILURE: m'";
    lowers(Opcode::Error, V5, V3, function, Some(v3));
    lowers(Opcode::Error, V5, V4, function, None);
    let v3 = "00002200 001a 'ERROR CDC_WRITE_FAILURE: m'";
    lowers(Opcode::Error, V5, V3, "00001600 0001 'm'", Some(v3));
}

#[test]
fn other_errors_are_the_same() {
    for body in [
        "0000000a 0001 'm'",
        "00001000 0001 'm' 0004 00000002 00000001",
        "00001200 0001 'm' 0004 00000001 00000002 00",
        "00002400 0001 'm' 0002 'ks' 0001 't'",
        "00002500 0001 'm' 0002 0102",
    ] {
        for to in [V3, V4] {
            lowers(Opcode::Error, V5, to, body, None);
        }
    }
}

#[test]
fn functions_are_a_keyspace_to_v3() {
    let change = "0007 'CREATED' 0008 'FUNCTION' 0002 'ks' 0001 'f' 0001 0003 'int'";
    // Cassandra leaves an empty name behind it.
    let keyspace = "0007 'UPDATED' 0008 'KEYSPACE' 0002 'ks' 0000";
    let (result, event) = ("00000005", "000d 'SCHEMA_CHANGE'");
    let with = |head: &str, tail: &str| format!("{head} {tail}");
    lowers(
        Opcode::Result,
        V5,
        V3,
        &with(result, change),
        Some(&with(result, keyspace)),
    );
    lowers(
        Opcode::Event,
        V5,
        V3,
        &with(event, change),
        Some(&with(event, keyspace)),
    );
    lowers(Opcode::Result, V5, V4, &with(result, change), None);
    let table = "00000005 0007 'CREATED' 0005 'TABLE' 0002 'ks' 0001 't'";
    lowers(Opcode::Result, V5, V3, table, None);
}

#[test]
fn v3_has_neither_warnings_nor_payload() {
    let tracing = "00112233 44556677 8899aabb ccddeeff";
    let prelude = "0001 0004 'warn' 0001 0001 'k' 00000001 07";
    let body = bytes(&format!("{tracing} {prelude} 00000001"));
    let flags = flags::TRACING | flags::WARNING | flags::CUSTOM_PAYLOAD;
    let mut out = Vec::new();
    let converted = convert_response(Opcode::Result, flags, &body, V5, V3, &mut out).unwrap();
    let header_flags = flags::TRACING;
    assert_eq!(converted, Converted::Rewritten { header_flags });
    assert_eq!(out, bytes(&format!("{tracing} 00000001")));
    out.clear();
    let converted = convert_response(Opcode::Result, flags, &body, V5, V4, &mut out).unwrap();
    assert_eq!((converted, out.len()), (Converted::Same, 0));
}

#[test]
fn rows_without_columns_are_refused() {
    let endless = bytes("00000002 00000004 00000000 7fffffff");
    assert!(helenus_wire::RowsView::parse(&endless).is_err());
}

#[test]
fn of_what_an_older_node_sends_only_prepared_cannot_be_raised() {
    let raised = |opcode, body: &str| {
        let mut out = Vec::new();
        let converted = convert_response(opcode, 0, &bytes(body), V4, V5, &mut out);
        assert_eq!(out, []);
        converted
    };
    assert_eq!(raised(Opcode::Result, "00000001").unwrap(), Converted::Same);
    assert_eq!(raised(Opcode::Ready, "").unwrap(), Converted::Same);
    let prepared = raised(Opcode::Result, "00000004 0002 'id'");
    assert!(matches!(prepared, Err(ConvertError::Older)));
}
