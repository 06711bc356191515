//! Whether proxies are there that keep copies in sync.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::Result;
use helenus_layout::insync::State as CopyState;
use scylla::value::CqlValue;

use super::super::lists;
use crate::online::cluster::Cluster;

/// Proxies give signs of life several times in a second.
pub(super) const SIGN_OF_LIFE: Duration = Duration::from_secs(2);
const LOOK: Duration = Duration::from_millis(250);

/// Signs of life of the proxies in sync, by their starts.
pub(super) async fn beats(cluster: &Cluster) -> Result<BTreeMap<String, i64>> {
    type Row = (Option<CqlValue>, Option<String>, Option<i64>);
    let rows: Vec<Row> = cluster
        .rows("SELECT start, state, beat FROM helenus.proxies WHERE name = 'proxies'")
        .await?;
    let beat = |(start, state, beat): Row| {
        let is_in_sync = state.as_deref() == Some(CopyState::InSync.name());
        Some((lists::uuid_text(&start?), beat.filter(|_| is_in_sync)?))
    };
    Ok(rows.into_iter().filter_map(beat).collect())
}

/// In how many buckets proxies that are out, or these that are silent, have recorded intents, which no other one has made
/// good.
pub(super) async fn left_by_others(cluster: &Cluster, silent: &[String]) -> Result<usize> {
    type Proxy = (Option<CqlValue>, Option<String>);
    type Intent = (Option<CqlValue>, Option<bool>);
    let proxies: Vec<Proxy> = cluster
        .rows("SELECT start, state FROM helenus.proxies WHERE name = 'proxies'")
        .await?;
    let intents: Vec<Intent> = cluster
        .rows("SELECT start, recorded FROM helenus.intents")
        .await?;
    let is_gone = |start: &Option<CqlValue>| {
        let mut proxies = proxies.iter();
        let is_out = proxies.any(|(of, state)| {
            of.is_some() && of == start && state.as_deref() == Some(CopyState::Out.name())
        });
        let start = start.as_ref().map(lists::uuid_text);
        is_out || start.is_some_and(|start| silent.contains(&start))
    };
    let left = intents
        .iter()
        .filter(|(start, recorded)| *recorded == Some(true) && is_gone(start));
    Ok(left.count())
}

pub(super) async fn is_proxy_alive(cluster: &Cluster) -> Result<bool> {
    let (begun, before) = (Instant::now(), beats(cluster).await?);
    while begun.elapsed() < SIGN_OF_LIFE {
        tokio::time::sleep(LOOK).await;
        if gives_sign(&before, &beats(cluster).await?) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Proxies that have given none in between, and have not left.
pub(super) fn silent(before: &BTreeMap<String, i64>, after: &BTreeMap<String, i64>) -> Vec<String> {
    let silent = after
        .iter()
        .filter(|(start, beat)| before.get(*start) == Some(*beat));
    silent.map(|(start, _)| start.clone()).collect()
}

/// Whether a proxy has given a sign of life in between. That one has left is none.
pub(super) fn gives_sign(before: &BTreeMap<String, i64>, after: &BTreeMap<String, i64>) -> bool {
    after
        .iter()
        .any(|(start, beat)| before.get(start) != Some(beat))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proxy_that_leaves_gives_no_sign_of_life() {
        let of = |beats: &[(&str, i64)]| {
            let beats = beats
                .iter()
                .map(|(start, beat)| ((*start).to_owned(), *beat));
            beats.collect::<BTreeMap<_, _>>()
        };
        let before = of(&[("a", 1), ("b", 1)]);
        assert!(gives_sign(&before, &of(&[("a", 1), ("b", 2)])));
        assert!(gives_sign(&before, &of(&[("a", 1), ("c", 1)])));
        assert!(!gives_sign(&before, &before));
        assert!(!gives_sign(&before, &of(&[("a", 1)])));
        assert_eq!(silent(&before, &of(&[("a", 2), ("b", 1), ("c", 1)])), ["b"]);
    }
}
