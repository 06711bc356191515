//! Why a capture cannot be read.

use crate::limits::VERSION;

/// Why a file cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FormatError {
    #[error("this is no capture: `helenus capture FILE` makes one")]
    NoCapture,
    #[error("the file ends before the capture begins: was the disk full? Capture again")]
    Short,
    #[error(
        "this capture has format {0}, and this program reads formats 1 to {VERSION}: read it with the version of Helenus \
         that has made it, or a later one"
    )]
    OtherVersion(u8),
    #[error("the capture is damaged ({0}): copy it again, or capture again")]
    Malformed(&'static str),
    #[error(
        "this capture has more than 1 GiB of different statements: capture for a shorter time or with a smaller \
         --share"
    )]
    TooManyStatements,
    #[error("the capture cannot be read: {0}")]
    Io(#[from] std::io::Error),
}
