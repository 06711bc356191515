//! The configuration files of one node.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use crate::spec::{ClientTls, ClusterSpec, Partitioner};
use crate::state::{NodeState, State, node_dir};
use crate::tls::TlsFiles;

/// `cassandra.yaml` of `node`. Values are in flow form, one key per line; overrides in the spec
/// replace those defined here.
pub(crate) fn cassandra_yaml(state: &State, node: &NodeState, dir: &Path) -> String {
    let spec = &state.spec;
    let home = node_dir(dir, node.number);
    let folder = |name: &str| quote(&home.join(name).display().to_string());
    let seeds: Vec<String> = state
        .seeds_for(node.number)
        .iter()
        .map(|seed| format!("{seed}:{}", spec.storage_port))
        .collect();
    let mut keys: BTreeMap<&str, String> = BTreeMap::from([
        ("cluster_name", quote(&format!("helenus-{}", spec.name))),
        (
            "partitioner",
            format!("org.apache.cassandra.dht.{:?}", spec.partitioner),
        ),
        ("endpoint_snitch", "GossipingPropertyFileSnitch".into()),
        ("listen_address", node.address.to_string()),
        ("rpc_address", node.address.to_string()),
        ("storage_port", spec.storage_port.to_string()),
        ("native_transport_port", spec.native_port.to_string()),
        (
            "seed_provider",
            format!(
                "[{{class_name: org.apache.cassandra.locator.SimpleSeedProvider, parameters: [{{seeds: {}}}]}}]",
                quote(&seeds.join(","))
            ),
        ),
        ("auto_bootstrap", node.bootstrap.to_string()),
        ("num_tokens", spec.num_tokens.to_string()),
        ("data_file_directories", format!("[{}]", folder("data"))),
        ("commitlog_directory", folder("commitlog")),
        ("hints_directory", folder("hints")),
        ("saved_caches_directory", folder("saved_caches")),
        ("cdc_raw_directory", folder("cdc_raw")),
        ("commitlog_sync", "periodic".into()),
        ("commitlog_sync_period", "10000ms".into()),
        ("commitlog_segment_size", "16MiB".into()),
        ("auto_snapshot", "false".into()),
        ("hinted_handoff_enabled", "true".into()),
        ("materialized_views_enabled", "true".into()),
        ("user_defined_functions_enabled", "true".into()),
        ("internode_compression", "dc".into()),
    ]);
    if spec.relayed {
        let announced = state.announced_address(node).ip().to_string();
        keys.insert("broadcast_rpc_address", announced);
    }
    match &node.initial_token {
        Some(tokens) => {
            // Cassandra requires the two to agree.
            keys.insert("num_tokens", tokens.split(',').count().to_string());
            keys.insert("initial_token", quote(tokens));
        }
        // Allocates the tokens of a node added later by ownership rather than at random.
        None if spec.partitioner == Partitioner::Murmur3Partitioner => {
            keys.insert("allocate_tokens_for_local_replication_factor", "3".into());
        }
        None => {}
    }
    let (authenticator, authorizer) = if spec.auth {
        ("PasswordAuthenticator", "CassandraAuthorizer")
    } else {
        ("AllowAllAuthenticator", "AllowAllAuthorizer")
    };
    keys.insert("authenticator", authenticator.into());
    keys.insert("authorizer", authorizer.into());
    keys.insert("role_manager", "CassandraRoleManager".into());
    if spec.tls != ClientTls::Off {
        keys.insert("client_encryption_options", encryption(spec, dir));
    }
    for (key, value) in &spec.yaml {
        keys.insert(key, value.clone());
    }
    keys.iter().fold(String::new(), |mut text, (key, value)| {
        let _ = writeln!(text, "{key}: {value}");
        text
    })
}

fn encryption(spec: &ClusterSpec, dir: &Path) -> String {
    let files = TlsFiles::at(dir);
    let path = |path: &Path| quote(&path.display().to_string());
    format!(
        "{{enabled: true, optional: {}, require_client_auth: {}, \
         ssl_context_factory: {{class_name: org.apache.cassandra.security.PEMBasedSslContextFactory}}, \
         keystore: {}, truststore: {}}}",
        spec.tls == ClientTls::Optional,
        spec.tls == ClientTls::Mutual,
        path(&files.node_pem),
        path(&files.ca_pem),
    )
}

/// `cassandra-rackdc.properties` of `node`.
pub(crate) fn rackdc(node: &NodeState) -> String {
    format!("dc={}\nrack={}\n", node.place.dc, node.place.rack)
}

