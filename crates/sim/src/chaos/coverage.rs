//! What the runs have been through: how often each thing has happened, and what each fault has struck.
//!
//! A fault proves little if it only ever strikes idle proxies. So with each fault it is counted where in
//! the proxy requests were at that moment ([`Station`]), as far as an engine tells; and with each error
//! that a node answers, what was asked ([`Kind`]). [`Covered::missing`] names what has never happened.

use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Declares an enum, the names of its values, and the number of them.
macro_rules! named {
    ($(#[$doc:meta])* $name:ident { $($value:ident = $text:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub(in crate::chaos) enum $name { $($value,)* }

        impl $name {
            pub(in crate::chaos) const ALL: &[$name] = &[$($name::$value,)*];

            pub(in crate::chaos) fn name(self) -> &'static str {
                match self { $($name::$value => $text,)* }
            }
        }
    };
}

mod floors;

pub(super) use self::floors::Check;
use self::floors::Evaluated;

named! {
    /// What goes wrong, or changes.
    Fault {
        NodeCrashes = "node crashes",
        NodeReturns = "node returns",
        NodeFreezes = "node freezes",
        NodePauses = "node collects garbage",
        Partition = "network partition",
        LinkBreaks = "link breaks",
        LinkIsCut = "link breaks in a frame",
        ClientBreaks = "client breaks",
        ClientIsCut = "client breaks in a frame",
        ClientLeaves = "client leaves",
        Snapshot = "new snapshot",
        Settings = "new settings",
        WorkerEnds = "worker ends",
        RoleDropped = "role dropped",
        SchemaChanges = "schema changes",
    }
}

named! {
    /// Where requests are in a proxy.
    Station {
        Node = "node",
        Queue = "queue",
        ScanSlot = "slot",
        Part = "part",
        Range = "range",
        Teach = "teach",
        Link = "link",
        Greeting = "greet",
        Turn = "turn",
        Share = "share",
        Login = "login",
        Agreement = "agree",
    }
}

named! {
    /// What a node is asked.
    Kind {
        Prepare = "PREPARE",
        Read = "read",
        LayoutRead = "layout",
        Write = "write",
        Counter = "counter",
        Conditional = "IF",
        List = "list",
        Page = "page",
        PagePart = "page part",
        Stretch = "stretch",
        Count = "count",
        CountPart = "count part",
        Many = "IN",
        Use = "USE",
        Alter = "ALTER",
        Batch = "BATCH",
    }
}

named! {
    /// How a node answers, when it does not simply do what it is asked.
    Failure {
        Overloaded = "OVERLOADED",
        Unavailable = "UNAVAILABLE",
        Bootstrapping = "IS_BOOTSTRAPPING",
        TimedOut = "time-out",
        Unprepared = "UNPREPARED",
        Dropped = "stream 0",
        Late = "late",
        Never = "never",
    }
}

impl Station {
    /// The stations that a line of [`helenus_engine::Engine::leak_check`] tells of. With a node's address,
    /// its queue and what is in flight there count only if they are this node's.
    pub(super) fn of_residue(line: &str, node: Option<&str>) -> Option<Station> {
        let of_node = |station| (node.is_none_or(|node| line.ends_with(node))).then_some(station);
        if line.contains(" in the queue of ") {
            of_node(Station::Queue)
        } else if line.contains(" scan permits, some waiting for one: ") {
            let waits = line.contains(" waiting for one: true");
            waits.then_some(Station::ScanSlot)
        } else if line.starts_with("a node request for part ") {
            Some(Station::Part)
        } else if matches!(
            line,
            "a PREPARE over parts of the ring" | "a PREPARE of what the proxy has derived"
        ) {
            Some(Station::Range)
        } else if line == "re-prepares" {
            Some(Station::Teach)
        } else if line == "requests that wait for a link" {
            Some(Station::Link)
        } else if line.starts_with("a login that ") {
            Some(Station::Login)
        } else if line.ends_with(" turns waited for") {
            Some(Station::Turn)
        } else if line == "reads that wait for others" {
            Some(Station::Share)
        } else if line.contains(" at 10.0.0.") {
            of_node(Station::Node)
        } else {
            None
        }
    }
}

/// What hardly happens: nothing is in flight on a node that begins.
fn is_exempt(fault: Fault, station: Station) -> bool {
    matches!(
        (fault, station),
        (
            Fault::NodeReturns,
            Station::Node | Station::Queue | Station::Share | Station::Greeting
        )
    )
}

/// What a node does not answer, or the model does not let it answer.
fn is_exempt_answer(failure: Failure, kind: Kind) -> bool {
    match failure {
        Failure::Unprepared => matches!(kind, Kind::Prepare | Kind::Use | Kind::Alter),
        Failure::Never | Failure::Dropped => kind == Kind::Alter,
        Failure::Unavailable | Failure::TimedOut => kind == Kind::Prepare,
        _ => false,
    }
}

