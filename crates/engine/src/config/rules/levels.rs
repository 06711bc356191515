//! Consistency levels in an order, for floors and ceilings.
//!
//! How many replicas a level asks for depends on the keyspace: with three replicas TWO and QUORUM ask for as
//! many. So this is an order by convention, that of what a level promises wherever it is used.

use helenus_wire::Consistency;

/// From the weakest; those of one line promise as much.
const ORDER: [&[Consistency]; 8] = [
    &[Consistency::ANY],
    &[Consistency::ONE, Consistency::LOCAL_ONE],
    &[Consistency(2)],
    &[Consistency(3)],
    &[Consistency::LOCAL_QUORUM, Consistency::LOCAL_SERIAL],
    &[Consistency::QUORUM, Consistency::SERIAL],
    &[Consistency::EACH_QUORUM],
    &[Consistency::ALL],
];

/// A level by its name in CQL; SERIAL and LOCAL_SERIAL are none that a rule could ask for.
pub(crate) fn level(name: &str) -> Option<Consistency> {
    let levels = ORDER.iter().flat_map(|of| of.iter()).copied();
    let mut levels = levels.filter(|level| !level.is_serial());
    levels.find(|level| level.name().eq_ignore_ascii_case(name))
}

/// How much a level promises; `None` if there is no such level.
pub(crate) fn strength(level: Consistency) -> Option<usize> {
    ORDER.iter().position(|of| of.contains(&level))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_have_an_order() {
        let strength = |name| level(name).and_then(strength);
        assert_eq!(strength("ONE"), strength("local_one"));
        let names = [
            "ANY",
            "LOCAL_ONE",
            "TWO",
            "THREE",
            "LOCAL_QUORUM",
            "QUORUM",
            "EACH_QUORUM",
            "ALL",
        ];
        for pair in names.windows(2) {
            assert!(strength(pair[0]) < strength(pair[1]), "{pair:?}");
        }
        assert_eq!(level("SERIAL"), None);
        assert_eq!(level("UNKNOWN"), None);
        assert_eq!(super::strength(Consistency(99)), None);
    }
}
