//! Settings that nobody should read by accident.

use std::fmt;

use serde::de::{Deserializer, Error};
use serde::{Deserialize, Serialize, Serializer};

/// The text that is shown in place of a secret.
const REDACTED: &str = "<redacted>";

/// A password or token: shown to nobody, neither by `Debug` nor in settings that are printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// The text itself.
    pub fn expose(&self) -> &str {
        &self.0
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

#[cfg(feature = "schema")]
impl schemars::JsonSchema for Secret {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Secret".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        String::json_schema(generator)
    }
}
