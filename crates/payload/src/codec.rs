//! The ways of storing a document.

/// How a stored value is encoded. The numbers are part of the stored format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
#[non_exhaustive]
pub enum Codec {
    /// The text itself.
    Raw = 0,
    /// Smile, the binary JSON of Jackson, with shared names and short strings.
    Smile = 1,
    /// MessagePack.
    MessagePack = 2,
    /// CBOR (RFC 8949).
    Cbor = 3,
    /// Zstandard with a dictionary that was trained on the column.
    Zstd = 4,
    /// Field names, structure and frequent values are known from a sample; the rest is written in
    /// as few bits as the sample suggests.
    Shape = 5,
}

impl Codec {
    pub const ALL: [Codec; 6] = [
        Codec::Raw,
        Codec::Smile,
        Codec::MessagePack,
        Codec::Cbor,
        Codec::Zstd,
        Codec::Shape,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Codec::Raw => "raw",
            Codec::Smile => "smile",
            Codec::MessagePack => "messagepack",
            Codec::Cbor => "cbor",
            Codec::Zstd => "zstd",
            Codec::Shape => "shape",
        }
    }

    /// True if values can only be read with what was learned of the column.
    pub fn is_learned(self) -> bool {
        matches!(self, Codec::Zstd | Codec::Shape)
    }

    pub(crate) fn of_number(number: u8) -> Option<Codec> {
        Codec::ALL.into_iter().find(|codec| *codec as u8 == number)
    }
}

impl std::fmt::Display for Codec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}
