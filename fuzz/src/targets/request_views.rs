//! Bodies of requests and answers: views and conversions. The first bytes choose opcode, flags and
//! versions.
use helenus_wire::{
    BatchChild, BatchView, ColumnSpec, Converted, ExecuteView, Opcode, Options, PrepareView,
    PreparedView, QueryView, RequestContext, RowsView, Values, Version, convert_request,
    convert_response, flags, strip_prelude,
};

const KEYSPACE: &str = "ks";

pub fn run(data: &[u8]) {
    let [opcode, header_flags, version, body @ ..] = data else {
        return;
    };
    let version = match version % 3 {
        0 => Version::V3,
        1 => Version::V4,
        _ => Version::V5,
    };
    let _ = QueryView::parse(body, version).map(|view| view.options.values.iter().count());
    let _ = ExecuteView::parse(body, version);
    let _ = BatchView::parse(body, version);
    let _ = PrepareView::parse(body, version);
    let _ = PreparedView::parse(body, version);
    let _ = RowsView::parse(body).map(|view| view.rows().take_while(|row| row.is_ok()).count());
    let Some(opcode) = Opcode::from_number(opcode % 17) else {
        return;
    };
    let mut out = Vec::new();
    let context = RequestContext {
        keyspace: Some(KEYSPACE),
        ..RequestContext::default()
    };
    let converted = convert_request(
        opcode,
        *header_flags,
        body,
        version,
        Version::V5,
        context,
        &mut out,
    );
    if converted.is_ok() && header_flags & flags::CUSTOM_PAYLOAD == 0 {
        says_the_same(opcode, body, version, &out);
    }
    out.clear();
    let lowered = convert_response(opcode, *header_flags, body, Version::V5, version, &mut out);
    if let (Opcode::Result, Ok(Converted::Rewritten { header_flags: new })) = (opcode, lowered) {
        answers_the_same((*header_flags, body), (new, &out), version);
    }
}

/// A response lowered from v5 says the same as before.
fn answers_the_same(of: (u8, &[u8]), to: (u8, &[u8]), version: Version) {
    let [of, to] = [of, to].map(|(header_flags, body)| {
        let (_, message) = strip_prelude(header_flags, body).expect("it was read before");
        message
    });
    if let Ok(of) = RowsView::parse(of) {
        let to = RowsView::parse(to).expect("rows");
        assert_eq!(of.paging_state, to.paging_state);
        assert_eq!(names(&of.columns), names(&to.columns));
        assert_eq!(to.new_metadata_id, None, "only v5 has it");
        let [of, to] = [&of, &to].map(|view| view.rows().take_while(Result::is_ok));
        assert!(of.flatten().eq(to.flatten()), "rows have changed");
    }
    if let Ok(of) = PreparedView::parse(of, Version::V5) {
        let to = PreparedView::parse(to, version).expect("a PREPARED");
        assert_eq!((of.id, to.result_metadata_id), (to.id, None));
        assert_eq!(names(&of.markers), names(&to.markers));
        assert_eq!(names(&of.result_columns), names(&to.result_columns));
    }
}

/// Types that a version does not know have others there.
fn names<'a>(columns: &[ColumnSpec<'a>]) -> Vec<[&'a str; 3]> {
    let name = |column: &ColumnSpec<'a>| [column.keyspace, column.table, column.name];
    columns.iter().map(name).collect()
}

/// A request raised to v5 asks for the same as before.
fn says_the_same(opcode: Opcode, body: &[u8], version: Version, raised: &[u8]) {
    match opcode {
        Opcode::Query => {
            let [of, to] = [(body, version), (raised, Version::V5)]
                .map(|(body, version)| QueryView::parse(body, version).expect("a QUERY"));
            assert_eq!(of.text, to.text);
            are_the_same(&of.options, &to.options);
        }
        Opcode::Execute => {
            let [of, to] = [(body, version), (raised, Version::V5)]
                .map(|(body, version)| ExecuteView::parse(body, version).expect("an EXECUTE"));
            assert_eq!(of.id, to.id);
            let id = of.result_metadata_id.unwrap_or(&[0; 16]);
            assert_eq!(Some(id), to.result_metadata_id);
            are_the_same(&of.options, &to.options);
        }
        Opcode::Batch => {
            let [of, to] = [(body, version), (raised, Version::V5)]
                .map(|(body, version)| BatchView::parse(body, version).expect("a BATCH"));
            assert_eq!(of.batch_type, to.batch_type);
            assert_eq!(of.children.len(), to.children.len());
            for children in of.children.iter().zip(&to.children) {
                match children {
                    (BatchChild::Text(of, values), BatchChild::Text(to, raised)) => {
                        assert_eq!(of, to);
                        bind_the_same(values, raised);
                    }
                    (BatchChild::Prepared(of, values), BatchChild::Prepared(to, raised)) => {
                        assert_eq!(of, to);
                        bind_the_same(values, raised);
                    }
                    _ => panic!("a text became an id, or an id a text"),
                }
            }
            are_the_same(&of.options, &to.options);
        }
        Opcode::Prepare => {
            let [of, to] = [(body, version), (raised, Version::V5)]
                .map(|(body, version)| PrepareView::parse(body, version).expect("a PREPARE"));
            assert_eq!(of.text, to.text);
            assert_eq!(Some(of.keyspace.unwrap_or(KEYSPACE)), to.keyspace);
        }
        _ => {}
    }
}

fn are_the_same(of: &Options<'_>, to: &Options<'_>) {
    assert_eq!(of.consistency, to.consistency);
    assert_eq!(of.serial_consistency, to.serial_consistency);
    assert_eq!(of.page_size, to.page_size);
    assert_eq!(of.paging_state, to.paging_state);
    assert_eq!(of.timestamp, to.timestamp);
    assert_eq!(of.now_in_seconds, to.now_in_seconds);
    bind_the_same(&of.values, &to.values);
}

fn bind_the_same(of: &Values<'_>, to: &Values<'_>) {
    assert!(of.iter().eq(to.iter()), "{of:?} became {to:?}");
}
