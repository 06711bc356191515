//! Why a capture cannot be read.

use crate::limits::VERSION;

/// Why a file cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FormatError {
    #[error("this is no capture: `helenus capture FILE` makes one")]
    NoCapture,
    #[error("this capture has format {0}, and this program reads up to {VERSION}: use a newer one")]
    Newer(u8),
    #[error("the capture is damaged: {0}")]
    Malformed(&'static str),
    #[error("the capture cannot be read: {0}")]
    Io(#[from] std::io::Error),
}
