//! A read with `IN` on the partition key, asked of the owners of its keys at once.
//!
//! A coordinator reads the keys of an `IN` one after the other when the client pages (drivers do),
//! and asks another node for each that it does not own. Here each owner is asked for its own keys by
//! the same prepared statement, and the rows are merged. Only where all of them make up less than a
//! page: then a node, too, would send them at once and say that there are no more. Whatever goes wrong
//! otherwise, the statement is sent as it came.

use helenus_policy::ring::NodeIndex;
use helenus_policy::route::Locality;
use helenus_policy::schedule::Class;
use helenus_wire::{Opcode, Page, RowsView, flags, write_execute};

use crate::engine::{Engine, PoolKey, RequestKey};
use crate::execution::paged_scan::{integer, note_warnings, write_warnings};
use crate::execution::scatter_gather::PartAnswer;
use crate::execution::token_splits::options;
use crate::request::{Origin, Request};
use crate::stats::add;

/// The reads that one was split into.
#[derive(Debug)]
pub(crate) struct ByOwner {
    pub children: Vec<RequestKey>,
    parts: Vec<Option<Vec<u8>>>,
    missing: usize,
    /// Keys of all of them.
    keys: usize,
    page_size: Option<usize>,
    limit: Option<usize>,
    skip_metadata: bool,
    warnings: Vec<String>,
}

impl ByOwner {
    pub(crate) fn byte_len(&self) -> usize {
        self.parts.iter().flatten().map(Vec::len).sum()
    }
}

/// How a read is to be split.
struct Planned {
    /// The body of each EXECUTE, in the nodes' version, and where it goes.
    reads: Vec<(NodeIndex, Vec<u8>)>,
    keys: usize,
    page_size: Option<usize>,
    limit: Option<usize>,
    skip_metadata: bool,
}

impl Engine {
    /// Asks the owners of a read's keys, if that is worth it; false if it must go as it is.
    pub(crate) fn begin_by_owner(&mut self, key: RequestKey) -> bool {
        let Some(planned) = self.plan_by_owner(key) else {
            return false;
        };
        if let [(node, _)] = planned.reads.as_slice() {
            // All keys are there.
            self.plan_at(key, *node);
            return false;
        }
        let Some(request) = self.request(key) else {
            return false;
        };
        let (prepared, statement) = (request.prepared.clone(), request.statement.clone());
        let (table, pool, consistency) = (request.table.clone(), request.pool, request.consistency);
        let number = planned.reads.len();
        let bytes: usize = planned.reads.iter().map(|(_, body)| body.len()).sum();
        if self.cx.memory.is_full(bytes) {
            return false;
        }
        let version = self.cx.snapshot.version;
        add(&self.cx.shared.stats.global.reads_by_owner, 1);
        let mut children = Vec::with_capacity(number);
        for (index, (node, body)) in planned.reads.into_iter().enumerate() {
            let origin = Origin::Part(key, index as u16);
            let child = self.insert_request(Request {
                prepared: prepared.clone(),
                statement: statement.clone(),
                table: table.clone(),
                pool,
                class: Class::Multi,
                idempotent: true,
                consistency,
                ..Request::new(origin, Opcode::Execute, version, body, self.cx.now)
            });
            self.plan_at(child, node);
            children.push(child);
        }
        if let Some(request) = self.request(key) {
            request.by_owner = Some(Box::new(ByOwner {
                children: children.clone(),
                parts: (0..number).map(|_| None).collect(),
                missing: number,
                keys: planned.keys,
                page_size: planned.page_size,
                limit: planned.limit,
                skip_metadata: planned.skip_metadata,
                warnings: Vec::new(),
            }));
        }
        for child in children {
            self.route(child);
        }
        true
    }

