//! Answers as nodes write them.

use helenus_wire::{Consistency, ErrorBody, Header, Opcode, Version, code, write};

use super::agenda::Page;
use super::data::Data;
use super::request::Reply;
use super::rows::{PageBody, VOID, prepared};
use super::setup::Setup;
use super::statement::{Asked, Of};

/// An answer as a node writes it.
pub(super) fn answer(
    setup: &Setup,
    data: &Data,
    asked_by: Header,
    asked: &Asked,
    reply: Reply,
) -> (Header, Vec<u8>) {
    let mut body = Vec::new();
    let error = |body: &mut Vec<u8>, code: i32, fields: &[u8]| {
        let message = "so the model";
        let error = ErrorBody {
            code,
            message,
            fields,
        };
        error.write(body);
        Opcode::Error
    };
    let read = match asked {
        Asked::Read(read) | Asked::Execute { read, .. } => Some(read),
        Asked::Options | Asked::Prepare { .. } => None,
    };
    let is_write = matches!(read.map(|read| read.of), Some(Of::Write(_)));
    let mut stream = asked_by.stream;
    let opcode = match reply {
        Reply::Supported => {
            write::u16(&mut body, 0);
            Opcode::Supported
        }
        Reply::Prepared(text, table) => {
            let version = Version::from_number(asked_by.version);
            let version = version.unwrap_or(Version::V5);
            body = prepared(&text, table, version);
            Opcode::Result
        }
        Reply::Unprepared(text) => {
            let mut fields = Vec::new();
            write::short_bytes(&mut fields, text.as_bytes());
            error(&mut body, code::UNPREPARED, &fields)
        }
        Reply::Dropped => {
            stream = 0;
            error(&mut body, code::OVERLOADED, &[])
        }
        Reply::Page(Page::Failed) => {
            let mut fields = Vec::new();
            write::u16(&mut fields, Consistency::LOCAL_QUORUM.0);
            write::i32(&mut fields, 0);
            write::i32(&mut fields, 1);
            match is_write {
                true => {
                    write::string(&mut fields, "SIMPLE");
                    error(&mut body, code::WRITE_TIMEOUT, &fields)
                }
                false => {
                    fields.push(0);
                    error(&mut body, code::READ_TIMEOUT, &fields)
                }
            }
        }
        Reply::Page(Page::Rows { .. }) if is_write => {
            write::i32(&mut body, VOID);
            Opcode::Result
        }
        Reply::Page(Page::Rows { rows, next }) => {
            let wanted = match read.map(|read| read.of) {
                Some(Of::Range { remaining, .. }) => remaining,
                _ => 1,
            };
            let page = PageBody {
                data,
                table: read.map_or(0, |read| read.table),
                remaining: next.map(|_| wanted.saturating_sub(rows.len() as u32)),
                rows,
                row_bytes: setup.row_bytes_held(),
                skip_metadata: read.is_some_and(|read| read.skip_metadata),
            };
            body = page.write();
            Opcode::Result
        }
    };
    let header = Header {
        response: true,
        flags: 0,
        stream,
        opcode: opcode as u8,
        ..asked_by
    };
    (header, body)
}
