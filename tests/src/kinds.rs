//! Kinds of nodes that several suites use. What one of them needs harms no other, so they hand them on ([`crate::pool`]).

use helenus_cluster::{ClientTls, ClusterSpec};

use crate::{cassandra_version, ephemeral};

/// Schema changes are not flushed, so it must not be killed.
const UNFLUSHED: &str = "-Dcassandra.test.flush_local_schema_changes=false";

/// One node whose schema changes fast, and that speaks no TLS. Commands wait for as long as nodes may still carry out what they have been sent,
/// which is not long here.
pub fn brisk() -> ClusterSpec {
    ephemeral()
        .nodes(1)
        .yaml("native_transport_timeout", "2s")
        .yaml("truncate_request_timeout", "12s")
        .jvm_arg(UNFLUSHED)
}

/// One node that soon gives up, and takes no large messages.
pub fn impatient() -> ClusterSpec {
    ephemeral()
        .nodes(1)
        .tls(ClientTls::Optional)
        .yaml("native_transport_timeout", "2s")
        .yaml("read_request_timeout", "2s")
        .yaml("truncate_request_timeout", "6s")
        .yaml("range_request_timeout", "2s")
        .yaml("request_timeout", "2s")
        .yaml("native_transport_max_message_size", "256KiB")
}

/// One node that knows protocol version 4 only, and takes no large frames.
pub fn old() -> ClusterSpec {
    ephemeral()
        .nodes(1)
        .max_protocol_version(4)
        .yaml("native_transport_max_frame_size", "1MiB")
}

/// Two nodes that give slow replicas time, and mask columns if they can.
pub fn two() -> ClusterSpec {
    let spec = ephemeral()
        .nodes(2)
        .yaml("read_request_timeout", "20s")
        // A node that leaves waits for twice as long before it ends.
        .yaml("write_request_timeout", "8s")
        // A process that is starved of CPU is not dead.
        .yaml("phi_convict_threshold", "14");
    match can_mask() {
        true => spec.yaml("dynamic_data_masking_enabled", "true"),
        false => spec,
    }
}

/// Several nodes for which nothing takes too long, and whose schema changes fast.
pub fn patient(nodes: u16) -> ClusterSpec {
    let spec = ephemeral()
        .nodes(nodes)
        .tls(ClientTls::Optional)
        .jvm_arg(UNFLUSHED);
    let keys = [
        "read_request_timeout",
        "range_request_timeout",
        "write_request_timeout",
        "counter_write_request_timeout",
        "cas_contention_timeout",
        "truncate_request_timeout",
        "request_timeout",
        "native_transport_timeout",
    ];
    keys.iter().fold(spec, |spec, key| spec.yaml(*key, "60s"))
}

/// True if the nodes know masked columns.
pub fn can_mask() -> bool {
    !cassandra_version().starts_with("4.")
}
