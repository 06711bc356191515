//! Bodies of requests.

use helenus_wire::{Compression, Opcode, PreparedIds, ValueRef, query_flags, write};

/// STARTUP with these options beside the version of CQL and the compression.
pub fn startup(compression: Compression, options: &[(&str, &str)]) -> Vec<u8> {
    let mut all = vec![("CQL_VERSION", "3.0.0")];
    match compression {
        Compression::None => {}
        Compression::Lz4 => all.push(("COMPRESSION", "lz4")),
        Compression::Snappy => all.push(("COMPRESSION", "snappy")),
    }
    all.extend(options);
    let mut body = Vec::new();
    write::string_map(&mut body, &all);
    body
}

/// AUTH_RESPONSE with this token.
pub fn auth_response(token: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    write::bytes(&mut body, Some(token));
    body
}

/// SASL PLAIN: no identity to act as, then role and password.
pub fn plain_token(role: &str, password: &str) -> Vec<u8> {
    format!("\0{role}\0{password}").into_bytes()
}

/// PREPARE. Only version 5 has a keyspace there.
pub fn prepare(version: u8, text: &str, keyspace: Option<&str>) -> Vec<u8> {
    let mut body = Vec::new();
    write::long_string(&mut body, text);
    if version >= 5 {
        write::u32(&mut body, u32::from(keyspace.is_some()));
        if let Some(keyspace) = keyspace {
            write::string(&mut body, keyspace);
        }
    }
    body
}

/// A statement to execute.
#[derive(Clone, Copy, Debug)]
pub enum Statement<'a> {
    Text(&'a str),
    Prepared(PreparedIds<'a>),
}

impl Statement<'_> {
    pub fn opcode(&self) -> Opcode {
        match self {
            Statement::Text(_) => Opcode::Query,
            Statement::Prepared(_) => Opcode::Execute,
        }
    }
}

/// Everything behind the statement in QUERY, EXECUTE and BATCH.
#[derive(Clone, Copy, Debug)]
pub struct Options<'a> {
    pub consistency: u16,
    pub values: Option<&'a [ValueRef<'a>]>,
    /// Of the values, one for each; none if these come by position.
    pub names: &'a [String],
    pub skip_metadata: bool,
    pub page_size: Option<i32>,
    pub paging_state: Option<&'a [u8]>,
    pub serial_consistency: Option<u16>,
    /// In microseconds; the node's own if not given.
    pub timestamp: Option<i64>,
    /// From version 5 on.
    pub keyspace: Option<&'a str>,
}

impl<'a> Options<'a> {
    /// Without values, at this level of consistency.
    pub fn at(consistency: u16) -> Options<'a> {
        Options {
            consistency,
            values: None,
            names: &[],
            skip_metadata: false,
            page_size: None,
            paging_state: None,
            serial_consistency: None,
            timestamp: None,
            keyspace: None,
        }
    }

    fn write(&self, version: u8, body: &mut Vec<u8>) {
        use query_flags::*;
        let set = |on: bool, bit: u32| if on { bit } else { 0 };
        let flags = set(self.values.is_some(), VALUES)
            | set(self.skip_metadata, SKIP_METADATA)
            | set(self.page_size.is_some(), PAGE_SIZE)
            | set(self.paging_state.is_some(), PAGING_STATE)
            | set(self.serial_consistency.is_some(), SERIAL_CONSISTENCY)
            | set(self.timestamp.is_some(), TIMESTAMP)
            | set(!self.names.is_empty(), NAMES)
            | set(self.keyspace.is_some(), KEYSPACE);
        write::u16(body, self.consistency);
        match version {
            5.. => write::u32(body, flags),
            _ => body.push(flags as u8),
        }
        if let Some(values) = self.values {
            write_named(body, self.names, values);
        }
        if let Some(rows) = self.page_size {
            write::i32(body, rows);
        }
        if let Some(state) = self.paging_state {
            write::bytes(body, Some(state));
        }
        if let Some(serial) = self.serial_consistency {
            write::u16(body, serial);
        }
        if let Some(timestamp) = self.timestamp {
            write::i64(body, timestamp);
        }
        if let Some(keyspace) = self.keyspace {
            write::string(body, keyspace);
        }
    }
}

/// QUERY or EXECUTE.
pub fn request(version: u8, statement: Statement<'_>, options: &Options<'_>) -> Vec<u8> {
    let mut body = Vec::new();
    match statement {
        Statement::Text(text) => write::long_string(&mut body, text),
        Statement::Prepared(ids) => {
            write::short_bytes(&mut body, ids.statement);
            if version >= 5 {
                write::short_bytes(&mut body, ids.result_metadata.unwrap_or_default());
            }
        }
    }
    options.write(version, &mut body);
    body
}

/// A statement of a BATCH with its values.
#[derive(Clone, Copy, Debug)]
pub struct BatchChild<'a> {
    pub statement: Statement<'a>,
    pub values: &'a [ValueRef<'a>],
}

