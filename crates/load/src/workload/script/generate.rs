//! Generators of values.
//!
//! | generator | draws |
//! |---|---|
//! | `uniform(a, b)` | a whole number from a to b, both included |
//! | `zipfian(a, b)` | the same range, exponent 0.99, popular numbers scattered |
//! | `gaussian(a, b)` | the same, most often in the middle: three standard deviations on each side |
//! | `lognormal(a, b)` | the same, the logarithm of the distance from a drawn as by `gaussian` |
//! | `exponential(a, b)` | the same, the smaller the more often: 95 % within the first 86 % of the range |
//! | `latest(a, b)` | the same, b most often, with Zipf's exponent 0.99 |
//! | `sequence(a)` | a, a + 1, …, shared by all clients |
//! | `float(a, b)` | a number from a to b |
//! | `text(n)`, `text(a, b)` | n, or from a to b, letters and digits |
//! | `blob(n)`, `blob(a, b)` | random bytes |
//! | `choice(x, y, …)` | one of numbers and 'strings' |
//! | `boolean()` | true or false |
//! | `uuid()`, `timeuuid()` | a random or a time-based UUID |
//! | `now()` | the current time |
//! | `timeseries(a, n)` | a, n milliseconds later, …, shared by all clients; a is milliseconds since 1970, or '2026-01-31' or '2026-01-31T12:00:00' in UTC |
//! | `recent(n)` | a past moment, n milliseconds ago in the mean, the more recent the more often |

use crate::client::CqlType;
use crate::workload::keys::Keys;
use anyhow::{Context, Result, bail, ensure};
use chrono::{NaiveDate, NaiveDateTime, NaiveTime};
use rand::{Rng, RngExt};
use rand_distr::{Distribution, Exp};
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// Longer texts and blobs are refused: Cassandra itself refuses requests beyond 16 MiB.
const LENGTH_MAX: i64 = 16 << 20;

#[derive(Debug)]
pub enum Generator {
    Uniform {
        from: i64,
        to: i64,
    },
    /// `from` plus the key.
    Skewed {
        from: i64,
        keys: Keys,
    },
    Sequence {
        next: AtomicI64,
    },
    Float {
        from: f64,
        to: f64,
    },
    Text {
        from: usize,
        to: usize,
    },
    Blob {
        from: usize,
        to: usize,
    },
    Choice(Vec<Value>),
    Boolean,
    Uuid,
    TimeUuid,
    Now,
    TimeSeries {
        next_ms: AtomicI64,
        step_ms: i64,
    },
    Recent {
        ago_ms: Exp<f64>,
    },
}

#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    Integer(i64),
    Float(f64),
    Text(String),
    Blob(Vec<u8>),
    Boolean(bool),
    Uuid([u8; 16]),
    TimeUuid([u8; 16]),
    /// Milliseconds since 1970.
    Timestamp(i64),
}

impl Generator {
    /// `arguments` are literals: whole numbers, numbers or strings.
    pub fn new(name: &str, arguments: Vec<Value>) -> Result<Self> {
        let count = arguments.len();
        let integer = |index: usize| match arguments.get(index) {
            Some(Value::Integer(value)) => Ok(*value),
            _ => bail!("{name} wants whole numbers"),
        };
        let float = |index: usize| match arguments.get(index) {
            Some(Value::Integer(value)) => Ok(*value as f64),
            Some(Value::Float(value)) => Ok(*value),
            _ => bail!("{name} wants numbers"),
        };
        let takes = |wanted: &[usize]| {
            let list: Vec<String> = wanted.iter().map(usize::to_string).collect();
            let list = list.join(" or ");
            ensure!(
                wanted.contains(&count),
                "{name} takes {list} arguments, not {count}"
            );
            Ok(())
        };
        let lengths = || -> Result<(usize, usize)> {
            takes(&[1, 2])?;
            let (from, to) = (integer(0)?, integer(count - 1)?);
            ensure!(
                0 <= from && from <= to && to <= LENGTH_MAX,
                "{name} wants lengths from 0 to {LENGTH_MAX}, the smaller first"
            );
            Ok((from as usize, to as usize))
        };
        Ok(match name {
            "uniform" | "zipfian" | "gaussian" | "lognormal" | "exponential" | "latest" => {
                takes(&[2])?;
                let (from, to) = (integer(0)?, integer(1)?);
                ensure!(
                    from <= to,
                    "{name}({from}, {to}): the smaller number comes first"
                );
                Self::of_range(name, from, to)
            }
            "sequence" => {
                takes(&[1])?;
                let next = AtomicI64::new(integer(0)?);
                Self::Sequence { next }
            }
            "float" => {
                takes(&[2])?;
                let (from, to) = (float(0)?, float(1)?);
                ensure!(
                    from <= to,
                    "{name}({from}, {to}): the smaller number comes first"
                );
                Self::Float { from, to }
            }
            "text" => lengths().map(|(from, to)| Self::Text { from, to })?,
            "blob" => lengths().map(|(from, to)| Self::Blob { from, to })?,
            "choice" => {
                ensure!(count > 0, "choice wants at least one argument");
                Self::Choice(arguments)
            }
            "boolean" | "uuid" | "timeuuid" | "now" => {
                takes(&[0])?;
                match name {
                    "boolean" => Self::Boolean,
                    "uuid" => Self::Uuid,
                    "timeuuid" => Self::TimeUuid,
                    _ => Self::Now,
                }
            }
            "timeseries" => {
                takes(&[2])?;
                let from_ms = match arguments.first() {
                    Some(Value::Text(text)) => moment_ms(text)?,
                    _ => integer(0)?,
                };
                let step_ms = integer(1)?;
                ensure!(step_ms > 0, "{name} wants a step of at least 1 ms");
                Self::TimeSeries {
                    next_ms: AtomicI64::new(from_ms),
                    step_ms,
                }
            }
            "recent" => {
                takes(&[1])?;
                let mean_ms = float(0)?;
                ensure!(
                    mean_ms > 0.0,
                    "{name} wants a mean above 0, in milliseconds"
                );
                let ago_ms = Exp::new(1.0 / mean_ms);
                Self::Recent {
                    ago_ms: ago_ms.with_context(|| format!("{name} wants a larger mean"))?,
                }
            }
            _ => bail!(
                "unknown generator {name}: there are uniform, zipfian, gaussian, lognormal, \
                 exponential, latest, sequence, float, text, blob, choice, boolean, uuid, timeuuid, \
                 now, timeseries and recent"
            ),
        })
    }

