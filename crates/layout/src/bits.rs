//! Sets of small numbers.

/// The numbers of the bits that are set, in ascending order.
pub(crate) fn ones(bits: u64) -> impl Iterator<Item = usize> {
    let mut rest = bits;
    std::iter::from_fn(move || {
        let number = rest.trailing_zeros() as usize;
        rest &= rest.checked_sub(1)?;
        Some(number)
    })
}