/// What some runs must have been through.
const ALWAYS_SOME: [&str; 22] = [
    ASKED_AFTER_TROUBLE,
    WRITES_COMPARED,
    WRITES_OF_ROLES,
    WRITES_LATE,
    "counter requests_refused_by_rules",
    "counter writes_merged",
    "counter write_batches_parted",
    CATALOGUE_LOST,
    CATALOGUE_NOT_READ,
    FLAGS_LOST,
    FLAGS_NOT_READ,
    LAYOUT_BACKFILLED,
    LAYOUT_DROPPED,
    LAYOUT_READ,
    PAGE_OF_LAYOUT_CONTINUED,
    PAGE_NOT_CONTINUED,
    SCAN_PAUSED,
    COPIED,
    UNCOPIED_REFUSED,
    FENCED,
    "counter layout_reads_of_table",
    "counter layout_reads_sorted",
];
pub(super) const ASKED_AFTER_TROUBLE: &str = "answered after trouble";
pub(super) const BESIDE_PIPELINES: &str = "aggressor: pipelines";
pub(super) const BESIDE_SCANS: &str = "aggressor: scans";
pub(super) const BESIDE_NEVER_READS: &str = "aggressor: never reads";
pub(super) const BESIDE_LARGE_TEXTS: &str = "aggressor: large texts";
pub(super) const BESIDE_VANISHES: &str = "aggressor: vanishes";
/// A request that was shed from a queue that stands.
pub(super) const SHED: &str = "shed from a standing queue";
pub(super) const WRITES_COMPARED: &str = "writes compared with what their clients asked for";
pub(super) const WRITES_OF_ROLES: &str = "writes over connections of a role";
pub(super) const WRITES_LATE: &str = "writes that reach a node more than a second late";
pub(super) const CATALOGUE_LOST: &str = "catalogue lost";
pub(super) const CATALOGUE_NOT_READ: &str = "layouts: catalogue could not be read";
pub(super) const FLAGS_LOST: &str = "flags lost";
pub(super) const FLAGS_NOT_READ: &str = "layouts: flags could not be read";
pub(super) const LAYOUT_BACKFILLED: &str = "layouts: a layout has all rows";
pub(super) const LAYOUT_DROPPED: &str = "layouts: a layout is dropped";
pub(super) const LAYOUT_READ: &str = "layouts: a node reads a layout";
pub(super) const COPIED: &str = "layouts: a node writes a table and its layouts";
pub(super) const PAGE_OF_LAYOUT_CONTINUED: &str = "layouts: a page is continued";
pub(super) const PAGE_NOT_CONTINUED: &str = "layouts: a page cannot be continued";
pub(super) const SCAN_PAUSED: &str = "layouts: a scan is continued later";
pub(super) const UNCOPIED_REFUSED: &str = "layouts: what cannot be copied is refused";
pub(super) const DOUBTED: &str = "derived: a proxy doubts partitions";
pub(super) const SETTLED: &str = "derived: a partition is settled";
pub(super) const STAYS_IN_DOUBT: &str = "derived: a partition stays in doubt";
pub(super) const SWEEP_REPAIRS: &str = "derived: a sweep repairs a row";
pub(super) const SWEEP_DELETES: &str = "derived: a sweep deletes a row";
pub(super) const HINTS_KEPT: &str = "derived: a hint is kept";
pub(super) const HINTS_DELIVERED: &str = "derived: a hint is delivered";
pub(super) const HINTS_LOST: &str = "derived: a hint is lost with its node";
pub(super) const COMPLETED: &str = "derived: a conditional write is completed by who comes next";
pub(super) const APPLIED: &str = "derived: a conditional write is applied";
pub(super) const SERIAL_READ: &str = "derived: a read at SERIAL is answered";
pub(super) const ONLY_HINTED: &str = "derived: a layout is written while no replica is up";
pub(super) const KILLED_WRITING: &str = "derived: a proxy is killed in the middle of a write";
pub(super) const KILLED_BETWEEN: &str = "derived: the table alone has a write of a killed proxy";
pub(super) const ROUND_FINDS: &str = "derived: a round repairs what nobody has doubted";
pub(super) const BEHIND: &str = "derived: layouts become behind";
pub(super) const OPENED: &str = "derived: layouts that were behind are read again";
pub(super) const FENCED: &str = "layouts: a write is refused without a lease";

/// How often things have happened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Covered {
    pub counts: BTreeMap<String, u64>,
    /// Seeds in which each has happened.
    seeds: BTreeMap<String, u64>,
    runs: u64,
    checks: [Evaluated; Check::ALL.len()],
    struck: BTreeMap<(Fault, Station), u64>,
    answered: BTreeMap<(Failure, Kind), u64>,
}

impl Covered {
    pub(super) fn count(&mut self, what: &str, times: u64) {
        match self.counts.get_mut(what) {
            Some(count) => *count += times,
            None => _ = self.counts.insert(what.to_owned(), times),
        }
    }