    /// Whole numbers from `from` to `to`, both included.
    fn of_range(distribution: &str, from: i64, to: i64) -> Self {
        let count = to.abs_diff(from).saturating_add(1);
        let keys = match distribution {
            "zipfian" => Keys::zipfian(count),
            "gaussian" => Keys::gaussian(count),
            "lognormal" => Keys::lognormal(count),
            "exponential" => Keys::exponential(count),
            "latest" => Keys::latest(count),
            _ => return Self::Uniform { from, to },
        };
        Self::Skewed { from, keys }
    }

    pub fn draw(&self, rng: &mut impl Rng) -> Value {
        match self {
            Self::Uniform { from, to } => Value::Integer(rng.random_range(*from..=*to)),
            Self::Skewed { from, keys } => {
                Value::Integer(from.wrapping_add_unsigned(keys.draw(rng)))
            }
            Self::Sequence { next } => Value::Integer(next.fetch_add(1, Ordering::Relaxed)),
            Self::Float { from, to } => Value::Float(from + (to - from) * rng.random::<f64>()),
            Self::Text { from, to } => {
                let length = rng.random_range(*from..=*to);
                let letter = |_| char::from(rng.sample(rand::distr::Alphanumeric));
                Value::Text((0..length).map(letter).collect())
            }
            Self::Blob { from, to } => {
                let mut bytes = vec![0; rng.random_range(*from..=*to)];
                rng.fill_bytes(&mut bytes);
                Value::Blob(bytes)
            }
            Self::Choice(values) => values[rng.random_range(0..values.len())].clone(),
            Self::Boolean => Value::Boolean(rng.random()),
            Self::Uuid => Value::Uuid(uuid(4, rng.random())),
            Self::TimeUuid => Value::TimeUuid(time_uuid(now_ms(), rng)),
            Self::Now => Value::Timestamp(now_ms()),
            Self::TimeSeries { next_ms, step_ms } => {
                Value::Timestamp(next_ms.fetch_add(*step_ms, Ordering::Relaxed))
            }
            Self::Recent { ago_ms } => {
                Value::Timestamp(now_ms().saturating_sub(ago_ms.sample(rng) as i64))
            }
        }
    }
}

impl Value {
    /// The value in the wire encoding of this type.
    pub fn encode(&self, kind: CqlType) -> Result<Vec<u8>> {
        let cell = match (self, kind) {
            (Self::Integer(value), _) => encode_integer(*value, kind)?,
            (Self::Float(value), CqlType::Double) => Some(value.to_be_bytes().to_vec()),
            (Self::Float(value), CqlType::Float) => Some((*value as f32).to_be_bytes().to_vec()),
            (Self::Text(value), CqlType::Text | CqlType::Blob) => Some(value.clone().into_bytes()),
            (Self::Blob(value), CqlType::Blob) => Some(value.clone()),
            (Self::Boolean(value), CqlType::Boolean) => Some(vec![u8::from(*value)]),
            (Self::Uuid(value), CqlType::Uuid) => Some(value.to_vec()),
            (Self::TimeUuid(value), CqlType::TimeUuid | CqlType::Uuid) => Some(value.to_vec()),
            (Self::Timestamp(value), CqlType::Timestamp | CqlType::BigInt) => {
                Some(value.to_be_bytes().to_vec())
            }
            // Days are counted from the middle of the unsigned range.
            (Self::Timestamp(value), CqlType::Date) => {
                let days = (1i64 << 31) + value.div_euclid(86_400_000);
                Some(u32::try_from(days)?.to_be_bytes().to_vec())
            }
            (Self::Timestamp(value), CqlType::Time) => {
                let nanoseconds = value.rem_euclid(86_400_000) * 1_000_000;
                Some(nanoseconds.to_be_bytes().to_vec())
            }
            _ => None,
        };
        cell.with_context(|| format!("{} cannot be converted to type {kind:?}", self.name()))
    }

