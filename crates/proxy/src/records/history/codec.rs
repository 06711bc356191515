//! How steps are kept: numbers of which most are 0, as the distance to the next one that is not, and its value,
//! each in as few groups of seven bits as it takes. A histogram of a second takes two or three bytes a bucket.

/// Appends what is not 0.
pub(super) fn pack(numbers: impl IntoIterator<Item = u64>, out: &mut Vec<u8>) {
    let mut skipped = 0;
    for number in numbers {
        if number == 0 {
            skipped += 1;
            continue;
        }
        put(skipped, out);
        put(number, out);
        skipped = 0;
    }
}

/// Position and value of what is not 0.
pub(super) fn unpack(mut bytes: &[u8]) -> impl Iterator<Item = (usize, u64)> {
    let mut at = 0_usize;
    std::iter::from_fn(move || {
        let skipped = take(&mut bytes)?;
        let number = take(&mut bytes)?;
        let here = at.checked_add(usize::try_from(skipped).ok()?)?;
        at = here.checked_add(1)?;
        Some((here, number))
    })
}

/// Adds what is packed to numbers, of which those at the end may be missing.
pub(super) fn add(bytes: &[u8], to: &mut [u64]) {
    for (at, number) in unpack(bytes) {
        if let Some(to) = to.get_mut(at) {
            *to = to.saturating_add(number);
        }
    }
}

pub(super) fn put(mut number: u64, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// None at the end.
pub(super) fn take(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..u64::BITS).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back_and_zeros_take_nothing() {
        let mut numbers = vec![0_u64; 3_000];
        for (at, number) in [(0, 1), (1, 127), (200, 128), (2_999, u64::MAX)] {
            numbers[at] = number;
        }
        let mut bytes = Vec::new();
        pack(numbers.iter().copied(), &mut bytes);
        assert_eq!(bytes.len(), 2 + 2 + 4 + 12);
        let found: Vec<_> = unpack(&bytes).collect();
        assert_eq!(found, [(0, 1), (1, 127), (200, 128), (2_999, u64::MAX)]);
        let mut sum = vec![1; 3_000];
        add(&bytes, &mut sum);
        assert_eq!((sum[0], sum[2], sum[2_999]), (2, 1, u64::MAX));
        // Of a version with more numbers.
        let mut fewer = vec![0; 10];
        add(&bytes, &mut fewer);
        assert_eq!(fewer[..3], [1, 127, 0]);
    }

    #[test]
    fn what_is_cut_off_ends() {
        let mut bytes = Vec::new();
        pack([0, 0, 300, 70_000], &mut bytes);
        for len in 0..bytes.len() {
            assert!(unpack(&bytes[..len]).count() < 2, "{len}");
        }
        assert_eq!(unpack(&[0xff; 30]).count(), 0);
    }
}
