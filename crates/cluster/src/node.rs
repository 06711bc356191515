//! Starting one node, and reading its log when it does not start.

use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::agent;
use crate::class_archive;
use crate::error::{Context, Result, invalid};
use crate::java;
use crate::state::{NodeState, State, node_dir};
use crate::yaml;

/// JDK packages that Cassandra accesses; the list is from its own `jvm17-server.options`.
const EXPORTS: &[&str] = &[
    "java.base/jdk.internal.misc",
    "java.base/jdk.internal.ref",
    "java.base/sun.nio.ch",
    "java.base/java.lang.ref",
    "java.management.rmi/com.sun.jmx.remote.internal.rmi",
    "java.rmi/sun.rmi.registry",
    "java.rmi/sun.rmi.server",
    "java.sql/java.sql",
    "jdk.unsupported/sun.misc",
    "jdk.compiler/com.sun.tools.javac.file",
];
const OPENS: &[&str] = &[
    "java.base/java.lang",
    "java.base/java.lang.module",
    "java.base/java.lang.reflect",
    "java.base/java.io",
    "java.base/java.util",
    "java.base/java.util.concurrent",
    "java.base/java.util.concurrent.atomic",
    "java.base/java.nio",
    "java.base/sun.nio.ch",
    "java.base/jdk.internal.loader",
    "java.base/jdk.internal.ref",
    "java.base/jdk.internal.reflect",
    "java.base/jdk.internal.math",
    "java.base/jdk.internal.module",
    "java.base/jdk.internal.util.jar",
    "jdk.management/com.sun.management.internal",
];

/// Java for nodes that are to be fast.
const OPTIMIZING: [&str; 3] = [
    "-XX:+UseG1GC",
    "-XX:+ParallelRefProcEnabled",
    "-XX:MaxGCPauseMillis=300",
];
/// Java for nodes that are to start soon.
const LIGHT: [&str; 2] = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"];

const LINE_CHARS_MAX: usize = 300;

/// A main class that hides newer protocol versions; Java compiles it at startup.
const LIMIT_PROTOCOL: &str = include_str!("LimitProtocol.java");
const LIMIT_PROTOCOL_FILE: &str = "LimitProtocol.java";

/// Cassandra's tools print their results themselves; their log is noise.
const LOGBACK_TOOLS: &str = r#"<configuration>
  <appender name="STDERR" class="ch.qos.logback.core.ConsoleAppender">
    <target>System.err</target>
    <encoder><pattern>%-5level %msg%n</pattern></encoder>
  </appender>
  <root level="WARN"><appender-ref ref="STDERR"/></root>
</configuration>
"#;

/// The argument that marks every process of the cluster in `dir`; see [`crate::process`].
pub(crate) fn cluster_mark(dir: &Path) -> String {
    format!("-Dhelenus.cluster={}", dir.display())
}

fn node_mark(number: u16) -> String {
    format!("-Dhelenus.node={number}")
}

/// Writes the configuration of `node` and starts it.
pub(crate) fn spawn(state: &State, node: &NodeState, dir: &Path, lib: &Path) -> Result<Child> {
    // Without the class Cassandra would exit, and its log would not name the jar.
    if let Some(jar) = &state.spec.agent
        && !jar.is_file()
    {
        return Err(invalid(format!(
            "there is no {}, the agent's jar that this cluster was made with; build it again with \
             `mvn -q -B -f agent/pom.xml package`",
            jar.display()
        )));
    }
    let home = node_dir(dir, node.number);
    let (conf, logs, tmp) = (home.join("conf"), home.join("logs"), home.join("tmp"));
    let triggers = conf.join("triggers");
    for folder in [&conf, &logs, &tmp, &triggers] {
        fs::create_dir_all(folder).during("creating", folder)?;
    }
    for (name, text) in [
        ("cassandra.yaml", yaml::cassandra_yaml(state, node, dir)),
        ("cassandra-rackdc.properties", yaml::rackdc(node)),
        ("logback.xml", yaml::logback(&logs)),
        (LIMIT_PROTOCOL_FILE, LIMIT_PROTOCOL.to_owned()),
    ] {
        let path = conf.join(name);
        fs::write(&path, text).during("writing", &path)?;
    }
    if state.spec.agent.is_some() {
        agent::make_secret(dir)?;
    }
    let console_path = logs.join("console.log");
    let console = File::create(&console_path).during("creating", &console_path)?;
    let console_too = console.try_clone().during("opening", &console_path)?;
    let child = Command::new("java")
        .args(java_args(state, node, dir, lib))
        .current_dir(&home)
        .stdin(Stdio::null())
        .stdout(console)
        .stderr(console_too)
        // Ctrl-C at the terminal must reach only the caller, which then decides.
        .process_group(0)
        .spawn();
    child.map_err(java::missing)
}