    fn name(&self) -> &'static str {
        match self {
            Self::Integer(_) => "a whole number",
            Self::Float(_) => "a floating-point number",
            Self::Text(_) => "a text",
            Self::Blob(_) => "a blob",
            Self::Boolean(_) => "a boolean",
            Self::Uuid(_) => "a random UUID",
            Self::TimeUuid(_) => "a time-based UUID",
            Self::Timestamp(_) => "a point in time",
        }
    }
}

fn encode_integer(value: i64, kind: CqlType) -> Result<Option<Vec<u8>>> {
    let outside = || format!("{value} is outside of {kind:?}");
    Ok(Some(match kind {
        CqlType::TinyInt => i8::try_from(value)
            .with_context(outside)?
            .to_be_bytes()
            .to_vec(),
        CqlType::SmallInt => i16::try_from(value)
            .with_context(outside)?
            .to_be_bytes()
            .to_vec(),
        CqlType::Int => i32::try_from(value)
            .with_context(outside)?
            .to_be_bytes()
            .to_vec(),
        CqlType::BigInt | CqlType::Counter | CqlType::Timestamp | CqlType::Time => {
            value.to_be_bytes().to_vec()
        }
        CqlType::Date => {
            let days = u32::try_from((1i64 << 31).saturating_add(value)).with_context(outside)?;
            days.to_be_bytes().to_vec()
        }
        CqlType::Varint => shortest(value),
        CqlType::Float => (value as f32).to_be_bytes().to_vec(),
        CqlType::Double => (value as f64).to_be_bytes().to_vec(),
        CqlType::Text => value.to_string().into_bytes(),
        CqlType::Blob | CqlType::Boolean | CqlType::Uuid | CqlType::TimeUuid => return Ok(None),
    }))
}

/// Two's complement without the leading bytes that only repeat the sign.
fn shortest(value: i64) -> Vec<u8> {
    let bytes = value.to_be_bytes();
    let sign = if value < 0 { 0xFF } else { 0 };
    let spare = |index: &usize| bytes[*index] == sign && (bytes[index + 1] ^ sign) & 0x80 == 0;
    let from = (0..7).take_while(spare).count();
    bytes[from..].to_vec()
}

fn uuid(version: u8, mut bytes: [u8; 16]) -> [u8; 16] {
    bytes[6] = bytes[6] & 0x0F | version << 4;
    bytes[8] = bytes[8] & 0x3F | 0x80;
    bytes
}

/// 100 ns ticks since October 1582, with random digits below a millisecond; clock sequence and node
/// are random.
fn time_uuid(now_ms: i64, rng: &mut impl Rng) -> [u8; 16] {
    const FROM_1582_TO_1970: u64 = 0x01B2_1DD2_1381_4000;
    let below: u64 = rng.random_range(0..10_000);
    let ticks = FROM_1582_TO_1970.wrapping_add(now_ms as u64 * 10_000 + below);
    let mut bytes: [u8; 16] = rng.random();
    bytes[..4].copy_from_slice(&(ticks as u32).to_be_bytes());
    bytes[4..6].copy_from_slice(&((ticks >> 32) as u16).to_be_bytes());
    bytes[6..8].copy_from_slice(&((ticks >> 48) as u16).to_be_bytes());
    uuid(1, bytes)
}

/// Milliseconds since 1970 of a date or of a date and time, in UTC.
fn moment_ms(text: &str) -> Result<i64> {
    let plain = text.strip_suffix('Z').unwrap_or(text);
    let time = ["%Y-%m-%dT%H:%M:%S%.f", "%Y-%m-%d %H:%M:%S%.f"]
        .iter()
        .find_map(|format| NaiveDateTime::parse_from_str(plain, format).ok());
    let date = || {
        let date = NaiveDate::parse_from_str(plain, "%Y-%m-%d").ok()?;
        Some(date.and_time(NaiveTime::MIN))
    };
    let moment = time.or_else(date).with_context(|| {
        format!("'{text}' is no moment: write it as '2026-01-31' or '2026-01-31T12:00:00'")
    })?;
    Ok(moment.and_utc().timestamp_millis())
}

fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_millis() as i64)
}
