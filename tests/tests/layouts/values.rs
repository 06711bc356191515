//! A few values of each type, as literals, as JSON and as bytes. Few, so that rows meet each other.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Type {
    Int,
    Bigint,
    Smallint,
    Text,
    Blob,
    Boolean,
    Double,
    Decimal,
    Timestamp,
    Date,
    Uuid,
}

/// Values of each type.
pub(crate) const VALUES: usize = 6;

const NUMBERS: [i16; VALUES] = [-3, 0, 1, 2, 7, i16::MAX];
const TEXTS: [&str; VALUES] = ["", "a", "A", "é", "it's", "zz"];
const BLOBS: [&[u8]; VALUES] = [&[], &[0], &[0, 255], &[255], &[127], &[128, 0]];
const DOUBLES: [f64; VALUES] = [-1.5, 0.0, 0.1, 2.25, f64::INFINITY, 1e300];
/// `1.0` and `1.00` are the same value to Cassandra. Keys have only the first: of a key that was written
/// in both ways, a read shows either.
const DECIMALS: [(&str, i32, &[u8]); VALUES] = [
    ("-1.5", 1, &[0xF1]),
    ("0", 0, &[0]),
    ("1.0", 1, &[10]),
    ("2.5", 1, &[25]),
    ("1.00", 2, &[100]),
    ("1000", 0, &[3, 232]),
];
/// Sorted by version first.
const UUIDS: [u128; VALUES] = [
    0x550e8400_e29b_41d4_a716_446655440000,
    0x550e8400_e29b_41d4_a716_446655440001,
    0x00000000_0000_1000_8000_000000000000,
    0x00000001_0000_1000_8000_000000000000,
    0x00000000_0001_1000_8000_000000000000,
    0xffffffff_ffff_4fff_bfff_ffffffffffff,
];

impl Type {
    pub(crate) const ALL: [Type; 11] = [
        Type::Int,
        Type::Bigint,
        Type::Smallint,
        Type::Text,
        Type::Blob,
        Type::Boolean,
        Type::Double,
        Type::Decimal,
        Type::Timestamp,
        Type::Date,
        Type::Uuid,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Type::Int => "int",
            Type::Bigint => "bigint",
            Type::Smallint => "smallint",
            Type::Text => "text",
            Type::Blob => "blob",
            Type::Boolean => "boolean",
            Type::Double => "double",
            Type::Decimal => "decimal",
            Type::Timestamp => "timestamp",
            Type::Date => "date",
            Type::Uuid => "uuid",
        }
    }

    pub(crate) fn literal(self, at: usize) -> String {
        match self {
            Type::Int | Type::Bigint | Type::Smallint | Type::Timestamp => NUMBERS[at].to_string(),
            Type::Text => format!("'{}'", TEXTS[at].replace('\'', "''")),
            Type::Blob => hex(BLOBS[at]),
            Type::Boolean => at.is_multiple_of(2).to_string(),
            Type::Double if DOUBLES[at].is_infinite() => "Infinity".to_owned(),
            Type::Double => format!("{:e}", DOUBLES[at]),
            Type::Decimal => DECIMALS[at].0.to_owned(),
            Type::Date => format!("'1970-01-0{}'", at + 1),
            Type::Uuid => uuid(UUIDS[at]),
        }
    }

    pub(crate) fn json(self, at: usize) -> String {
        match self {
            Type::Text => format!("\"{}\"", TEXTS[at].replace('\'', "''")),
            Type::Date => self.literal(at).replace('\'', "\""),
            // A small integer is none that Cassandra takes there.
            Type::Timestamp => format!("\"1970-01-01 00:00:00.00{at}Z\""),
            Type::Blob | Type::Uuid => format!("\"{}\"", self.literal(at)),
            Type::Double if DOUBLES[at].is_infinite() => "\"Infinity\"".to_owned(),
            _ => self.literal(at),
        }
    }

    pub(crate) fn bytes(self, at: usize) -> Vec<u8> {
        match self {
            Type::Int => i32::from(NUMBERS[at]).to_be_bytes().to_vec(),
            Type::Bigint | Type::Timestamp => i64::from(NUMBERS[at]).to_be_bytes().to_vec(),
            Type::Smallint => NUMBERS[at].to_be_bytes().to_vec(),
            Type::Text => TEXTS[at].as_bytes().to_vec(),
            Type::Blob => BLOBS[at].to_vec(),
            Type::Boolean => vec![u8::from(at.is_multiple_of(2))],
            Type::Double => DOUBLES[at].to_be_bytes().to_vec(),
            Type::Decimal => {
                let (_, scale, digits) = DECIMALS[at];
                [&scale.to_be_bytes(), digits].concat()
            }
            Type::Date => ((1 << 31) + at as u32).to_be_bytes().to_vec(),
            Type::Uuid => UUIDS[at].to_be_bytes().to_vec(),
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("0x{digits}")
}

fn uuid(number: u128) -> String {
    let digits = format!("{number:032x}");
    let groups = [0..8, 8..12, 12..16, 16..20, 20..32];
    groups.map(|group| digits[group].to_owned()).join("-")
}
