//! Aggregates whose value over a whole follows from those over its parts.
//!
//! Picture: the oldest of a school is the oldest of the oldest of its classes.
//!
//! `COUNT` adds up; so does `SUM` of whole numbers of fixed width, which wraps around in Cassandra as
//! it does here. `MIN` and `MAX` are those of the parts, where the order of the type is known here.
//! Sums of floating point numbers depend on the order of the rows, and an average is not that of
//! averages: these are left to the nodes.

use std::cmp::Ordering;

use helenus_cql::Fold;
use helenus_wire::RowsView;

use crate::statement::order::{Order, number};

/// Bytes of a whole number of fixed width.
fn whole_width(type_raw: &[u8]) -> Option<usize> {
    match u16::from_be_bytes(type_raw.try_into().ok()?) {
        0x02 => Some(8),
        0x09 => Some(4),
        0x13 => Some(2),
        0x14 => Some(1),
        _ => None,
    }
}

/// The row of all parts together, as cells of the protocol: `None` if that is not known here.
pub(crate) fn fold(folds: &[Fold], parts: &[RowsView<'_>]) -> Option<Vec<u8>> {
    let rows: Vec<Vec<Option<&[u8]>>> = parts
        .iter()
        .map(|page| only_row(folds, page))
        .collect::<Option<_>>()?;
    let columns = &parts.first()?.columns;
    let mut out = Vec::new();
    for (at, fold) in folds.iter().enumerate() {
        // Types of more than two bytes are collections and others without an order here.
        let type_raw = columns.get(at)?.column_type.raw;
        let cells = rows.iter().map(|row| row[at]);
        let cell = match fold {
            Fold::Rows | Fold::Count => Some(added(cells, 8)?),
            Fold::Sum => Some(added(cells, whole_width(type_raw)?)?),
            Fold::Min | Fold::Max => {
                let order = Order::of_type(type_raw)?;
                let wanted = match fold {
                    Fold::Min => Ordering::Less,
                    _ => Ordering::Greater,
                };
                outermost(cells, order, wanted)?.map(<[u8]>::to_vec)
            }
        };
        match cell {
            Some(cell) => {
                out.extend_from_slice(&i32::try_from(cell.len()).ok()?.to_be_bytes());
                out.extend_from_slice(&cell);
            }
            None => out.extend_from_slice(&(-1_i32).to_be_bytes()),
        }
    }
    Some(out)
}

/// The rows that were counted, if that is among what a page says.
pub(crate) fn rows_counted(folds: &[Fold], page: &RowsView<'_>) -> Option<usize> {
    let at = folds.iter().position(|fold| *fold == Fold::Rows)?;
    let count = number(only_row(folds, page)?[at]?, 8)?;
    usize::try_from(count).ok()
}

fn only_row<'a>(folds: &[Fold], page: &RowsView<'a>) -> Option<Vec<Option<&'a [u8]>>> {
    let row = page.rows().next()?.ok()?;
    let alone = page.row_count == 1 && page.paging_state.is_none();
    (alone && row.len() == folds.len()).then_some(row)
}

fn added<'a>(cells: impl Iterator<Item = Option<&'a [u8]>>, width: usize) -> Option<Vec<u8>> {
    let mut sum = 0_i64;
    for cell in cells {
        sum = sum.wrapping_add(number(cell?, width)?);
    }
    Some(sum.to_be_bytes()[8 - width..].to_vec())
}

/// The first of the outermost cells that are not null.
fn outermost<'a>(
    cells: impl Iterator<Item = Option<&'a [u8]>>,
    order: Order,
    wanted: Ordering,
) -> Option<Option<&'a [u8]>> {
    let mut best: Option<&[u8]> = None;
    for cell in cells.flatten() {
        let better = match best {
            None => {
                order.compare(cell, cell)?;
                true
            }
            Some(best) => order.compare(cell, best)? == wanted,
        };
        if better {
            best = Some(cell);
        }
    }
    Some(best)
}

#[cfg(test)]
mod tests {
    use super::*;
    use helenus_wire::write;

    /// A page of one row.
    fn page(types: &[u16], cells: &[Option<&[u8]>]) -> Vec<u8> {
        let mut out = Vec::new();
        write::u32(&mut out, 2);
        write::u32(&mut out, 1);
        write::u32(&mut out, types.len() as u32);
        for text in ["ks", "t"] {
            write::string(&mut out, text);
        }
        for id in types {
            write::string(&mut out, "c");
            write::u16(&mut out, *id);
        }
        write::u32(&mut out, 1);
        for cell in cells {
            write::bytes(&mut out, *cell);
        }
        out
    }

