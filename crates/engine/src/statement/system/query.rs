//! Which selections from the tables that show the proxies the proxy can answer.

use helenus_cql::{Facts, Kind, Selected, Term};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Table {
    Local,
    Peers,
    PeersV2,
}

impl Table {
    pub(super) fn name(self) -> &'static str {
        match self {
            Table::Local => "local",
            Table::Peers => "peers",
            Table::PeersV2 => "peers_v2",
        }
    }

    /// Columns of its primary key.
    pub(super) fn key(self) -> &'static [&'static str] {
        match self {
            Table::Local => &["key"],
            Table::Peers => &["peer"],
            Table::PeersV2 => &["peer", "peer_port"],
        }
    }
}

/// A selection from one of the three tables that the proxy can answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SystemQuery {
    pub table: Table,
    /// The keyspace was written in the statement. If not, the one in force has to be `system`.
    qualified: bool,
}

impl SystemQuery {
    /// True if the statement is about these tables with this keyspace in force.
    pub(crate) fn applies(self, keyspace: Option<&str>) -> bool {
        self.qualified || keyspace == Some("system")
    }
}

/// Recognizes such a selection by its form.
pub(crate) fn parse(facts: &Facts) -> Option<SystemQuery> {
    if facts.kind != Kind::Select {
        return None;
    }
    let qualified = match &facts.keyspace {
        Some(keyspace) if keyspace == "system" => true,
        Some(_) => return None,
        None => false,
    };
    let table = match facts.table.as_ref()?.as_str() {
        "local" => Table::Local,
        "peers" => Table::Peers,
        "peers_v2" => Table::PeersV2,
        _ => return None,
    };
    let select = facts.select.as_ref()?;
    let plain = match &select.columns {
        Selected::All => true,
        Selected::Columns(_) if select.is_count_rows() => true,
        Selected::Columns(columns) => columns.iter().all(|item| item.column.is_some()),
    };
    if !plain
        || select.distinct
        || select.json
        || select.group_by
        || !select.order_by.is_empty()
        || select.per_partition_limit.is_some()
        || select.limit == Some(Term::Other)
        || !select.tokens.is_empty()
        || !select.ins.is_empty()
        || !select.ranges.is_empty()
        || select.other_relations
    {
        return None;
    }
    // Conditions have to be on the columns that the key begins with, one on each. Cassandra refuses
    // others, or wants ALLOW FILTERING.
    let (key, _) = table.key().split_at_checked(facts.key_terms.len())?;
    let on = |column: &str| facts.key_terms.iter().any(|t| t.column == column);
    if !key.iter().all(|column| on(column)) || facts.key_terms.iter().any(|t| t.term == Term::Other)
    {
        return None;
    }
    Some(SystemQuery { table, qualified })
}
