//! Pages of a result: joining several into one, and paging states.

use crate::reader::{Malformed, Reader};
use crate::result::{MORE_PAGES, NO_METADATA, RowsView};
use crate::write;

/// Joins consecutive pages of a result into one page, as a node would have sent it.
#[derive(Debug, Default)]
pub struct RowsJoin {
    flags: u32,
    column_count: usize,
    /// Metadata after the paging state, the same in each page.
    metadata: Vec<u8>,
    paging_state: Option<Vec<u8>>,
    row_count: usize,
    /// Space for everything before the rows, then the rows.
    bytes: Vec<u8>,
    room: usize,
    pages: usize,
}

/// A body that starts at an offset in its buffer.
#[derive(Clone, Debug, Default)]
pub struct JoinedBody {
    bytes: Vec<u8>,
    start: usize,
}

impl std::ops::Deref for JoinedBody {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.bytes.get(self.start..).unwrap_or_default()
    }
}

impl JoinedBody {
    /// Bytes of memory that it takes.
    pub fn held_len(&self) -> usize {
        self.bytes.capacity()
    }

    /// Frees room that is more than what is in it. Less is not worth a copy, and allocators would not take it back.
    pub fn shrink(&mut self) {
        if self.bytes.capacity() > 2 * self.bytes.len() {
            self.bytes.shrink_to_fit();
        }
    }
}

impl From<Vec<u8>> for JoinedBody {
    fn from(bytes: Vec<u8>) -> Self {
        JoinedBody { bytes, start: 0 }
    }
}

/// Space for the kind, flags, numbers, a paging state and a warning before the rows.
const ROOM: usize = 1024;

/// A page could not be joined to the previous ones, which are unchanged: its rows have other
/// columns, because the schema has changed in the meantime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OtherColumns;

impl RowsJoin {
    /// With space for this many bytes of rows.
    pub fn with_capacity(bytes: usize) -> Self {
        RowsJoin {
            bytes: Vec::with_capacity(bytes + 2 * ROOM),
            ..RowsJoin::default()
        }
    }

    /// Appends the next page.
    pub fn push(&mut self, page: &RowsView<'_>) -> Result<(), OtherColumns> {
        let flags = page.flags & !MORE_PAGES;
        if self.pages == 0 {
            self.flags = flags;
            self.column_count = page.column_count;
            self.metadata = page.behind_state.to_vec();
            self.room = ROOM + self.metadata.len();
            self.bytes.resize(self.room, 0);
        } else if (flags, page.column_count) != (self.flags, self.column_count)
            || page.behind_state != self.metadata
        {
            return Err(OtherColumns);
        }
        self.paging_state = page.paging_state.map(<[u8]>::to_vec);
        self.row_count += page.row_count;
        self.bytes.extend_from_slice(page.cells);
        self.pages += 1;
        Ok(())
    }

    /// Rows so far.
    pub fn row_count(&self) -> usize {
        self.row_count
    }

    /// Bytes of memory that the rows take, with room for more.
    pub fn held_len(&self) -> usize {
        self.bytes.capacity()
    }

    pub fn pages(&self) -> usize {
        self.pages
    }

    /// The paging state of the page after these, if there is one.
    pub fn paging_state(&self) -> Option<&[u8]> {
        self.paging_state.as_deref()
    }

    /// Replaces the last page's paging state.
    pub fn set_paging_state(&mut self, state: Option<Vec<u8>>) {
        self.paging_state = state;
    }

    /// Omits the metadata that the client asked to skip.
    pub fn skip_metadata(&mut self) {
        self.flags |= NO_METADATA;
        self.metadata.clear();
    }

    /// The body of the joined page, starting with `prelude`. The rows are not moved if everything
    /// before them fits into the reserved space.
    pub fn into_body(mut self, prelude: Vec<u8>) -> JoinedBody {
        let mut head = prelude;
        self.write_head(&mut head);
        if let Some(start) = self.room.checked_sub(head.len())
            && let Some(place) = self.bytes.get_mut(start..self.room)
        {
            place.copy_from_slice(&head);
            return JoinedBody {
                bytes: self.bytes,
                start,
            };
        }
        head.extend_from_slice(self.bytes.get(self.room..).unwrap_or_default());
        head.into()
    }