    fn folded(fold: Fold, id: u16, cells: &[Option<&[u8]>]) -> Option<Vec<u8>> {
        let pages: Vec<Vec<u8>> = cells.iter().map(|cell| page(&[id], &[*cell])).collect();
        let views: Vec<RowsView<'_>> = pages
            .iter()
            .map(|page| RowsView::parse(page).unwrap())
            .collect();
        super::fold(&[fold], &views)
    }

    fn cell(bytes: &[u8]) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        write::bytes(&mut out, Some(bytes));
        Some(out)
    }

    #[test]
    fn numbers_add_up_and_wrap_around() {
        let of = |n: i64| n.to_be_bytes();
        let counts = [of(3), of(4), of(0)];
        let counts: Vec<Option<&[u8]>> = counts.iter().map(|c| Some(&c[..])).collect();
        assert_eq!(folded(Fold::Rows, 2, &counts), cell(&of(7)));
        assert_eq!(folded(Fold::Count, 2, &counts), cell(&of(7)));
        let tiny: [Option<&[u8]>; 3] = [Some(&[0x7F]), Some(&[0x7F]), Some(&[0xFE])];
        assert_eq!(folded(Fold::Sum, 0x14, &tiny), cell(&[0xFC]), "252 is −4");
        let int: [Option<&[u8]>; 2] = [Some(&[0xFF; 4]), Some(&[0, 0, 1, 0])];
        assert_eq!(folded(Fold::Sum, 9, &int), cell(&[0, 0, 0, 0xFF]));
        let small: [Option<&[u8]>; 2] = [Some(&[0x7F, 0xFF]), Some(&[0, 1])];
        assert_eq!(folded(Fold::Sum, 0x13, &small), cell(&[0x80, 0]));
        assert_eq!(folded(Fold::Sum, 2, &counts), cell(&of(7)));
        let double = [Some(&[0_u8; 8][..])];
        assert_eq!(folded(Fold::Sum, 7, &double), None, "depends on the order");
        assert_eq!(
            folded(Fold::Sum, 9, &[None, int[0]]),
            None,
            "no sum is null"
        );
        assert_eq!(folded(Fold::Sum, 9, &double), None, "not of its width");
    }

    #[test]
    fn the_outermost_value_is_that_of_the_parts() {
        let int: [Option<&[u8]>; 4] = [None, Some(&[0, 0, 0, 5]), Some(&[0xFF; 4]), None];
        assert_eq!(folded(Fold::Min, 9, &int), cell(&[0xFF; 4]), "−1");
        assert_eq!(folded(Fold::Max, 9, &int), cell(&[0, 0, 0, 5]));
        let date: [Option<&[u8]>; 2] = [Some(&[0x80, 0, 0, 0]), Some(&[0x7F, 0, 0, 0])];
        assert_eq!(folded(Fold::Max, 0x11, &date), cell(&[0x80, 0, 0, 0]));
        let text: [Option<&[u8]>; 3] = [Some(b"b"), Some(b""), Some(b"abc")];
        assert_eq!(folded(Fold::Min, 0x0D, &text), cell(b""));
        assert_eq!(folded(Fold::Max, 0x0D, &text), cell(b"b"));
        let of = |n: f64| n.to_be_bytes();
        let doubles = [of(-0.0), of(0.0), of(-f64::NAN), of(7.5)];
        let doubles: Vec<Option<&[u8]>> = doubles.iter().map(|c| Some(&c[..])).collect();
        assert_eq!(folded(Fold::Min, 7, &doubles), cell(&of(-0.0)));
        assert_eq!(folded(Fold::Max, 7, &doubles), cell(&of(-f64::NAN)));
        let nothing = folded(Fold::Max, 9, &[None, None]);
        assert_eq!(nothing, Some((-1_i32).to_be_bytes().to_vec()));
        assert_eq!(folded(Fold::Min, 9, &[Some(b"")]), None, "an empty int");
        assert_eq!(
            folded(Fold::Min, 0x10, &int),
            None,
            "no order for inet here"
        );
    }

    #[test]
    fn several_at_once_and_what_does_not_fit() {
        let folds = [Fold::Max, Fold::Rows];
        let count = 2_i64.to_be_bytes();
        let one = page(&[0x0D, 2], &[Some(b"a"), Some(&count)]);
        let other = page(&[0x0D, 2], &[None, Some(&count)]);
        let views = [&one, &other].map(|page| RowsView::parse(page).unwrap());
        let mut expected = cell(b"a").unwrap();
        expected.extend(cell(&4_i64.to_be_bytes()).unwrap());
        assert_eq!(fold(&folds, &views), Some(expected));
        assert_eq!(rows_counted(&folds, &views[0]), Some(2));
        assert_eq!(rows_counted(&[Fold::Max, Fold::Count], &views[0]), None);
        assert_eq!(fold(&folds[..1], &views), None, "two columns for one");
    }
}
