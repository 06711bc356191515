//! Reads of the tables that show the proxies, as a client's request asks for them.

use helenus_wire::{ExecuteView, Opcode, QueryView, Version};

use crate::context::Context;
use crate::statement::Statements;
use crate::statement::analysis::Analysis;
use crate::statement::prepared::Statement;
use crate::statement::system::{self, Asked, PreparedColumns, SystemAnswer};
use crate::stats::add;

impl Statements {
    /// The answer to a read of the tables that show the proxies, in the nodes' version; `None` if it
    /// is no such read, or a node has to answer.
    pub(crate) fn answer_system(
        &self,
        cx: &Context,
        opcode: Opcode,
        content: &[u8],
        version: Version,
        statement: &Statement,
        analysis: &Analysis<'_>,
    ) -> Option<SystemAnswer> {
        let query = statement.system?;
        let (options, prepared) = match (opcode, &analysis.prepared) {
            (Opcode::Query, _) if query.applies(analysis.keyspace) => {
                (QueryView::parse(content, version).ok()?.options, None)
            }
            (Opcode::Execute, Some(prepared)) if query.applies(prepared.keyspace.as_deref()) => {
                let view = ExecuteView::parse(content, version).ok()?;
                let columns = PreparedColumns {
                    metadata: &prepared.result_metadata,
                    metadata_id: prepared.result_metadata_id.as_deref(),
                    client_metadata_id: view.result_metadata_id,
                    may_have_changed: prepared.may_have_changed(),
                };
                (view.options, Some(columns))
            }
            _ => return None,
        };
        let asked = Asked {
            facts: &statement.facts,
            options: &options,
            prepared,
        };
        let answer = system::answer(query, asked, &cx.snapshot, &self.proxies)?;
        add(&cx.shared.stats.global.requests_system, 1);
        Some(answer)
    }
}
