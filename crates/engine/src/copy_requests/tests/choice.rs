//! Which copy a read is asked of, as time goes by.

use super::read::{BY_STATUS, CELLS, asked_one, gets_the_row, give, page, read};
use super::*;

/// So many reads at a time, which take so long; the nodes that were asked.
fn take(scene: &mut Scene, reads: usize, ms: u64) -> Vec<usize> {
    scene.read();
    let mut asked = Vec::new();
    for _ in 0..reads {
        read(scene, BY_STATUS);
        asked.push(asked_one(scene, BY_STATUS));
    }
    scene.bench.now += Duration::from_millis(ms);
    for (node, stream) in &asked {
        give(scene, *node, *stream, &page(*node, None, &CELLS));
        gets_the_row(scene);
    }
    asked.into_iter().map(|(node, _)| node).collect()
}

#[test]
fn a_copy_that_was_slow_once_is_asked_again_after_a_while() {
    let mut scene = Scene::new(Version::V4, Version::V4);
    let slow = take(&mut scene, 1, 40)[0];
    let other = 3 - slow;
    assert_eq!(take(&mut scene, 1, 2), [other]);
    let (mut before, mut after) = (0, 0);
    for second in 0..200 {
        // Nobody looks after connections meanwhile.
        scene.bench.now += Duration::from_secs(1);
        // Some of them are measured.
        for _ in 0..4 {
            let asked = take(&mut scene, 2, 2);
            let to_slow = asked.iter().filter(|node| **node == slow).count();
            match second {
                0..5 => before += to_slow,
                _ => after += to_slow,
            }
        }
    }
    assert_eq!(before, 0, "its sibling is faster");
    assert!(after > 0, "it may have become faster");
}

#[test]
fn a_copy_that_is_still_slow_is_tried_once_and_not_by_many_reads() {
    let mut scene = Scene::new(Version::V4, Version::V4);
    let slow = take(&mut scene, 1, 40)[0];
    let (mut in_a_row, mut most, mut all) = (0, 0, 0);
    for _ in 0..500 {
        scene.bench.now += Duration::from_millis(400);
        scene.read();
        let mut asked = [0; 2].map(|_| {
            read(&mut scene, BY_STATUS);
            asked_one(&mut scene, BY_STATUS)
        });
        asked.sort_unstable_by_key(|(node, _)| *node == slow);
        for (node, stream) in asked {
            let ms = if node == slow { 40 } else { 2 };
            scene.bench.now += Duration::from_millis(ms);
            give(&mut scene, node, stream, &page(node, None, &CELLS));
            gets_the_row(&mut scene);
        }
        let is_tried = asked.iter().any(|(node, _)| *node == slow);
        in_a_row = if is_tried { in_a_row + 1 } else { 0 };
        most = most.max(in_a_row);
        all += usize::from(is_tried);
    }
    assert!(all > 0, "it may have become faster");
    assert!(most <= 2, "{most} in a row, {all} in all");
}
