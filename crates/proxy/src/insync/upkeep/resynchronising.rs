//! How a bucket becomes equal in all copies.

use helenus_engine::copies::BUCKETS;
use helenus_layout::insync::Intents;
use helenus_layout::plan::LogicalTable;
use helenus_rows::Range;

use super::comparing::{Comparing, Counts};
use super::copies::Copies;
use super::group::{groups, within};
use super::returning::{Right, check, is_about, standing, table};
use super::trouble::Trouble;
use crate::boot_time::now_us;
use crate::insync::asked::{CopyName, TableName};
use crate::process::Process;

/// Makes a bucket of the ring equal in all copies of a table. What fails in one group of ranges holds up no other.
pub(super) async fn resynchronise(
    common: &Process,
    name: &TableName,
    bucket: usize,
    how: (Right, i32),
) -> (Counts, Result<(), Trouble>) {
    let mut counts = Counts::default();
    let end = resynchronise_all((common, name), bucket, how, &mut counts).await;
    let end = end.and_then(|()| match counts.given_up {
        0 => Ok(()),
        rows => Err(Trouble::Unfit(format!(
            "{rows} rows could not be made equal in all copies of {}.{}",
            name.0, name.1
        ))),
    });
    (counts, end)
}

async fn resynchronise_all(
    (common, name): (&Process, &TableName),
    bucket: usize,
    how: (Right, i32),
    counts: &mut Counts,
) -> Result<(), Trouble> {
    let table = table(common, name)?;
    let (after, end) = Intents::tokens_of(bucket, BUCKETS);
    let mut failure = None;
    for (owners, ranges) in groups(&common.snapshot.load_full(), &table)? {
        let all = ranges;
        let ranges = within(&all, Range { after, end });
        if ranges.is_empty() {
            continue;
        }
        // Any of its copies: it is about the group.
        let copy = CopyName {
            table: name.clone(),
            owners,
            copy: 0,
        };
        let of = standing(common, &copy).and_then(|(of, _)| is_about(&of, &all));
        let done = match of {
            Ok(()) => resynchronise_group((common, &table, &copy), &ranges, how, counts).await,
            Err(why) => Err(why),
        };
        failure = failure.or(done.err());
    }
    failure.map_or(Ok(()), Err)
}

async fn resynchronise_group(
    (common, table, copy): (&Process, &LogicalTable, &CopyName),
    ranges: &[Range],
    (right, page_rows_max): (Right, i32),
    counts: &mut Counts,
) -> Result<(), Trouble> {
    let (of, list) = standing(common, copy)?;
    let required = of.known.required(now_us()).ok_or(Trouble::Changed)?;
    let source = list.in_sync().iter().next().ok_or(Trouble::Changed)?;
    let owners = &copy.owners;
    let mut copies = Copies::connect(common, table, owners, required, page_rows_max).await?;
    if copies.find_restarted(common, copy, &list).await? {
        return Err(Trouble::Changed);
    }
    let check = || check(common, copy, (None, right), required);
    for other in required.iter().filter(|other| *other != source) {
        let places = [copies.place(source)?, copies.place(other)?];
        for range in ranges {
            let mut comparing = Comparing {
                common,
                copies: &mut copies,
                places,
                check: &check,
                counts,
                is_marked: true,
            };
            comparing.range(*range).await?;
        }
    }
    Ok(())
}
