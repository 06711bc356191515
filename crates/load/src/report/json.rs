//! Numbers of reports. JSON has no word for "not a number" or "infinite": these are written as null.

use serde::{Deserialize, Deserializer};
use std::collections::BTreeMap;

pub(crate) fn number<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    Ok(Option::<f64>::deserialize(from)?.unwrap_or(f64::NAN))
}

pub(crate) fn numbers<'de, D: Deserializer<'de>>(
    from: D,
) -> Result<BTreeMap<String, f64>, D::Error> {
    let values = BTreeMap::<String, Option<f64>>::deserialize(from)?;
    let values = values.into_iter();
    Ok(values
        .map(|(name, value)| (name, value.unwrap_or(f64::NAN)))
        .collect())
}