/// BATCH. `kind`: 0 is logged, 1 unlogged, 2 of counters.
pub fn batch(version: u8, kind: u8, children: &[BatchChild<'_>], options: &Options<'_>) -> Vec<u8> {
    let mut body = vec![kind];
    write::u16(&mut body, children.len() as u16);
    for child in children {
        match child.statement {
            Statement::Text(text) => {
                body.push(0);
                write::long_string(&mut body, text);
            }
            Statement::Prepared(ids) => {
                body.push(1);
                write::short_bytes(&mut body, ids.statement);
            }
        }
        write_values(&mut body, child.values);
    }
    options.write(version, &mut body);
    body
}

/// Values of which none is null.
pub fn set_values<'a>(values: &[&'a [u8]]) -> Vec<ValueRef<'a>> {
    values.iter().map(|value| ValueRef::Set(value)).collect()
}

/// Values by position, behind their number.
fn write_values(body: &mut Vec<u8>, values: &[ValueRef<'_>]) {
    write_named(body, &[], values);
}

fn write_named(body: &mut Vec<u8>, names: &[String], values: &[ValueRef<'_>]) {
    write::u16(body, values.len() as u16);
    for (at, value) in values.iter().enumerate() {
        if let Some(name) = names.get(at) {
            write::string(body, name);
        }
        match value {
            ValueRef::Set(bytes) => write::bytes(body, Some(bytes)),
            ValueRef::Null => write::i32(body, -1),
            ValueRef::Unset => write::i32(body, -2),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use helenus_wire::{BatchView, Consistency, ExecuteView, PrepareView, QueryView, Version};

    const VALUES: &[ValueRef<'static>] = &[ValueRef::Set(b"v"), ValueRef::Null, ValueRef::Unset];

    fn is_full(found: &helenus_wire::Options<'_>, names: &[String]) {
        let values: Vec<_> = found.values.iter().collect();
        let expected = VALUES.iter().enumerate();
        let expected: Vec<_> = expected
            .map(|(at, value)| (names.get(at).map(String::as_str), *value))
            .collect();
        assert_eq!(values, expected);
        assert_eq!(found.consistency, Consistency::QUORUM);
        assert_eq!(found.paging_state, Some(&b"state"[..]));
        assert_eq!(found.serial_consistency, Some(Consistency::LOCAL_SERIAL));
        assert_eq!((found.page_size, found.timestamp), (Some(7), Some(-5)));
        assert!(found.flags & query_flags::SKIP_METADATA != 0);
    }

    #[test]
    fn requests_are_read_as_they_were_meant() {
        let names = ["a", "b", "c"].map(str::to_owned);
        let ids = PreparedIds {
            statement: b"id",
            result_metadata: Some(b"columns"),
        };
        let (text, prepared) = (Statement::Text("q"), Statement::Prepared(ids));
        for (version, names) in [(Version::V4, &names[..]), (Version::V5, &[])] {
            let options = Options {
                values: Some(VALUES),
                names,
                skip_metadata: true,
                page_size: Some(7),
                paging_state: Some(b"state"),
                serial_consistency: Some(9),
                timestamp: Some(-5),
                ..Options::at(4)
            };
            let number = version as u8;
            let body = request(number, text, &options);
            let view = QueryView::parse(&body, version).unwrap();
            assert_eq!(view.text, "q");
            is_full(&view.options, names);
            let body = request(number, prepared, &options);
            let view = ExecuteView::parse(&body, version).unwrap();
            let columns = (version == Version::V5).then_some(&b"columns"[..]);
            assert_eq!((view.id, view.result_metadata_id), (&b"id"[..], columns));
            is_full(&view.options, names);
            let children = [text, prepared].map(|statement| BatchChild {
                statement,
                values: VALUES,
            });
            let body = batch(number, 1, &children, &options);
            let view = BatchView::parse(&body, version).unwrap();
            assert_eq!((view.batch_type, view.children.len()), (1, 2));
            is_full(&view.options, names);
        }
        assert_eq!(request(4, text, &Options::at(1)), b"\0\0\0\x01q\0\x01\0");
    }

    #[test]
    fn a_keyspace_of_a_request_is_sent_in_version_5() {
        let keyspace = Some("ks");
        let body = prepare(5, "q", keyspace);
        let view = PrepareView::parse(&body, Version::V5).unwrap();
        assert_eq!((view.text, view.keyspace), ("q", keyspace));
        assert_eq!(prepare(4, "q", keyspace), b"\0\0\0\x01q");
        let options = Options {
            keyspace,
            ..Options::at(1)
        };
        let body = request(5, Statement::Text("q"), &options);
        let view = QueryView::parse(&body, Version::V5).unwrap();
        assert_eq!(view.options.keyspace, keyspace);
    }

    #[test]
    fn a_handshake_is_as_nodes_want_it() {
        let body = startup(Compression::None, &[]);
        assert_eq!(body, b"\0\x01\0\x0bCQL_VERSION\0\x053.0.0");
        let body = startup(Compression::Lz4, &[("DRIVER_NAME", "d")]);
        assert!(body.ends_with(b"\0\x0bCOMPRESSION\0\x03lz4\0\x0bDRIVER_NAME\0\x01d"));
        assert_eq!(auth_response(&plain_token("r", "pw")), b"\0\0\0\x05\0r\0pw");
    }
}