/// A `java` command for one of Cassandra's own tools.
pub(crate) fn tool(lib: &Path, dir: &Path, main_class: &str) -> Result<Command> {
    let quiet = dir.join("logback-tools.xml");
    fs::write(&quiet, LOGBACK_TOOLS).during("writing", &quiet)?;
    let mut command = Command::new(java::of_tools()?);
    command
        .arg("-Xmx128m")
        .args(LIGHT)
        .args(class_archive::used(lib))
        .args(module_args())
        // Tools keep a history in the home folder; keep it with the cluster instead.
        .arg(format!("-Duser.home={}", dir.display()))
        .arg(format!("-Dlogback.configurationFile={}", quiet.display()))
        .arg("-cp")
        .arg(lib.join("*"))
        .arg(main_class)
        .stdin(Stdio::null());
    Ok(command)
}

fn module_args() -> impl Iterator<Item = String> {
    let exports = EXPORTS
        .iter()
        .map(|package| format!("--add-exports={package}=ALL-UNNAMED"));
    let opens = OPENS
        .iter()
        .map(|package| format!("--add-opens={package}=ALL-UNNAMED"));
    exports.chain(opens)
}

fn java_args(state: &State, node: &NodeState, dir: &Path, lib: &Path) -> Vec<String> {
    let spec = &state.spec;
    let home = node_dir(dir, node.number);
    let conf = home.join("conf");
    // System tables have up to three replicas, so that one dead node does not block logins.
    let replicas = spec.nodes.min(3);
    let mut args: Vec<String> = vec![
        cluster_mark(dir),
        node_mark(node.number),
        format!("-Xms{}m", spec.heap_mib),
        format!("-Xmx{}m", spec.heap_mib),
        format!("-XX:MaxDirectMemorySize={}m", spec.direct_mib),
        "-Xss512k".into(),
        "-ea".into(),
        "-XX:+ExitOnOutOfMemoryError".into(),
        "-XX:+PerfDisableSharedMem".into(),
        "-Djava.net.preferIPv4Stack=true".into(),
        "-Djava.security.manager=allow".into(),
        "-Djdk.attach.allowAttachSelf=true".into(),
        "-Dio.netty.tryReflectionSetAccessible=true".into(),
        format!("-Djava.io.tmpdir={}", home.join("tmp").display()),
        format!(
            "-Dcassandra.config=file://{}",
            conf.join("cassandra.yaml").display()
        ),
        format!("-Dcassandra.storagedir={}", home.display()),
        format!("-Dcassandra.logdir={}", home.join("logs").display()),
        format!(
            "-Dlogback.configurationFile={}",
            conf.join("logback.xml").display()
        ),
        format!(
            "-Dcassandra-rackdc.properties=file://{}",
            conf.join("cassandra-rackdc.properties").display()
        ),
        format!(
            "-Dcassandra.triggers_dir={}",
            conf.join("triggers").display()
        ),
        format!("-Dcassandra.jmx.local.port={}", node.jmx_port),
        format!("-Dcassandra.ring_delay_ms={}", ring_delay_ms(node)),
        "-Dcassandra.skip_wait_for_gossip_to_settle=0".into(),
        // Also the pause between attempts, so zero would fill the log while peers are missing.
        "-Dcassandra.superuser_setup_delay_ms=500".into(),
        "-Dcassandra.shutdown_announce_in_ms=200".into(),
        format!("-Dcassandra.system_auth.default_rf={replicas}"),
        format!("-Dcassandra.system_distributed.default_rf={replicas}"),
        format!("-Dcassandra.system_traces.default_rf={}", replicas.min(2)),
    ];
    if spec.short_lived {
        args.extend(LIGHT.map(String::from));
        args.extend(class_archive::used(lib));
    } else {
        args.extend(OPTIMIZING.map(String::from));
    }
    if let Some(dead) = node.replaces {
        // Only at its first start: it must not stand in the way of a restart.
        args.push(format!("-Dcassandra.replace_address_first_boot={dead}"));
    }
    args.extend(module_args());
    if let Some(jamm) = find_jamm(lib) {
        args.push(format!("-javaagent:{}", jamm.display()));
    }
    // First, and no folder: an archive of classes holds only for the jars that it was made of.
    let mut class_path = vec![lib.join("*").display().to_string()];
    if let Some(jar) = &spec.agent {
        args.push(agent::PROPERTY.into());
        args.push(agent::secret_option(dir));
        class_path.push(jar.display().to_string());
    }
    for agent in &spec.java_agents {
        args.push(format!("-javaagent:{agent}"));
        let jar = agent.split_once('=').map_or(agent.as_str(), |(jar, _)| jar);
        class_path.push(jar.to_owned());
    }
    class_path.extend(
        spec.class_path
            .iter()
            .map(|path| path.display().to_string()),
    );
    args.extend(spec.jvm_args.iter().cloned());
    args.push("-cp".into());
    args.push(class_path.join(":"));
    match spec.max_protocol_version {
        Some(version) => {
            args.push(conf.join(LIMIT_PROTOCOL_FILE).display().to_string());
            args.push(version.to_string());
        }
        None => args.push("org.apache.cassandra.service.CassandraDaemon".into()),
    }
    args
}

