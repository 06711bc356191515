//! Names of layouts, and of their tables.

use anyhow::{Result, bail};
use helenus_cql::Name;
use helenus_layout::naming::{BETWEEN, is_layout_name};

/// Cassandra refuses longer names of tables and keyspaces.
pub const NAME_MAX: usize = 48;

/// Follows the name of a table's keyspace in that of the keyspace for its derived layouts.
const LAYOUTS_OF: &str = "__layouts";

/// The keyspace that holds derived layouts of tables of this one, unless another is named.
pub fn derived_keyspace(keyspace: &Name) -> Name {
    Name::from_stored(format!("{keyspace}{LAYOUTS_OF}"))
}

/// The table of a layout.
pub(super) fn physical(table: &Name, layout: &str) -> Result<String> {
    let name = format!("{table}{BETWEEN}{layout}");
    if name.len() > NAME_MAX {
        bail!(
            "the table of layout {layout} would be named {name}, which is longer than Cassandra's \
             {NAME_MAX} characters: choose a shorter name for the layout"
        );
    }
    Ok(name)
}

/// True if the table of this layout has that name. Nothing else is ever emptied or dropped, whatever
/// the catalogue says.
pub(super) fn is_of_layout(table: &Name, layout: &str, name: &str) -> bool {
    physical(table, layout).is_ok_and(|physical| physical == name)
}

/// The layout of this table whose table would have that name.
pub(super) fn layout_of<'a>(table: &Name, name: &'a str) -> Option<&'a str> {
    let layout = name.strip_prefix(&**table)?.strip_prefix(BETWEEN)?;
    check_layout(layout).is_ok().then_some(layout)
}

/// The name of a layout, if nothing else is known of it.
pub fn letter(at: usize) -> String {
    char::from_u32('A' as u32 + at as u32)
        .unwrap_or('?')
        .to_string()
}

/// Names of layouts need no quotation marks, and divide their table's name in one way only.
pub(super) fn check_layout(name: &str) -> Result<()> {
    if is_layout_name(name) {
        return Ok(());
    }
    let is_good = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    if name.is_empty() || !name.chars().all(is_good) {
        bail!("{name:?} cannot be a layout's name: use lower-case letters, digits and underscores");
    }
    // Also one whose beginning makes another of the underscores before it.
    bail!(
        "{name:?} cannot be a layout's name: its table could be that of a layout of another table"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_layouts_table_is_known_by_its_name() {
        let table = Name::from_stored("Orders");
        let name = physical(&table, "by_day").expect("short enough");
        assert_eq!(layout_of(&table, &name), Some("by_day"));
        assert!(is_of_layout(&table, "by_day", &name));
        for other in [
            "Orders",
            "orders__layout_a",
            "Orders__layout_",
            "Orders__layout_A",
        ] {
            assert_eq!(layout_of(&table, other), None, "{other}");
            assert!(!is_of_layout(&table, "by_day", other), "{other}");
        }
    }

    #[test]
    fn no_two_layouts_have_the_same_table() {
        for (table, layout, other, name) in [
            ("a", "b__layout_c", "a__layout_b", "c"),
            ("a", "_layout_c", "a__layout", "c"),
        ] {
            let [table, other] = [table, other].map(Name::from_stored);
            let same = physical(&table, layout).expect("short enough");
            assert_eq!(same, physical(&other, name).expect("short enough"));
            assert!(check_layout(layout).is_err(), "{layout}");
            assert!(check_layout(name).is_ok(), "{name}");
            assert_eq!(layout_of(&table, &same), None, "{same}");
            assert_eq!(layout_of(&other, &same), Some(name), "{same}");
        }
        assert!(check_layout("layout_c").is_ok());
    }
}
