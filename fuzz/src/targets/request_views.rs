//! Bodies of requests and answers: views and conversions. The first bytes choose opcode, flags and
//! versions.
use helenus_wire::{
    BatchView, ExecuteView, Opcode, PrepareView, PreparedView, QueryView, RequestContext, RowsView,
    Version, convert_request, convert_response,
};

pub fn run(data: &[u8]) {
    let [opcode, flags, version, body @ ..] = data else {
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
        keyspace: Some("ks"),
        ..RequestContext::default()
    };
    let _ = convert_request(
        opcode,
        *flags,
        body,
        version,
        Version::V5,
        context,
        &mut out,
    );
    out.clear();
    let _ = convert_response(opcode, *flags, body, Version::V5, version, &mut out);
}
