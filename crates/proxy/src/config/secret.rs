//! Settings that nobody should read by accident.

use std::borrow::Cow;
use std::fmt;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::{Deserializer, Error};
use serde::{Deserialize, Serialize, Serializer};

/// What is shown in place of a secret.
const REDACTED: &str = "<redacted>";

/// A password or token: shown to nobody, neither by `Debug` nor in settings that are printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// The text itself.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// The content of a file, less the line break at its end.
    pub fn of_file(path: &Path) -> Result<Secret> {
        let shown = path.display();
        let text = std::fs::read(path).with_context(|| format!("cannot read {shown}"))?;
        // The error of the conversion would hold the bytes.
        let Ok(text) = String::from_utf8(text) else {
            bail!("{shown} is not UTF-8 text");
        };
        let secret = text.strip_suffix('\n').unwrap_or(&text);
        let secret = secret.strip_suffix('\r').unwrap_or(secret);
        ensure!(!secret.is_empty(), "{shown} is empty");
        Ok(Secret(secret.to_owned()))
    }
}

impl From<String> for Secret {
    fn from(text: String) -> Secret {
        Secret(text)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(REDACTED)
    }
}

impl Serialize for Secret {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(REDACTED)
    }
}

impl<'de> Deserialize<'de> for Secret {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Secret, D::Error> {
        // An error about another type would quote the value.
        let Ok(text) = String::deserialize(deserializer) else {
            return Err(D::Error::custom("a secret must be a string, in quotes"));
        };
        if text == REDACTED {
            let why = format!("{REDACTED} stands where a secret was not printed: put it in again");
            return Err(D::Error::custom(why));
        }
        Ok(Secret(text))
    }
}

impl JsonSchema for Secret {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Secret".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        String::json_schema(generator)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_break_at_the_end_of_a_file_does_not_count() {
        let path = std::env::temp_dir().join(format!("helenus-secret-{}", std::process::id()));
        let read = |content: &[u8]| {
            std::fs::write(&path, content).expect("written");
            Secret::of_file(&path).map(|secret| secret.0)
        };
        for content in ["s3cret", "s3cret\n", "s3cret\r\n"] {
            assert_eq!(read(content.as_bytes()).expect(content), "s3cret");
        }
        assert_eq!(read(b" s3 cret \n\n").expect("text"), " s3 cret \n");
        for (content, why) in [
            (&b""[..], "empty"),
            (b"\n", "empty"),
            (b"s3cret\xFF", "UTF-8"),
        ] {
            let error = format!("{:#}", read(content).expect_err(why));
            assert!(error.contains(why) && !error.contains("s3cret"), "{error}");
        }
        std::fs::remove_file(&path).expect("removed");
        assert!(Secret::of_file(&path).is_err());
    }
}