    fn plan_by_owner(&self, key: RequestKey) -> Option<Planned> {
        let request = self.requests.get(key)?;
        let prepared = request.prepared.as_ref()?;
        let in_keys = prepared.in_keys.as_ref()?;
        let own = flags::TRACING | flags::CUSTOM_PAYLOAD;
        if !self.cx.shared.config.scheduling.in_parts()
            || request.opcode != Opcode::Execute
            || request.header_flags & own != 0
            || request.consistency.is_serial()
            || prepared.statement.learned.is_suspended(self.cx.now)
        {
            return None;
        }
        let (options, skip_metadata) = options(request)?;
        // What a node would say of a page size of 0 is its own.
        if options.paging_state.is_some() || options.page_size == Some(0) {
            return None;
        }
        let select = prepared.statement.facts.select.as_deref()?;
        let limit = match &select.limit {
            Some(term) => {
                let limit = integer(term, &options.values, &prepared.names, &prepared.statement)?;
                Some(usize::try_from(limit).ok().filter(|limit| *limit > 0)?)
            }
            None => None,
        };
        let values = in_keys.values(&options.values)?;
        if values.len() < 2 || !prepared.statement.learned.keys_fit(values.len()) {
            return None;
        }
        let mut partition = Vec::new();
        let owners = self
            .cx
            .snapshot
            .keyspaces
            .get(&*prepared.table.as_ref()?.0)?;
        let ring = self.cx.snapshot.ring.as_ref()?;
        let replicas = values.iter().map(|value| {
            let known = in_keys.key(&options.values, value, &mut partition);
            let slot = known.then(|| ring.slot_of_key(&partition)).flatten()?;
            Some(owners.of_slot(slot))
        });
        let replicas: Vec<&[NodeIndex]> = replicas.collect::<Option<_>>()?;
        let page_size = options.page_size.filter(|size| *size > 0);
        let page = Page {
            size: page_size.unwrap_or(i32::MAX),
            state: None,
        };
        let id = (&*prepared.id, prepared.result_metadata_id.as_deref());
        let groups = self.owners_of_all(&replicas, request.pool)?;
        let reads = groups.into_iter().map(|(node, members)| {
            let only: Vec<&[u8]> = members.iter().map(|at| values[*at]).collect();
            let (mut list, mut body) = (Vec::new(), Vec::new());
            let bound = in_keys.bind(&options.values, &only, &mut list);
            write_execute(
                id,
                &options,
                &bound,
                page,
                self.cx.snapshot.version,
                &mut body,
            );
            (node, body)
        });
        Some(Planned {
            reads: reads.collect(),
            keys: values.len(),
            page_size: page_size.and_then(|size| usize::try_from(size).ok()),
            limit,
            skip_metadata,
        })
    }

    /// Few nodes that own all of these between them, and which each is to be asked for: again and again
    /// the one that owns most of what is left. `None` if the owners of one are all away.
    fn owners_of_all(
        &self,
        replicas: &[&[NodeIndex]],
        pool: PoolKey,
    ) -> Option<Vec<(NodeIndex, Vec<usize>)>> {
        let pool = self.pools.get(pool)?;
        let places = &self.cx.snapshot.places;
        let count = self.nodes.len();
        let usable: Vec<bool> = (0..count)
            .map(|index| {
                let node = NodeIndex(index as u16);
                let suspect = self.nodes[index].suspect_until;
                pool.has_link(node)
                    && suspect.is_none_or(|until| until <= self.cx.now)
                    && places.locality(node) != Some(Locality::Remote)
            })
            .collect();
        let mut left: Vec<usize> = (0..replicas.len()).collect();
        let mut groups = Vec::new();
        while !left.is_empty() {
            let mut owned = vec![0_usize; count];
            let nodes = left.iter().flat_map(|at| replicas[*at]);
            for node in nodes.filter(|node| usable[node.as_usize()]) {
                owned[node.as_usize()] += 1;
            }
            // Of those that own as many, another one each time.
            let turned = |index: usize| (index + self.turn as usize) % count;
            let best = (0..count).max_by_key(|index| (owned[*index], turned(*index)))?;
            if owned[best] == 0 {
                return None;
            }
            let node = NodeIndex(best as u16);
            let (members, others) = left
                .into_iter()
                .partition(|at| replicas[*at].contains(&node));
            groups.push((node, members));
            left = others;
        }
        Some(groups)
    }