    pub(super) fn strike(&mut self, fault: Fault, station: Station) {
        *self.struck.entry((fault, station)).or_default() += 1;
    }

    pub(super) fn fail(&mut self, failure: Failure, kind: Kind) {
        *self.answered.entry((failure, kind)).or_default() += 1;
    }

    /// Adds what other runs have been through.
    pub fn add(&mut self, other: Covered) {
        for (what, times) in other.counts {
            *self.counts.entry(what).or_default() += times;
        }
        for (what, seeds) in other.seeds {
            *self.seeds.entry(what).or_default() += seeds;
        }
        self.runs += other.runs;
        for (of, other) in self.checks.iter_mut().zip(other.checks) {
            of.times += other.times;
            of.could_fail += other.could_fail;
            of.seeds += other.seeds;
        }
        for (what, times) in other.struck {
            *self.struck.entry(what).or_default() += times;
        }
        for (what, times) in other.answered {
            *self.answered.entry(what).or_default() += times;
        }
    }

    /// What should have happened, and has not.
    pub fn missing(&self) -> Vec<String> {
        let mut found = Vec::new();
        for fault in Fault::ALL {
            for station in Station::ALL {
                if !self.struck.contains_key(&(*fault, *station)) && !is_exempt(*fault, *station) {
                    found.push(format!("{} × {}", fault.name(), station.name()));
                }
            }
        }
        for failure in Failure::ALL {
            for kind in Kind::ALL {
                if !self.answered.contains_key(&(*failure, *kind))
                    && !is_exempt_answer(*failure, *kind)
                {
                    found.push(format!("{} × {}", failure.name(), kind.name()));
                }
            }
        }
        let never = |what: &&&str| self.counts.get(**what).is_none_or(|times| *times == 0);
        found.extend(
            ALWAYS_SOME
                .iter()
                .filter(never)
                .map(|what| (*what).to_owned()),
        );
        found.extend(self.below_floors());
        found
    }

    /// Three tables: what each fault has struck, what nodes have answered to what, and how often checks could have
    /// failed.
    pub fn tables(&self) -> String {
        let stations: Vec<&str> = Station::ALL.iter().map(|station| station.name()).collect();
        let struck = Fault::ALL.iter().map(|fault| {
            let cell = |station: &Station| self.struck.get(&(*fault, *station)).copied();
            (fault.name(), Station::ALL.iter().map(cell).collect())
        });
        let kinds: Vec<&str> = Kind::ALL.iter().map(|kind| kind.name()).collect();
        let answered = Failure::ALL.iter().map(|failure| {
            let cell = |kind: &Kind| self.answered.get(&(*failure, *kind)).copied();
            (failure.name(), Kind::ALL.iter().map(cell).collect())
        });
        let mut out = table("fault while requests are in", &stations, struck);
        out.push('\n');
        out.push_str(&table("node's answer to", &kinds, answered));
        out.push('\n');
        out.push_str(&self.table_of_checks());
        out
    }
}

fn table(
    corner: &str,
    columns: &[&str],
    rows: impl Iterator<Item = (&'static str, Vec<Option<u64>>)>,
) -> String {
    let widths: Vec<usize> = columns.iter().map(|name| name.len().max(7)).collect();
    let mut out = format!("{corner:<28}");
    for (name, width) in columns.iter().zip(&widths) {
        let _ = write!(out, " {name:>width$}");
    }
    out.push('\n');
    for (name, cells) in rows {
        let _ = write!(out, "{name:<28}");
        for (cell, width) in cells.iter().zip(&widths) {
            let cell = cell.map_or("-".to_owned(), |times| times.to_string());
            let _ = write!(out, " {cell:>width$}");
        }
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stations_are_known_by_what_engines_say() {
        let of = |line: &str, node| Station::of_residue(line, node);
        let node = Some(" 10.0.0.2:9042");
        assert_eq!(
            of("3 in the queue of 10.0.0.2:9042", node),
            Some(Station::Queue)
        );
        assert_eq!(of("3 in the queue of 10.0.0.1:9042", node), None);
        assert_eq!(of("3 at 10.0.0.1:9042", None), Some(Station::Node));
        let gate = |waiting: bool| {
            let line = format!("1 scan permits, some waiting for one: {waiting}, 0 lent");
            Station::of_residue(&line, None)
        };
        assert_eq!(gate(false), None);
        assert_eq!(gate(true), Some(Station::ScanSlot));
        assert_eq!(of("4 turns waited for", node), Some(Station::Turn));
    }

    #[test]
    fn what_was_never_struck_is_named() {
        let mut covered = Covered::default();
        assert!(
            covered
                .missing()
                .contains(&"node crashes × turn".to_owned())
        );
        covered.strike(Fault::NodeCrashes, Station::Turn);
        assert!(
            !covered
                .missing()
                .contains(&"node crashes × turn".to_owned())
        );
        assert!(covered.tables().contains("node crashes"));
    }
}
