//! Which versions of the protocol clients may speak, in the words of the protocol.

use helenus_wire::{Reader, Version, write};

use crate::snapshot::Snapshot;

/// SUPPORTED as the nodes say it, less the versions that the proxy does not speak.
pub(super) fn supported(snapshot: &Snapshot) -> Vec<u8> {
    let mut body = Vec::new();
    let told = snapshot.protocol().supported();
    let Ok(options) = Reader::new(told).string_multimap() else {
        return told.to_vec();
    };
    write::u16(&mut body, options.len() as u16);
    for (name, values) in options {
        write::string(&mut body, name);
        if name == "PROTOCOL_VERSIONS" {
            write::string_list(&mut body, &versions_up_to(snapshot.version()));
        } else {
            write::string_list(&mut body, &values);
        }
    }
    body
}

/// Cassandra's error for a client of another version.
pub(super) fn unsupported_version(number: u8, version_max: Version) -> String {
    let supported = versions_up_to(version_max).join(", ");
    format!(
        "Invalid or unsupported protocol version ({number}); supported versions are ({supported})"
    )
}

fn versions_up_to(version_max: Version) -> Vec<String> {
    (Version::V3 as u8..=version_max as u8)
        .map(|v| format!("{v}/v{v}"))
        .collect()
}