    /// One of the reads has been answered, or (`None`) will never be.
    pub(crate) fn on_owner(
        &mut self,
        parent: RequestKey,
        index: u16,
        answer: Option<PartAnswer<'_>>,
    ) {
        let Some(request) = self.request(parent) else {
            return;
        };
        let (Some(by_owner), Some(prepared)) = (request.by_owner.as_mut(), &request.prepared)
        else {
            return;
        };
        let (Some(answer), Some(part @ None)) = (
            answer.filter(PartAnswer::has_rows),
            by_owner.parts.get_mut(usize::from(index)),
        ) else {
            return self.abandon_by_owner(parent);
        };
        let content = answer.content;
        let learned = &prepared.statement.learned;
        learned.note_answer(content.len(), answer.service_us);
        match RowsView::parse(content) {
            Ok(page) if page.paging_state.is_some() => {
                learned.note_keys(by_owner.keys, false);
                return self.abandon_by_owner(parent);
            }
            Ok(page) if page.has_metadata(&prepared.result_metadata) => {}
            _ => return self.abandon_by_owner(parent),
        }
        *part = Some(content.to_vec());
        by_owner.missing -= 1;
        let complete = by_owner.missing == 0;
        if answer.header.flags & flags::WARNING != 0 {
            note_warnings(&mut by_owner.warnings, answer.prelude, Opcode::Execute);
        }
        let wanted = self.is_wanted(parent);
        self.cx.memory.add(content.len());
        if !wanted {
            self.drop_request(parent);
        } else if self.cx.memory.is_full(0) {
            self.abandon_by_owner(parent);
        } else if complete {
            self.merge_owners(parent);
        }
    }

    /// Sends the read as it came.
    fn abandon_by_owner(&mut self, key: RequestKey) {
        if self.take_by_owner(key) {
            self.route(key);
        }
    }

    /// Forgets the reads of owners; what is in flight of them comes back to nobody.
    pub(crate) fn take_by_owner(&mut self, key: RequestKey) -> bool {
        let Some(by_owner) = self.request(key).and_then(|r| r.by_owner.take()) else {
            return false;
        };
        self.cx.memory.sub(by_owner.byte_len());
        self.drop_waiting(&by_owner.children);
        true
    }

    fn merge_owners(&mut self, key: RequestKey) {
        let now = self.cx.now;
        let skips_metadata = self.skips_metadata(key);
        let Some(request) = self.request(key) else {
            return;
        };
        let (Some(by_owner), Some(prepared)) = (&request.by_owner, &request.prepared) else {
            return;
        };
        let pages = by_owner.parts.iter().flatten();
        let pages: Option<Vec<RowsView<'_>>> = pages.map(|p| RowsView::parse(p).ok()).collect();
        let Some(pages) = pages else {
            return self.abandon_by_owner(key);
        };
        let learned = &prepared.statement.learned;
        let limit = by_owner.limit.unwrap_or(usize::MAX);
        let rows: usize = pages.iter().map(|page| page.row_count).sum();
        // A full page may have a next one, unless the LIMIT is reached on it.
        let fitted = by_owner
            .page_size
            .is_none_or(|size| rows < size || limit <= size);
        learned.note_keys(by_owner.keys, fitted);
        if !fitted {
            return self.abandon_by_owner(key);
        }
        let in_keys = prepared.in_keys.as_ref();
        let Some(mut join) = in_keys.and_then(|in_keys| in_keys.merge(&pages, limit)) else {
            learned.suspend(now);
            return self.abandon_by_owner(key);
        };
        if by_owner.skip_metadata && skips_metadata {
            join.skip_metadata();
        }
        let mut warnings = Vec::new();
        let header_flags = write_warnings(&by_owner.warnings, &mut warnings);
        let body = join.into_body(warnings);
        let version = self.cx.snapshot.version;
        self.answer_clients(key, Opcode::Result, header_flags, body, version);
    }
}
