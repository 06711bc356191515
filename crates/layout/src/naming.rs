//! Names of the tables that hold layouts.

/// Stands between the names of table and layout, and not in that of a layout: so the last one in a table's
/// name divides it, and no two layouts have the same table.
pub const BETWEEN: &str = "__layout_";

/// True if a layout may have this name: it needs no quotation marks, and together with what stands before it in its
/// table's name it makes no other [`BETWEEN`].
pub fn is_layout_name(name: &str) -> bool {
    let is_good = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    !name.is_empty()
        && name.chars().all(is_good)
        && format!("{BETWEEN}{name}").rfind(BETWEEN) == Some(0)
}

/// The names of table and layout, if a table is named like that of a layout.
pub fn divide(physical: &str) -> Option<(&str, &str)> {
    let at = physical.rfind(BETWEEN)?;
    let (table, layout) = (physical.get(..at)?, physical.get(at + BETWEEN.len()..)?);
    (!table.is_empty() && is_layout_name(layout)).then_some((table, layout))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_layouts_table_tells_both_names() {
        for (physical, table, layout) in [
            ("orders__layout_a", "orders", "a"),
            ("Orders__layout_by_day", "Orders", "by_day"),
            ("a__layout_b__layout_c", "a__layout_b", "c"),
            ("a__layout__layout_c", "a__layout", "c"),
        ] {
            assert_eq!(divide(physical), Some((table, layout)), "{physical}");
        }
        for other in [
            "orders",
            "__layout_a",
            "orders__layout_",
            "orders__layout_A",
            "orders_layout_a",
        ] {
            assert_eq!(divide(other), None, "{other}");
        }
    }
}
