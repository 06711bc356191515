//! What clients ask of the table with clustering columns, and what they are answered.

use helenus_wire::{Consistency, code};

use super::World;
use crate::chaos::checks::Span;
use crate::chaos::client::{Answer, Copied, InFlight, Purpose, RowWrite};
use crate::chaos::coverage;
use crate::chaos::proxy::At;
use crate::chaos::wide::{
    Action, CLUSTERING, Change, Row, Scan, VALUES, columns, read_with, texts,
};

fn int(cell: &[u8]) -> i64 {
    i64::from_be_bytes(cell.try_into().unwrap_or([0xEE; 8]))
}

fn bytes(values: &[i64]) -> Vec<Vec<u8>> {
    values.iter().map(|v| v.to_be_bytes().to_vec()).collect()
}

/// What a client hears of a write that no coordinator has taken for a layout.
pub(super) const NOT_TAKEN: &str = "no node has taken it for its layout";

const CARRIED_OUT: &str = "what cannot be copied to layouts was carried out";

/// A statement with its values, and what it changes.
type Written = (&'static str, Vec<i64>, Change);

impl World {
    /// `None` if it would write a partition that is another's, or is being written.
    pub(super) fn begin_rows(&mut self, number: usize) -> Option<i16> {
        match self.dice.below(20) {
            0..=5 => self.begin_change(number),
            6..=7 => self.begin_changes(number),
            8 if !self.layouts_change() => self.begin_uncopied(number),
            19 if self.derived.is_some() => self.begin_uncopied(number),
            // Where layouts come and go, some scans outlive theirs.
            9 if self.clients[number].paused.is_some() => self.resume(number),
            10..=12 if self.clients[number].paused.is_some() && !self.layouts_change() => {
                self.resume(number)
            }
            _ => Some(self.begin_select(number)),
        }
    }

    /// Whether there are layouts that come and go.
    fn layouts_change(&self) -> bool {
        let catalogue = self.catalogue.as_ref();
        catalogue.is_none_or(|catalogue| catalogue.changes)
    }

    fn any_partition(&mut self) -> i64 {
        let partitions = self.catalogue.as_ref().map_or(1, |of| of.partitions);
        match self.dice.below(3) {
            0 => 0,
            _ => self.dice.below(partitions as u64) as i64,
        }
    }

    /// One of the partitions that only this client writes, if it does not write it just now.
    fn own_partition(&mut self, number: usize) -> Option<i64> {
        let count = self.clients.len() as i64;
        let any = self.any_partition();
        let own = any - any.rem_euclid(count) + number as i64;
        let partitions = self.catalogue.as_ref().map_or(0, |of| of.partitions);
        let is_free = own < partitions && self.clients[number].writing_rows.insert(own);
        is_free.then_some(own)
    }

    fn any_row(&mut self) -> Row {
        [(); 3].map(|()| self.dice.below(VALUES as u64) as i64)
    }

    fn any_change(&mut self, number: usize, partition: i64) -> Written {
        let row @ [a, b, c] = self.any_row();
        let value = self.clients[number].unique(number);
        match self.dice.below(32) {
            0..=17 => {
                let values = vec![partition, a, b, c, value];
                let here = self.clients[number].in_keyspace && self.dice.below(4) == 0;
                let text = if here {
                    texts::INSERT_HERE
                } else {
                    texts::INSERT
                };
                (text, values, Change::Put(row, value))
            }
            18..=26 => {
                let values = vec![value, partition, a, b, c];
                (texts::UPDATE, values, Change::Put(row, value))
            }
            27..=30 => {
                let values = vec![partition, a, b, c];
                (texts::DELETE_ROW, values, Change::DeleteRow(row))
            }
            _ => (
                texts::DELETE_PARTITION,
                vec![partition],
                Change::DeletePartition,
            ),
        }
    }

    fn begin_change(&mut self, number: usize) -> Option<i16> {
        let now_us = self.now_us();
        let partition = self.own_partition(number)?;
        let (text, values, change) = self.any_change(number, partition);
        self.begin_write_of(partition, vec![change]);
        let purpose = Purpose::RowWrite(RowWrite {
            partitions: vec![partition],
            timestamp: now_us as i64,
            copied: Copied::Yes,
            condition: None,
        });
        let (client, dice) = (&mut self.clients[number], &mut self.dice);
        let values = bytes(&values);
        Some(client.statement(now_us, text, &values, (100, None), purpose, dice))
    }

    /// A BATCH of changes of one or more partitions; now and then with one that cannot be copied.
    fn begin_changes(&mut self, number: usize) -> Option<i16> {
        let now_us = self.now_us();
        let mut written: Vec<(i64, Vec<Change>)> = Vec::new();
        let mut children = Vec::new();
        for _ in 0..1 + self.dice.below(2) {
            let Some(partition) = self.own_partition(number) else {
                continue;
            };
            let mut changes: Vec<Change> = Vec::new();
            for _ in 0..1 + self.dice.below(3) {
                let (text, values, change) = self.any_change(number, partition);
                // Of two writes of one row in a batch, its values would decide.
                let is_other = match change {
                    Change::Put(row, _) | Change::DeleteRow(row) => {
                        !changes.iter().any(|known| known.touches(&row))
                    }
                    Change::DeletePartition | Change::DeleteSlice(_) => changes.is_empty(),
                };
                if is_other {
                    children.push((text, bytes(&values)));
                    changes.push(change);
                }
            }
            written.push((partition, changes));
        }
        let partitions: Vec<i64> = written.iter().map(|(partition, _)| *partition).collect();
        let first = *partitions.first()?;
        let copied = match !self.layouts_change() && self.dice.below(8) == 0 {
            true => Copied::No,
            false => Copied::Yes,
        };
        if copied == Copied::No {
            children.push((texts::DELETE_RANGE, bytes(&[first, 0])));
        }
        let copied = match copied {
            Copied::No if self.derived.is_some() => Copied::Compared,
            copied => copied,
        };
        for (partition, mut changes) in written {
            if copied == Copied::Compared && partition == first {
                changes.push(Change::DeleteSlice(0));
            }
            self.begin_write_of(partition, changes);
        }
        let purpose = Purpose::RowWrite(RowWrite {
            partitions,
            timestamp: now_us as i64,
            copied,
            condition: None,
        });
        let kind = self.dice.below(2) as u8;
        let (client, dice) = (&mut self.clients[number], &mut self.dice);
        Some(client.batch(now_us, kind, &children, purpose, dice))
    }

    /// What a table with layouts does not take.
    fn begin_uncopied(&mut self, number: usize) -> Option<i16> {
        let now_us = self.now_us();
        let partition = self.own_partition(number)?;
        if self.derived.is_some() {
            return Some(self.begin_compared(number, partition));
        }
        let (text, values) = match self.dice.below(6) {
            0..=1 => (texts::DELETE_RANGE, vec![partition, 1]),
            2..=3 => (texts::UPDATE_IF, vec![5, partition, 0, 1, 2, 4]),
            4 => (texts::ALTER, vec![]),
            _ => (texts::DROP, vec![]),
        };
        let copied = match values.is_empty() {
            true => Copied::Definition,
            false => Copied::No,
        };
        let purpose = Purpose::RowWrite(RowWrite {
            partitions: vec![partition],
            timestamp: now_us as i64,
            copied,
            condition: None,
        });
        let (client, dice) = (&mut self.clients[number], &mut self.dice);
        let values = bytes(&values);
        Some(client.statement(now_us, text, &values, (100, None), purpose, dice))
    }

    /// What derived layouts cannot be told: they are compared with the table afterwards.
    fn begin_compared(&mut self, number: usize, partition: i64) -> i16 {
        if self.dice.below(2) == 0 {
            return self.begin_conditional(number, partition);
        }
        let now_us = self.now_us();
        self.begin_write_of(partition, vec![Change::DeleteSlice(1)]);
        let purpose = Purpose::RowWrite(RowWrite {
            partitions: vec![partition],
            timestamp: now_us as i64,
            copied: Copied::Compared,
            condition: None,
        });
        let (client, dice) = (&mut self.clients[number], &mut self.dice);
        let values = bytes(&[partition, 1]);
        client.statement(
            now_us,
            texts::DELETE_RANGE,
            &values,
            (100, None),
            purpose,
            dice,
        )
    }

    /// A row gets a value if it has the one that it seems to have, or another one.
    fn begin_conditional(&mut self, number: usize, partition: i64) -> i16 {
        let now_us = self.now_us();
        let known = self.cluster.merged((0, partition));
        let there: Vec<(Row, i64)> = known.live().collect();
        let any = self.dice.below(there.len() as u64) as usize;
        let (row, expected) = match there.get(any) {
            Some((row, value)) if self.dice.below(4) > 0 => (*row, *value),
            _ => (self.any_row(), 5),
        };
        let value = self.clients[number].unique(number);
        self.begin_write_of(partition, vec![Change::Put(row, value)]);
        let purpose = Purpose::RowWrite(RowWrite {
            partitions: vec![partition],
            timestamp: now_us as i64,
            copied: Copied::Compared,
            condition: Some((row, expected)),
        });
        let [a, b, c] = row;
        let values = bytes(&[value, partition, a, b, c, expected]);
        let (client, dice) = (&mut self.clients[number], &mut self.dice);
        client.statement(
            now_us,
            texts::UPDATE_IF,
            &values,
            (100, None),
            purpose,
            dice,
        )
    }

    /// A write is about to be sent.
    fn begin_write_of(&mut self, partition: i64, changes: Vec<Change>) {
        let now_us = self.now_us();
        self.histories.begin(partition, changes, now_us);
        if let Some(derived) = &mut self.cluster.derived {
            derived.note_asked(partition, now_us as i64);
        }
    }

    fn begin_select(&mut self, number: usize) -> i16 {
        let partition = self.any_partition();
        let text = match self.clients[number].in_keyspace && self.dice.below(4) == 0 {
            true => texts::OF_B_HERE,
            false => texts::READS[self.dice.below(texts::READS.len() as u64) as usize],
        };
        let markers = text.matches('?').count();
        let mut values = vec![partition];
        values.extend((1..markers).map(|_| self.dice.below(VALUES as u64) as i64));
        let statement = read_with(text, values.iter().copied().map(Some).collect());
        let select = match statement.map(|statement| statement.action) {
            Some(Action::Select(select)) => select,
            other => panic!("{text} is {other:?}"),
        };
        let weak = self.derived.is_some() && self.dice.below(3) > 0;
        let scan = Scan {
            text,
            values,
            partition,
            select,
            last: None,
            seen: 0,
            weak,
            serial: self.derived.is_some() && !weak && self.dice.below(4) == 0,
        };
        self.ask_rows(number, scan, None)
    }

    fn resume(&mut self, number: usize) -> Option<i16> {
        let is_in_keyspace = self.clients[number].in_keyspace;
        let mut paused = self.clients[number].paused.take();
        let (scan, state) =
            paused.take_if(|(scan, _)| is_in_keyspace || scan.text != texts::OF_B_HERE)?;
        self.count(coverage::SCAN_PAUSED);
        Some(self.ask_rows(number, scan, Some(&state)))
    }

    fn ask_rows(&mut self, number: usize, scan: Scan, state: Option<&[u8]>) -> i16 {
        let now_us = self.now_us();
        let size = [1, 1, 2, 3, 100][self.dice.below(5) as usize];
        let (text, values) = (scan.text, bytes(&scan.values));
        let levels = match (scan.weak, scan.serial) {
            (true, _) => Some([Consistency::ONE, Consistency::LOCAL_ONE]),
            (_, true) => Some([Consistency::SERIAL, Consistency::LOCAL_SERIAL]),
            _ => None,
        };
        let purpose = Purpose::Rows(Box::new(scan));
        let (client, dice) = (&mut self.clients[number], &mut self.dice);
        let own = client.level;
        if let Some(levels) = levels {
            client.level = levels[dice.below(2) as usize];
        }
        let stream = client.statement(now_us, text, &values, (size, state), purpose, dice);
        client.level = own;
        stream
    }

    pub(super) fn judge_selected(
        &mut self,
        number: usize,
        scan: &Scan,
        rows: &[Vec<Vec<u8>>],
        state: Option<&[u8]>,
        span: Span,
    ) -> Result<(), String> {
        self.checked(coverage::Check::LayoutRows, !rows.is_empty());
        if scan.serial {
            self.count(coverage::SERIAL_READ);
        }
        if scan.select.counts {
            let counted = rows.first().map_or(-1, |row| int(&row[0]));
            return self.histories.judge_count(scan, counted, span);
        }
        let found = self.rows_of(scan, rows)?;
        let order = self.cluster.tables[0].order;
        let mut scan = scan.clone();
        self.histories
            .judge_page(&mut scan, &order, &found, state.is_some(), span)?;
        let Some(state) = state else {
            return Ok(());
        };
        // A node's own begins with the length of the key.
        if state.first() != Some(&8) {
            self.count(coverage::PAGE_OF_LAYOUT_CONTINUED);
        }
        let rests = match self.layouts_change() {
            true => self.clients[number].paused.is_none(),
            false => self.dice.below(4) == 0,
        };
        match rests {
            true => self.clients[number].paused = Some((scan, state.to_vec())),
            false => _ = self.ask_rows(number, scan, Some(state)),
        }
        Ok(())
    }

    /// The rows that have come, with their values. Columns that were not asked for are known by the value.
    fn rows_of(&self, scan: &Scan, rows: &[Vec<Vec<u8>>]) -> Result<Vec<(Row, i64)>, String> {
        let names = columns(scan.text).unwrap_or_default();
        let place = |name: &str| names.iter().position(|column| *column == name);
        let of_value = place("v").ok_or("v was not asked for")?;
        let rows = rows.iter().map(|cells| {
            if cells.len() != names.len() {
                return Err(format!("a row of {} cells", cells.len()));
            }
            let value = int(&cells[of_value]);
            let cell = |name| Some(int(&cells[place(name)?]));
            if cell("p").is_some_and(|p| p != scan.partition) {
                return Err("a row of another partition".to_owned());
            }
            if let [Some(a), Some(b), Some(c)] = CLUSTERING.map(cell) {
                return Ok(([a, b, c], value));
            }
            let row = self.histories.row_of(scan.partition, value);
            let row = row.ok_or_else(|| format!("{value} was never written"))?;
            let mut pairs = CLUSTERING.map(cell).into_iter().zip(row);
            match pairs.all(|(cell, of_row)| cell.is_none_or(|cell| cell == of_row)) {
                true => Ok((row, value)),
                false => Err(format!("{value} is of row {row:?}, not of this one")),
            }
        });
        rows.collect()
    }

    /// A write of rows was carried out.
    pub(super) fn judge_row_write(
        &mut self,
        at: At,
        write: &RowWrite,
        span: Span,
    ) -> Result<(), String> {
        let now_us = span.ended_us;
        match write.copied {
            Copied::Yes | Copied::Compared => {}
            Copied::No => return Err(CARRIED_OUT.to_owned()),
            // Without a lease a proxy does not know that there are layouts.
            Copied::Definition if self.proxies[at.proxy].leases.all_of(span) => {
                return Err(CARRIED_OUT.to_owned());
            }
            Copied::Definition => self.count("layouts: a definition passes without a lease"),
        }
        for partition in &write.partitions {
            self.histories
                .acknowledge(*partition, write.timestamp, now_us);
        }
        Ok(())
    }

    /// A conditional write has come to an end: whether the row had what its client is told.
    pub(super) fn judge_outcome(
        &mut self,
        at: At,
        write: &RowWrite,
        rows: &[Vec<Vec<u8>>],
        span: Span,
    ) -> Result<(), String> {
        let (Some((row, expected)), [partition]) = (write.condition, &write.partitions[..]) else {
            return Err(format!("{write:?} is answered with rows"));
        };
        let cells = rows.first().map_or(&[][..], |row| row);
        let is_applied = cells.first().is_some_and(|cell| *cell == [1]);
        let had = match (is_applied, cells.get(1)) {
            (true, _) => Some(expected),
            (false, value) => value.map(|value| int(value)),
        };
        self.checked(coverage::Check::ConditionalRow, true);
        self.histories.judge_row(*partition, &row, had, span)?;
        if is_applied {
            self.count(coverage::APPLIED);
            return self.judge_row_write(at, write, span);
        }
        if had == Some(expected) {
            return Err(format!("not applied although row {row:?} has {expected}"));
        }
        self.refused_rows.push((*partition, write.timestamp));
        Ok(())
    }

    /// Whether a client may hear an error that the model's nodes do not give it.
    pub(super) fn judge_row_error(
        &mut self,
        at: At,
        request: &InFlight,
        answer: &Answer,
    ) -> Option<Result<(), String>> {
        let Answer::Error(code, text) = answer else {
            return None;
        };
        if text.contains("__layout_") && !text.contains(NOT_TAKEN) {
            return Some(Err(format!("a layout is named: {text}")));
        }
        match (&request.purpose, *code) {
            (Purpose::RowWrite(write), code::INVALID)
                if matches!(write.copied, Copied::No | Copied::Definition) =>
            {
                self.count(coverage::UNCOPIED_REFUSED);
                Some(Ok(()))
            }
            (Purpose::RowWrite(_), code::OVERLOADED) if text.contains("catalogue") => {
                self.count(coverage::FENCED);
                None
            }
            // A proxy that was started meanwhile, and has not read the catalogue yet.
            (Purpose::Rows(scan), code::OVERLOADED)
                if scan.last.is_some() && text.contains("catalogue") =>
            {
                self.count(coverage::PAGE_NOT_CONTINUED);
                None
            }
            (Purpose::Rows(scan), code::PROTOCOL) if scan.last.is_some() => {
                self.count(coverage::PAGE_NOT_CONTINUED);
                let span = Span::of(request.begun_us, self.now_us());
                let knows = self.proxies[at.proxy].leases.all_of(span);
                let derived = self.derived.as_ref();
                let was_closed = derived.is_some_and(|of| of.behind.was_closed(self.now_us()));
                Some(match !self.layouts_change() && knows && !was_closed {
                    true => Err(format!("the layouts are as they were: {text}")),
                    false => Ok(()),
                })
            }
            _ => None,
        }
    }
}