    fn write_head(&self, out: &mut Vec<u8>) {
        write::i32(out, 2);
        let more = match self.paging_state {
            Some(_) => MORE_PAGES,
            None => 0,
        };
        write::u32(out, self.flags | more);
        write::i32(out, self.column_count as i32);
        if let Some(state) = &self.paging_state {
            write::bytes(out, Some(state));
        }
        out.extend_from_slice(&self.metadata);
        write::i32(out, self.row_count as i32);
    }
}

/// A paging state: where its page starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageStart<'a> {
    /// Partition key of the last row before it.
    pub key: &'a [u8],
    /// The row itself, in the node's encoding.
    row: &'a [u8],
    /// Rows left of the statement's LIMIT, or of 2³¹ − 1.
    pub remaining: u32,
    /// Rows left of its PER PARTITION LIMIT.
    remaining_in_partition: u32,
}

impl<'a> PageStart<'a> {
    /// Reads a paging state of protocol v4 or v5.
    pub fn parse(paging_state: &'a [u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(paging_state);
        let mut sized = || {
            let len = unsigned_vint(&mut reader)?;
            let len = usize::try_from(len).map_err(|_| Malformed("a length beyond memory"))?;
            reader.take(len)
        };
        let (key, row) = (sized()?, sized()?);
        let mut number = || {
            let number = unsigned_vint(&mut reader)?;
            u32::try_from(number).map_err(|_| Malformed("a number beyond its type"))
        };
        let (remaining, remaining_in_partition) = (number()?, number()?);
        if !reader.is_empty() {
            return Err(Malformed("bytes behind a paging state"));
        }
        Ok(PageStart {
            key,
            row,
            remaining,
            remaining_in_partition,
        })
    }

    /// The state after the only row of a partition, in a statement without PER PARTITION LIMIT.
    pub fn behind_partition(key: &'a [u8], remaining: u32) -> Self {
        PageStart {
            key,
            row: &[],
            remaining,
            remaining_in_partition: i32::MAX as u32,
        }
    }

    /// This position with another number of rows left of the LIMIT.
    pub fn with_remaining(self, remaining: u32) -> Self {
        PageStart { remaining, ..self }
    }

    /// True if nodes read these bytes as this state: each number as short as it can be, and none beyond an `i32`.
    fn is_read_from(&self, len: usize) -> bool {
        let sized = |bytes: &[u8]| unsigned_vint_len(bytes.len() as u64) + bytes.len();
        let number = |number: u32| unsigned_vint_len(number.into());
        let own = sized(self.key)
            + sized(self.row)
            + number(self.remaining)
            + number(self.remaining_in_partition);
        let max = i32::MAX.unsigned_abs();
        own == len && self.remaining <= max && self.remaining_in_partition <= max
    }

    /// The state as the node would write it.
    pub fn write(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.key.len() + self.row.len() + 20);
        for bytes in [self.key, self.row] {
            write_unsigned_vint(&mut out, bytes.len() as u64);
            out.extend_from_slice(bytes);
        }
        write_unsigned_vint(&mut out, u64::from(self.remaining));
        write_unsigned_vint(&mut out, u64::from(self.remaining_in_partition));
        out
    }
}

/// True if nodes take this for a paging state, of this or an earlier version of the protocol. They close a
/// connection over which several others come.
pub fn is_paging_state(bytes: &[u8]) -> bool {
    let is_modern = PageStart::parse(bytes).is_ok_and(|start| start.is_read_from(bytes.len()));
    is_modern || is_legacy_state(bytes).unwrap_or(false)
}

