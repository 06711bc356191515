//! Whose each write is. What a client writes has a value of its own, so a node can tell from what it is asked to write
//! who has written it: over a connection of that client's role, at its level and with its time, alone or among others'.

use std::collections::BTreeMap;

use helenus_wire::Consistency;

/// A write as its client made it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Made {
    role: String,
    timestamp: i64,
    level: Consistency,
}

/// A write as a node is asked for it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked<'a> {
    /// That of the connection, if nodes want a login.
    pub role: Option<&'a str>,
    pub timestamp: Option<i64>,
    pub level: Consistency,
}

/// All writes, by their values.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    made: BTreeMap<i64, Made>,
    /// Writes that were compared.
    pub compared: u64,
    /// Those of them that could have come over a connection of another role.
    pub of_roles: u64,
    /// Those of them that came later than they were made, as what is sent again or waits does.
    pub late: u64,
}

impl Ledger {
    pub(super) fn note(&mut self, value: i64, role: String, timestamp: i64, level: Consistency) {
        let made = Made {
            role,
            timestamp,
            level,
        };
        let before = self.made.insert(value, made);
        assert_eq!(before, None, "{value} was written by two");
    }

    /// Fails if a node is asked for it otherwise than its client was.
    pub(super) fn compare(&mut self, value: i64, asked: Asked<'_>, now_us: u64) {
        let made = self.made.get(&value);
        let made = made.unwrap_or_else(|| panic!("nobody has written {value}"));
        self.compared += 1;
        if let Some(role) = asked.role {
            self.of_roles += 1;
            assert_eq!(role, made.role, "the role of the write of {value}");
        }
        let timestamp = Some(made.timestamp);
        assert_eq!(
            asked.timestamp, timestamp,
            "the time of the write of {value}"
        );
        assert_eq!(asked.level, made.level, "the level of the write of {value}");
        self.late += u64::from(now_us as i64 > made.timestamp + 1_000_000);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "the role of the write of 7")]
    fn a_write_over_a_connection_of_another_role_is_noticed() {
        let asked = Asked {
            role: Some("a"),
            timestamp: Some(1),
            level: Consistency::QUORUM,
        };
        let mut ledger = Ledger::default();
        for (value, role) in [(6, "a"), (7, "b")] {
            ledger.note(value, role.to_owned(), 1, Consistency::QUORUM);
        }
        ledger.compare(6, asked, 2);
        ledger.compare(7, asked, 2);
    }
}
