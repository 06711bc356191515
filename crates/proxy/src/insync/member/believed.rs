//! Whether what was read of a list may be so, after what was read before.

use helenus_layout::insync::{self, BadList, Known, Proxies};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Told {
    /// Nothing that was not known.
    Known,
    News,
}

/// Renews the lease of a list if it still has the known version.
pub(super) fn renew<const N: usize>(
    known: &mut Known<N>,
    version: i64,
    sent_us: u64,
    now_us: u64,
) -> Told {
    let list = known.last_read().copied();
    match (list, u64::try_from(version)) {
        (Some(list), Ok(version)) if version == list.version() => {
            known.adopt(list, sent_us, now_us);
            Told::Known
        }
        // Overtaken by what is known; but not for longer than a lease.
        (Some(list), Ok(version))
            if version < list.version() && known.lease_left_us(now_us) > 0 =>
        {
            Told::Known
        }
        _ => Told::News,
    }
}

pub(super) fn checked<const N: usize>(
    known: Option<&insync::List<N>>,
    list: insync::List<N>,
) -> Result<insync::List<N>, BadList> {
    known.map_or(Ok(()), |known| insync::check_order(known, &list))?;
    Ok(list)
}

pub(super) fn not_before(floor: u64, list: Proxies) -> Result<Proxies, BadList> {
    let (before, now) = (floor, list.version());
    match now < before {
        true => Err(BadList::WentBack { before, now }),
        false => Ok(list),
    }
}