/// The format of v3: key and row, each behind its length, and what remains of LIMIT and, since Cassandra 3.0, of PER
/// PARTITION LIMIT.
fn is_legacy_state(bytes: &[u8]) -> Result<bool, Malformed> {
    let mut reader = Reader::new(bytes);
    for _ in 0..2 {
        let len = reader.u16()? as i16;
        let Ok(len) = usize::try_from(len) else {
            return Ok(false);
        };
        reader.take(len)?;
    }
    let mut is_sound = reader.i32()? >= 0;
    if !reader.is_empty() {
        is_sound &= reader.i32()? >= 0;
    }
    Ok(is_sound && reader.is_empty())
}

fn unsigned_vint_len(value: u64) -> usize {
    let bits = 64 - (value | 1).leading_zeros() as usize;
    1 + ((bits - 1) / 7).min(8)
}

fn write_unsigned_vint(out: &mut Vec<u8>, value: u64) {
    // Each additional byte takes one bit of the first: seven bits of value per byte, at most nine
    // bytes.
    let bits = 64 - (value | 1).leading_zeros();
    let more = ((bits - 1) / 7).min(8);
    let bytes = value.to_be_bytes();
    if more == 8 {
        out.push(0xff);
        out.extend_from_slice(&bytes);
        return;
    }
    let from = 7 - more as usize;
    let ones = !(0xff_u16 >> more) as u8;
    out.push(bytes[from] | ones);
    out.extend_from_slice(&bytes[from + 1..]);
}

/// The partition key of the last row before the page, from a paging state of protocol v4 or v5.
/// `None` if it has none or another format; not knowing it is harmless.
pub fn page_key(paging_state: &[u8]) -> Option<&[u8]> {
    let mut reader = Reader::new(paging_state);
    let len = unsigned_vint(&mut reader).ok()?;
    let key = reader.take(usize::try_from(len).ok()?).ok()?;
    (!key.is_empty()).then_some(key)
}

