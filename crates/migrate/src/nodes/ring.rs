//! The ring in ranges of tokens.

use anyhow::Result;
use helenus_cql::quote_text;
use helenus_rows::TableName;

use super::cluster::Cluster;

/// Partitions of a range, about.
const PARTITIONS: u64 = 2_000;
/// A power of two, as all numbers of ranges are.
const RANGES_MIN: u64 = 16;
const RANGES_MAX: u64 = 8_192;

/// All numbers below a power of two, in an order that visits no part of them more than others.
pub fn spread(count: u64, seed: u64) -> impl Iterator<Item = u64> {
    // Odd steps visit each number once; those by the golden ratio stay apart.
    let step = (count as f64 * 0.618_033_988_75) as u64 | 1;
    let begin = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    (0..count).map(move |n| (begin + n * step) % count)
}

/// How many ranges suit a table. What nodes estimate may be old, or nothing.
pub async fn suitable(cluster: &Cluster, table: &TableName) -> u64 {
    let text = format!(
        "SELECT partitions_count FROM system.size_estimates WHERE keyspace_name = {} AND table_name = {}",
        quote_text(&table.keyspace),
        quote_text(&table.table)
    );
    let mut partitions = 0u64;
    for node in cluster.nodes() {
        let rows: Result<Vec<(i64,)>> = cluster.rows_of(&node, &text).await;
        let counts = rows.unwrap_or_default().into_iter();
        partitions += counts
            .map(|(count,)| u64::try_from(count).unwrap_or(0))
            .sum::<u64>();
    }
    (partitions / PARTITIONS)
        .next_power_of_two()
        .clamp(RANGES_MIN, RANGES_MAX)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_range_is_visited_once_and_early_ones_lie_apart() {
        for (count, seed) in [(16, 1), (1_024, 2), (1 << 16, u64::MAX)] {
            let places: Vec<u64> = spread(count, seed).collect();
            let distinct: BTreeSet<u64> = places.iter().copied().collect();
            assert_eq!(distinct.len() as u64, count);
            assert_eq!(distinct.last(), Some(&(count - 1)));
            let quarters: BTreeSet<u64> = places.iter().take(8).map(|at| at * 4 / count).collect();
            assert_eq!(quarters.len(), 4, "{count}: {:?}", &places[..8]);
        }
        let first = |seed| spread(1_024, seed).next();
        assert_ne!(first(1), first(2));
    }
}