/// `logback.xml`: one log file per node, kept small.
pub(crate) fn logback(logs: &Path) -> String {
    let file = logs.join("system.log").display().to_string();
    let file = file
        .replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('"', "&quot;");
    format!(
        r#"<configuration>
  <appender name="FILE" class="ch.qos.logback.core.rolling.RollingFileAppender">
    <file>{file}</file>
    <rollingPolicy class="ch.qos.logback.core.rolling.FixedWindowRollingPolicy">
      <fileNamePattern>{file}.%i</fileNamePattern>
      <minIndex>1</minIndex>
      <maxIndex>2</maxIndex>
    </rollingPolicy>
    <triggeringPolicy class="ch.qos.logback.core.rolling.SizeBasedTriggeringPolicy">
      <maxFileSize>20MB</maxFileSize>
    </triggeringPolicy>
    <encoder>
      <pattern>%-5level [%thread] %date{{ISO8601}} %F:%L - %msg%n</pattern>
    </encoder>
  </appender>
  <root level="INFO">
    <appender-ref ref="FILE"/>
  </root>
</configuration>
"#
    )
}

/// A YAML double-quoted scalar.
fn quote(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    fn yaml(spec: ClusterSpec, number: usize) -> Vec<String> {
        let mut state = State::new(spec, [127, 0, 3]);
        for number in 1..=2_u16 {
            state.nodes.push(NodeState {
                number,
                address: Ipv4Addr::new(127, 0, 3, number as u8),
                jmx_port: 7200,
                place: state.spec.place_of(number),
                initial_token: (number == 1).then(|| "1,2".into()),
                bootstrap: number == 2,
                joined: true,
                process: None,
                cpu_cores: None,
                replaces: None,
            });
        }
        let node = state.nodes[number - 1].clone();
        cassandra_yaml(&state, &node, Path::new("/c \"x\""))
            .lines()
            .map(str::to_owned)
            .collect()
    }

    #[track_caller]
    fn check(lines: &[String], expected: &[&str]) {
        for line in expected {
            assert!(lines.iter().any(|l| l == line), "no {line:?} in {lines:#?}");
        }
    }

    #[test]
    fn a_second_node() {
        let lines = yaml(ClusterSpec::new("t").native_port(9999), 2);
        check(
            &lines,
            &[
                "cluster_name: \"helenus-t\"",
                "listen_address: 127.0.3.2",
                "native_transport_port: 9999",
                "auto_bootstrap: true",
                "commitlog_directory: \"/c \\\"x\\\"/node2/commitlog\"",
                "allocate_tokens_for_local_replication_factor: 3",
                "authenticator: AllowAllAuthenticator",
                "seed_provider: [{class_name: org.apache.cassandra.locator.SimpleSeedProvider, parameters: [{seeds: \"127.0.3.1:7000,127.0.3.2:7000\"}]}]",
            ],
        );
        assert!(!lines.iter().any(|l| l.starts_with("initial_token")));
        assert!(!lines.iter().any(|l| l.starts_with("client_encryption")));
    }

    #[test]
    fn a_relayed_node_announces_another_address() {
        let lines = yaml(ClusterSpec::new("t").relayed(), 2);
        check(
            &lines,
            &[
                "rpc_address: 127.0.3.2",
                "broadcast_rpc_address: 127.0.3.130",
            ],
        );
        let plain = yaml(ClusterSpec::new("t"), 2);
        assert!(!plain.iter().any(|l| l.starts_with("broadcast_rpc_address")));
    }

    #[test]
    fn explicit_tokens_are_counted() {
        let lines = yaml(ClusterSpec::new("t"), 1);
        check(&lines, &["initial_token: \"1,2\"", "num_tokens: 2"]);
        assert!(!lines.iter().any(|l| l.starts_with("allocate_tokens")));
    }

    #[test]
    fn options() {
        let spec = ClusterSpec::new("t")
            .auth(true)
            .tls(ClientTls::Mutual)
            .yaml("num_tokens", "7")
            .yaml("read_request_timeout", "9s");
        let lines = yaml(spec, 2);
        check(
            &lines,
            &[
                "authenticator: PasswordAuthenticator",
                "authorizer: CassandraAuthorizer",
                "num_tokens: 7",
                "read_request_timeout: 9s",
            ],
        );
        assert_eq!(
            lines.iter().filter(|l| l.starts_with("num_tokens")).count(),
            1
        );
        let tls = lines
            .iter()
            .find(|l| l.starts_with("client_encryption_options"))
            .expect("encryption");
        assert!(tls.contains("require_client_auth: true"), "{tls}");
    }

    #[test]
    fn rack_and_log_files() {
        let place = crate::spec::Place {
            dc: "d".into(),
            rack: "r".into(),
        };
        let node = NodeState {
            number: 1,
            address: Ipv4Addr::LOCALHOST,
            jmx_port: 1,
            place,
            initial_token: None,
            bootstrap: false,
            joined: false,
            process: None,
            cpu_cores: None,
            replaces: None,
        };
        assert_eq!(rackdc(&node), "dc=d\nrack=r\n");
        assert!(logback(Path::new("/a&b")).contains("<file>/a&amp;b/system.log</file>"));
    }
}
