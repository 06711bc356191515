//! Whether what a copy has answered counts, and what it becomes for the client.

use helenus_layout::insync::Verdict;
use helenus_wire::{Malformed, ResultKind, RowsView, flags, result_kind};

use crate::copies::Lists;
use crate::execution::copy_read::{Arrived, CopyRead};
use crate::execution::layout_read::{identity, wrap};
use crate::execution::renaming::renamed_warnings;
use crate::statement::copy_reads::ReadOfCopy;
use crate::statement::copy_rules::names_of_copies;
use crate::statement::prepared::Statement;

impl CopyRead {
    /// Whether an answer counts, by a clock that was read after it.
    pub(crate) fn judge(&self, arrived: &Arrived, lists: &Lists, now_us: u64) -> Verdict {
        let view = self.asked.view(lists);
        let Some((view, boot)) = view.zip(arrived.boot) else {
            return Verdict::Again;
        };
        let (copies, proxies) = (view.copies, view.proxies);
        let Arrived { read, me, .. } = arrived;
        read.judge(copies, proxies, *me, boot, false, now_us)
    }

    /// The copy whose node has answered after a later start than the list knows, if it can be evicted, and the
    /// version of that list.
    pub(crate) fn restarted(&self, arrived: &Arrived, lists: &Lists) -> Option<(usize, u64)> {
        let list = *self.asked.view(lists)?.copies.last_read()?;
        let copy = arrived.read.copy();
        let is_later = arrived.boot? > list.boot(copy) && list.evict(copy).is_ok();
        is_later.then(|| (copy, list.version()))
    }

    /// The body of an answer as one of the table; `None` if it cannot be made that.
    ///
    /// # Errors
    /// It is not what it says.
    pub(crate) fn answer(&self, arrived: &Arrived) -> Result<Option<Vec<u8>>, Malformed> {
        let (table, at) = (&self.asked.table, arrived.read.copy());
        let Arrived {
            header_flags,
            prelude,
            content,
            ..
        } = arrived;
        let warned = match header_flags & flags::WARNING != 0 {
            true => renamed_warnings(*header_flags, prelude, &names_of_copies(table))?,
            false => None,
        };
        let mut out = Vec::with_capacity(prelude.len() + content.len() + 32);
        out.extend_from_slice(warned.as_deref().unwrap_or(prelude));
        let copy = table.copies.get(at);
        let Some(copy) = copy.filter(|_| result_kind(content) == Ok(ResultKind::Rows)) else {
            out.extend_from_slice(content);
            return Ok(Some(out));
        };
        let page = RowsView::parse(content)?;
        let names = (
            (&*copy.keyspace, &*copy.physical),
            (&*table.keyspace, &*table.name),
        );
        let on = self.asked.reads.on(at);
        if let Some(order) = on.and_then(|on| on.order.as_ref()) {
            return Ok(order.write(&page, names, &mut out)?.then_some(out));
        }
        let state = page.paging_state;
        let state = state.map(|state| wrap(identity(table, at), state));
        page.write_for_table(names, state.as_deref(), &mut out);
        Ok(Some(out))
    }

    /// What the copy was asked that has answered.
    pub(crate) fn asked_of(&self, arrived: &Arrived) -> Option<&ReadOfCopy<Statement>> {
        self.asked.reads.on(arrived.read.copy())
    }
}
