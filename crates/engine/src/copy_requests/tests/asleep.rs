use super::*;

#[test]
fn leases_that_are_taken_away_acknowledge_nothing_until_the_lists_are_read_again() {
    let mut scene = Scene::new(Version::V5, Version::V5);
    scene.insert();
    let sent = scene.one_each();
    // The machine has slept: its clock says that the lease is held, and that is not so.
    scene.bench.common.copies.end_leases();
    for (node, (_, stream, _)) in sent.into_iter().enumerate() {
        scene.void(node, stream);
    }
    scene.tell();
    scene.is_unanswered();
    // Another write is not begun.
    scene.insert();
    let (opcode, _) = scene.bench.answer();
    assert_eq!(opcode, Opcode::Error);
    scene.nothing_sent();
    scene.read();
    scene.is_acknowledged();
    scene.is_done();
}
