//! What clients say to the table with clustering columns.

/// Rows of a partition: all, and by each of the columns.
pub(in crate::chaos) const ALL_ROWS: &str = "SELECT a, b, c, v FROM ks.g WHERE p = ?";
pub(in crate::chaos) const OF_A: &str = "SELECT a, b, c, v FROM ks.g WHERE p = ? AND a = ?";
pub(in crate::chaos) const OF_B: &str =
    "SELECT a, b, c, v FROM ks.g WHERE p = ? AND b = ? ALLOW FILTERING";
pub(in crate::chaos) const OF_C: &str =
    "SELECT a, b, c, v FROM ks.g WHERE p = ? AND c = ? ALLOW FILTERING";
/// All columns, which a layout has in another order.
pub(in crate::chaos) const WHOLE_OF_C: &str =
    "SELECT * FROM ks.g WHERE p = ? AND c = ? ALLOW FILTERING";
pub(in crate::chaos) const OF_B_AND_C: &str =
    "SELECT a, b, c, v FROM ks.g WHERE p = ? AND b = ? AND c = ? ALLOW FILTERING";
pub(in crate::chaos) const OF_C_BACKWARDS: &str =
    "SELECT a, b, c, v FROM ks.g WHERE p = ? AND c = ? ORDER BY a DESC ALLOW FILTERING";
pub(in crate::chaos) const SOME_OF_C: &str =
    "SELECT a, b, c, v FROM ks.g WHERE p = ? AND c = ? LIMIT 5 ALLOW FILTERING";
/// Without the columns by which the rows of a layout are sorted, unless it has the table's order.
pub(in crate::chaos) const VALUES_OF_B: &str =
    "SELECT v, a FROM ks.g WHERE p = ? AND b = ? ALLOW FILTERING";
pub(in crate::chaos) const SOME_OF_B: &str =
    "SELECT c, v FROM ks.g WHERE p = ? AND b = ? LIMIT 2 ALLOW FILTERING";
pub(in crate::chaos) const FROM_B_BACKWARDS: &str =
    "SELECT a, b, c, v FROM ks.g WHERE p = ? AND b >= ? ORDER BY a DESC ALLOW FILTERING";
/// Only a layout may give it faster, as the order does not matter.
pub(in crate::chaos) const COUNT_OF_B: &str =
    "SELECT count(*) FROM ks.g WHERE p = ? AND b = ? ALLOW FILTERING";
pub(in crate::chaos) const COUNT_FROM_C: &str =
    "SELECT count(*) FROM ks.g WHERE p = ? AND b = ? AND c >= ? ALLOW FILTERING";

pub(in crate::chaos) const READS: [&str; 13] = [
    ALL_ROWS,
    OF_A,
    OF_B,
    OF_C,
    WHOLE_OF_C,
    OF_B_AND_C,
    OF_C_BACKWARDS,
    SOME_OF_C,
    VALUES_OF_B,
    SOME_OF_B,
    FROM_B_BACKWARDS,
    COUNT_OF_B,
    COUNT_FROM_C,
];

pub(in crate::chaos) const INSERT: &str = "INSERT INTO ks.g (p, a, b, c, v) VALUES (?, ?, ?, ?, ?)";
pub(in crate::chaos) const UPDATE: &str =
    "UPDATE ks.g SET v = ? WHERE p = ? AND a = ? AND b = ? AND c = ?";
pub(in crate::chaos) const DELETE_ROW: &str =
    "DELETE FROM ks.g WHERE p = ? AND a = ? AND b = ? AND c = ?";
pub(in crate::chaos) const DELETE_PARTITION: &str = "DELETE FROM ks.g WHERE p = ?";

/// In the keyspace of the session. Never prepared.
pub(in crate::chaos) const OF_B_HERE: &str =
    "SELECT a, b, c, v FROM g WHERE p = ? AND b = ? ALLOW FILTERING";
pub(in crate::chaos) const INSERT_HERE: &str =
    "INSERT INTO g (p, a, b, c, v) VALUES (?, ?, ?, ?, ?)";
#[cfg(test)]
pub(in crate::chaos) const HERE: [&str; 2] = [OF_B_HERE, INSERT_HERE];

/// What a table with layouts does not take.
pub(in crate::chaos) const DELETE_RANGE: &str = "DELETE FROM ks.g WHERE p = ? AND a = ?";
pub(in crate::chaos) const UPDATE_IF: &str =
    "UPDATE ks.g SET v = ? WHERE p = ? AND a = ? AND b = ? AND c = ? IF v = ?";
pub(in crate::chaos) const ALTER: &str = "ALTER TABLE ks.g RENAME a TO z";
pub(in crate::chaos) const DROP: &str = "DROP TABLE ks.g";

/// What a BATCH may consist of.
pub(in crate::chaos) const WRITES: [&str; 5] =
    [INSERT, UPDATE, DELETE_ROW, DELETE_PARTITION, DELETE_RANGE];

/// Those that clients prepare.
pub(in crate::chaos) const ALL: [&str; 19] = [
    ALL_ROWS,
    OF_A,
    OF_B,
    OF_C,
    WHOLE_OF_C,
    OF_B_AND_C,
    OF_C_BACKWARDS,
    SOME_OF_C,
    VALUES_OF_B,
    SOME_OF_B,
    FROM_B_BACKWARDS,
    COUNT_OF_B,
    COUNT_FROM_C,
    INSERT,
    UPDATE,
    DELETE_ROW,
    DELETE_PARTITION,
    DELETE_RANGE,
    UPDATE_IF,
];