/// Cassandra's ring delay. A bootstrapping node sleeps this long, so for it the delay is short. Any
/// other node fails after twice the delay if no seed has responded. It asks every five seconds, and
/// on a busy machine a response takes a while, so its delay is longer.
fn ring_delay_ms(node: &NodeState) -> u32 {
    if node.bootstrap && !node.joined {
        2_000
    } else {
        5_000
    }
}

/// Messages of a node that fails because others were too slow or busy, and would succeed a little
/// later.
const TRANSIENT_FAILURES: &[&str] = &[
    "Unable to gossip with any peers",
    "Unable to contact any seeds",
    "Other bootstrapping/leaving/moving nodes detected",
    "Could not achieve schema readiness",
];

/// Why the node's last start failed, if the cause is transient. The console file is overwritten at
/// each start, so it cannot refer to an earlier one.
pub(crate) fn transient_failure(dir: &Path, number: u16) -> Option<&'static str> {
    let console = node_dir(dir, number).join("logs").join("console.log");
    let text = read_tail(&console, 64 * 1024);
    TRANSIENT_FAILURES
        .iter()
        .find(|words| text.contains(**words))
        .copied()
}

/// The memory meter (jamm), which Cassandra loads as a Java agent.
fn find_jamm(lib: &Path) -> Option<PathBuf> {
    fs::read_dir(lib).ok()?.find_map(|entry| {
        let path = entry.ok()?.path();
        path.file_name()?
            .to_str()?
            .starts_with("jamm-")
            .then_some(path)
    })
}

/// The last relevant lines of a node's log, and where to find the rest.
pub(crate) fn log_tail(dir: &Path, number: u16) -> String {
    let logs = node_dir(dir, number).join("logs");
    let mut text = String::new();
    for (name, lines_max) in [("system.log", 25), ("console.log", 15)] {
        let path = logs.join(name);
        let tail = read_tail(&path, 64 * 1024);
        let lines = relevant(&tail, lines_max);
        if !lines.is_empty() {
            text.push_str(&format!("--- {}\n{}\n", path.display(), lines.join("\n")));
        }
    }
    if text.is_empty() {
        text = format!("(nothing was logged in {})", logs.display());
    }
    text
}

/// Starts at the first error of the last start, if there is one; otherwise the end of the log. Long
/// lines are cut.
fn relevant(text: &str, lines_max: usize) -> Vec<String> {
    let lines: Vec<&str> = text.lines().collect();
    let started = lines
        .iter()
        .rposition(|line| line.contains("Configuration location:"))
        .unwrap_or(0);
    let lines = &lines[started..];
    let begin = lines
        .iter()
        .position(|line| line.starts_with("ERROR") || line.starts_with("Exception"))
        .unwrap_or(lines.len().saturating_sub(lines_max));
    lines[begin..]
        .iter()
        .take(lines_max)
        .map(|line| line.chars().take(LINE_CHARS_MAX).collect())
        .collect()
}

fn read_tail(path: &Path, bytes_max: u64) -> String {
    let read = || -> std::io::Result<Vec<u8>> {
        let mut file = File::open(path)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(bytes_max)))?;
        let mut bytes = Vec::new();
        file.take(bytes_max).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    String::from_utf8_lossy(&read().unwrap_or_default()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_come_first() {
        let text = "INFO a\nERROR b\n  at c\nINFO d\n";
        assert_eq!(relevant(text, 2), ["ERROR b", "  at c"]);
        assert_eq!(relevant("1\n2\n3", 2), ["2", "3"]);
        assert!(relevant("", 5).is_empty());
        let restarted = "ERROR old\nINFO Configuration location: x\nINFO a\nERROR new";
        assert_eq!(relevant(restarted, 5), ["ERROR new"]);
        let long = "x".repeat(LINE_CHARS_MAX + 1);
        assert_eq!(relevant(&long, 1)[0].len(), LINE_CHARS_MAX);
    }

    #[test]
    fn chance_is_told_from_mistakes() {
        let dir = tempfile::tempdir().expect("a folder");
        let logs = node_dir(dir.path(), 2).join("logs");
        fs::create_dir_all(&logs).expect("created");
        let judge = |text: &str| {
            fs::write(logs.join("console.log"), text).expect("written");
            transient_failure(dir.path(), 2)
        };
        let chance = "Exception (java.lang.RuntimeException) encountered during startup: \
                      Unable to gossip with any peers\n";
        assert_eq!(judge(chance), Some(TRANSIENT_FAILURES[0]));
        assert_eq!(judge("Exception: a wrong setting\n"), None);
        assert_eq!(transient_failure(dir.path(), 3), None);
    }

    #[test]
    fn a_node_without_logs_says_so() {
        let dir = tempfile::tempdir().expect("a folder");
        assert!(log_tail(dir.path(), 1).contains("nothing was logged"));
    }
}