/// Cassandra's variable-length integer: as many leading ones as bytes follow the first.
fn unsigned_vint(reader: &mut Reader<'_>) -> Result<u64, Malformed> {
    let first = reader.u8()?;
    let more = first.leading_ones();
    let mut value = match more {
        8 => 0,
        _ => u64::from(first & (0xff >> more)),
    };
    for _ in 0..more {
        value = value << 8 | u64::from(reader.u8()?);
    }
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(rows: &[&[u8]], state: Option<&[u8]>, column: &str) -> Vec<u8> {
        let mut body = Vec::new();
        write::i32(&mut body, 2);
        write::u32(&mut body, 1 | state.map_or(0, |_| MORE_PAGES));
        write::i32(&mut body, 1);
        if let Some(state) = state {
            write::bytes(&mut body, Some(state));
        }
        for name in ["ks", "t", column] {
            write::string(&mut body, name);
        }
        write::u16(&mut body, 3);
        write::i32(&mut body, rows.len() as i32);
        for row in rows {
            write::bytes(&mut body, Some(row));
        }
        body
    }

    fn push(join: &mut RowsJoin, body: &[u8]) -> Result<(), OtherColumns> {
        join.push(&RowsView::parse(body).unwrap())
    }

    #[test]
    fn pages_become_the_page_that_a_node_would_have_sent() {
        let mut join = RowsJoin::default();
        push(&mut join, &page(&[b"a", b"bb"], Some(b"s1"), "v")).unwrap();
        push(&mut join, &page(&[], Some(b"s2"), "v")).unwrap();
        assert_eq!((join.row_count(), join.pages()), (2, 2));
        assert!(join.held_len() >= 4 + 1 + 4 + 2);
        push(&mut join, &page(&[b"c"], Some(b"s3"), "v")).unwrap();
        let whole = page(&[b"a", b"bb", b"c"], Some(b"s3"), "v");
        assert_eq!(*join.into_body(Vec::new()), whole);
    }

    #[test]
    fn what_stands_in_front_of_the_rows_may_be_larger_than_its_room() {
        for len in [0, 1, ROOM - 100, ROOM, 3 * ROOM] {
            let mut join = RowsJoin::with_capacity(9);
            push(&mut join, &page(&[b"a"], Some(b"s1"), "v")).unwrap();
            push(&mut join, &page(&[b"b"], None, "v")).unwrap();
            let state = vec![7; len];
            join.set_paging_state(Some(state.clone()));
            let prelude = vec![8; len];
            let body = join.into_body(prelude.clone());
            assert_eq!(body[..len], prelude);
            assert_eq!(body[len..], page(&[b"a", b"b"], Some(&state), "v"));
        }
        let body = RowsJoin::default().into_body(vec![1]);
        assert_eq!(body[0], 1, "without a page, too");
    }

    #[test]
    fn a_page_with_other_columns_changes_nothing() {
        let mut join = RowsJoin::default();
        push(&mut join, &page(&[b"a"], Some(b"s1"), "v")).unwrap();
        let other = push(&mut join, &page(&[b"b"], None, "w"));
        assert_eq!(other, Err(OtherColumns));
        assert_eq!(join.row_count(), 1);
        assert_eq!(join.paging_state(), Some(&b"s1"[..]));
    }

    #[test]
    fn paging_states_are_written_as_they_were_read() {
        for remaining in [
            0,
            1,
            127,
            128,
            300,
            16_383,
            16_384,
            2_097_152,
            268_435_455,
            268_435_456,
            i32::MAX as u32,
            u32::MAX,
        ] {
            let start = PageStart {
                key: &[7; 200],
                row: b"row",
                remaining,
                remaining_in_partition: 5,
            };
            let bytes = start.write();
            assert_eq!(PageStart::parse(&bytes), Ok(start));
            assert_eq!(page_key(&bytes), Some(&[7; 200][..]));
        }
        assert!(PageStart::parse(&[1, 2]).is_err());
        assert!(PageStart::parse(&[0, 0, 1, 1, 9]).is_err());
    }

    #[test]
    fn what_nodes_take_for_a_paging_state() {
        let state = |remaining| {
            let start = PageStart {
                key: &[7; 200],
                row: b"row",
                remaining,
                remaining_in_partition: i32::MAX as u32,
            };
            start.write()
        };
        for modern in [
            state(0),
            state(300),
            state(i32::MAX as u32),
            vec![0, 0, 0, 0],
        ] {
            assert!(is_paging_state(&modern), "{modern:?}");
            assert!(!is_paging_state(&modern[..modern.len() - 1]), "{modern:?}");
            assert!(
                !is_paging_state(&[&modern[..], &[0]].concat()),
                "{modern:?}"
            );
        }
        let legacy = [0, 1, 7, 0, 2, 8, 9, 0, 0, 0, 5];
        assert!(is_paging_state(&legacy));
        assert!(is_paging_state(&[&legacy[..], &[0, 0, 0, 1]].concat()));
        assert!(!is_paging_state(&[&legacy[..], &[0xff, 0, 0, 1]].concat()));
        assert!(!is_paging_state(&[&legacy[..], &[0, 0]].concat()));
        for forged in [
            &[][..],
            b"forged",
            &[0xff; 40],
            // The length takes more bytes than it needs.
            &[0x80, 1, 7, 0, 0, 0],
            // More than an i32 holds remains.
            &state(u32::MAX),
        ] {
            assert!(!is_paging_state(forged), "{forged:?}");
        }
    }

    #[test]
    fn the_key_of_a_paging_state() {
        assert_eq!(page_key(&[3, b'a', b'b', b'c', 0, 1]), Some(&b"abc"[..]));
        let mut long = vec![0x80 | 1, 0x2c];
        long.extend_from_slice(&[7; 300]);
        assert_eq!(page_key(&long), Some(&[7; 300][..]));
        assert_eq!(page_key(&long[..200]), None);
        assert_eq!(page_key(&[0, 0, 5]), None);
        assert_eq!(page_key(&[]), None);
        assert_eq!(page_key(&[0xff; 9]), None);
    }
}
