//! Problems of settings, in words that say what to do.

use helenus_policy::choice::Policy;
use helenus_policy::schedule::Variant;

use crate::config::{
    Admin, Aggregation, Assignment, Cluster, Config, Limits, Links, Listen, Scheduling, Secret,
    rules,
};
use crate::session::login::authenticator::is_known;

/// Whoever has heard one exchange could find a shorter secret by trying.
pub const REPORTS_SECRET_BYTES_MIN: usize = 16;

/// Problems that were found.
#[derive(Default)]
struct Checks(Vec<String>);

impl Checks {
    fn that(&mut self, ok: bool, text: &str) {
        if !ok {
            self.0.push(text.to_owned());
        }
    }
}

impl Config {
    /// Problems of the settings, each with what to do about it.
    pub fn problems(&self) -> Vec<String> {
        let mut checks = Checks::default();
        self.listen.check(&mut checks);
        self.cluster.check(&mut checks);
        self.links.check(&mut checks);
        self.aggregation.check(&mut checks);
        self.scheduling.check(&mut checks);
        self.assignment.check(&mut checks);
        self.limits.check(&mut checks);
        self.admin.check(&mut checks);
        checks.0.extend(self.tracing.problems());
        checks.0.extend(rules::problems(&self.rules));
        let most_ms = self.limits.request_timeout_ms;
        checks
            .0
            .extend(rules::problems_of_times(&self.rules, most_ms));
        checks.0.extend(self.address_problems().map(str::to_owned));
        checks.0
    }

    /// Problems of addresses that are listened on: settings that they need and do not have.
    pub fn address_problems(&self) -> impl Iterator<Item = &'static str> {
        let open = self.admin.address.is_some_and(|a| !a.ip().is_loopback());
        let bare = open && !self.admin.has_token();
        let unknown = self.listen.address.ip().is_unspecified() && self.listen.advertise.is_none();
        [
            bare.then_some(
                "admin.address is not loopback: set admin.token or admin.token_file (or the same of \
                 read_token), or listen on 127.0.0.1",
            ),
            unknown.then_some(
                "listen.address is a wildcard: set listen.advertise to the address that drivers can \
                 reach",
            ),
        ]
        .into_iter()
        .flatten()
    }
}

impl Listen {
    fn check(&self, checks: &mut Checks) {
        let Some(name) = &self.proxies_dns else {
            return;
        };
        checks.that(
            self.proxies.is_empty(),
            "listen.proxies and listen.proxies_dns are both set: leave one out",
        );
        let parts = name.rsplit_once(':');
        checks.that(
            parts.is_some_and(|(host, port)| {
                !host.is_empty() && port.parse().is_ok_and(|port: u16| port != 0)
            }),
            "listen.proxies_dns must be a name and the proxies' port for clients, as host:port",
        );
    }
}

impl Cluster {
    fn check(&self, checks: &mut Checks) {
        checks.that(
            !self.contact_points.is_empty(),
            "cluster.contact_points is empty: name at least one node as host:port",
        );
        let has_password = self.password.is_some() || self.password_file.is_some();
        checks.that(
            self.username.is_some() == has_password,
            "cluster.username and cluster.password (or password_file) go together: set both or neither",
        );
        checks.that(
            self.password.is_none() || self.password_file.is_none(),
            "cluster.password and cluster.password_file are both set: leave one out",
        );
        checks.that(
            !self.authenticators.iter().any(|c| is_known(c)),
            "cluster.authenticators is for classes that Helenus does not know itself: take those of \
             org.apache.cassandra.auth out",
        );
        if let Some(tls) = &self.tls {
            checks.that(
                tls.certificate.is_some() == tls.key.is_some(),
                "cluster.tls.certificate and cluster.tls.key go together: set both or neither",
            );
        }
    }
}

impl Links {
    fn check(&self, checks: &mut Checks) {
        checks.that(
            (1..=30_000).contains(&self.in_flight_max),
            "links.in_flight_max must lie between 1 and 30000 (stream ids are 16 bits)",
        );
        checks.that(
            (16..=100_000).contains(&self.node_in_flight_max),
            "links.node_in_flight_max must lie between 16 and 100000",
        );
        checks.that(
            self.node_bytes_max >= 64 * 1024,
            "links.node_bytes_max must be at least 65536",
        );
        checks.that(self.per_node >= 1, "links.per_node must be at least 1");
        checks.that(
            matches!(self.protocol_max, 4 | 5),
            "links.protocol_max must be 4 or 5: Helenus speaks no other version to nodes",
        );
        checks.that(
            (100..=86_400_000).contains(&self.check_credentials_ms)
                && self.unchecked_credentials_max_ms >= self.check_credentials_ms,
            "links.check_credentials_ms must lie between 100 and 86400000, and \
             links.unchecked_credentials_max_ms must be at least as much",
        );
    }
}

impl Aggregation {
    fn check(&self, checks: &mut Checks) {
        checks.that(
            self.window_us <= 10_000,
            "aggregation.window_us must lie between 0 and 10000",
        );
        checks.that(
            (1..=10_000).contains(&self.latency_budget_us),
            "aggregation.latency_budget_us must lie between 1 and 10000",
        );
        checks.that(
            self.share_in_flight_max <= 1_000,
            "aggregation.share_in_flight_max must lie between 0 and 1000",
        );
        let names = self.merge_writes.iter();
        let mut wrong = names.filter(|name| {
            let parts: Vec<&str> = name.split('.').collect();
            let is_wrong =
                |part: &&str| part.trim() != *part || part.is_empty() || part.contains(['"', '*']);
            *name != "*" && (parts.len() > 2 || parts.iter().any(is_wrong))
        });
        if let Some(name) = wrong.next() {
            checks.0.push(format!(
                "aggregation.merge_writes has {name:?}: write a keyspace, a table as `keyspace.table`, or `*` for all, \
                 as in the schema and without quotes"
            ));
        }
        checks.that(
            self.lwt_wait_max_ms <= 10_000,
            "aggregation.lwt_wait_max_ms must lie between 0 and 10000",
        );
        checks.that(
            self.lwt_grace_ms <= 100,
            "aggregation.lwt_grace_ms must lie between 0 and 100",
        );
    }
}

impl Assignment {
    fn check(&self, checks: &mut Checks) {
        checks.that(
            self.policy.parse::<Policy>().is_ok(),
            "assignment.policy must be `earliest-finish`, `first`, `round-robin`, `token-aware`, \
             `resource-v1`, `resource-v2` or `c3`",
        );
        let weights = [self.memory_weight, self.disk_weight];
        checks.that(
            weights.iter().all(|weight| (0.0..=10.0).contains(weight)),
            "assignment.memory_weight and disk_weight must lie between 0 and 10",
        );
        checks.that(
            self.reports_port != 0,
            "assignment.reports_port must lie between 1 and 65535",
        );
        let secret = self.reports_secret.as_ref();
        checks.that(
            secret.is_none_or(|secret| secret.expose().len() >= REPORTS_SECRET_BYTES_MIN),
            "assignment.reports_secret must have at least 16 bytes: a shorter one could be found by trying",
        );
        checks.that(
            secret.is_none() || self.reports_secret_file.is_none(),
            "assignment.reports_secret and assignment.reports_secret_file are both set: leave one out",
        );
    }
}

impl Scheduling {
    fn check(&self, checks: &mut Checks) {
        let variant = self.variant.parse::<Variant>();
        checks.that(
            variant.is_ok(),
            "scheduling.variant must be `default`, `O`, `ReS`, `P`, `ReS+P`, `P+RaS` or `A`",
        );
        checks.that(
            (1..=1_000).contains(&self.window_min)
                && (self.window_min..=1_000).contains(&self.window_max),
            "scheduling.window_min and window_max must lie between 1 and 1000, the least first",
        );
        checks.that(
            (1..=64).contains(&self.scan_slots)
                && (self.scan_slots..=64).contains(&self.scan_slots_idle)
                && (self.scan_slots_idle..=64).contains(&self.scan_slots_max),
            "scheduling.scan_slots, scan_slots_idle and scan_slots_max must lie between 1 and 64, the \
             least first",
        );
        checks.that(
            self.piece_kib <= 65_536,
            "scheduling.piece_kib must lie between 0 and 65536",
        );
        checks.that(
            self.piece_ms <= 1_000,
            "scheduling.piece_ms must lie between 0 and 1000",
        );
        checks.that(
            self.parallel_rows == 0 || (8..=100_000).contains(&self.parallel_rows),
            "scheduling.parallel_rows must be 0 or lie between 8 and 100000",
        );
        for (key, ms) in [
            ("point_wait_max_ms", self.point_wait_max_ms),
            ("write_wait_max_ms", self.write_wait_max_ms),
            ("scan_wait_max_ms", self.scan_wait_max_ms),
            ("other_wait_max_ms", self.other_wait_max_ms),
        ] {
            if !(10..=600_000).contains(&ms) {
                checks.0.push(format!(
                    "scheduling.{key} is {ms}, and must lie between 10 and 600000"
                ));
            }
        }
        for (key, ms) in [
            ("standing_wait_max_ms", self.standing_wait_max_ms),
            ("standing_scan_wait_max_ms", self.standing_scan_wait_max_ms),
        ] {
            if ms != 0 && !(100..=600_000).contains(&ms) {
                checks.0.push(format!(
                    "scheduling.{key} is {ms}, and must be 0 or lie between 100 and 600000"
                ));
            }
        }
    }
}

impl Limits {
    fn check(&self, checks: &mut Checks) {
        checks.that(
            self.request_bytes_max <= 256 * 1024 * 1024 && self.request_bytes_max >= 1024,
            "limits.request_bytes_max must lie between 1 KiB and 256 MiB",
        );
        checks.that(
            (16..=4_096).contains(&self.special_links_max),
            "limits.special_links_max must lie between 16 and 4096",
        );
        checks.that(
            self.memory_max.is_none_or(|max| max >= 16 << 20),
            "limits.memory_max must be at least 16 MiB (16777216)",
        );
        checks.that(
            self.prepared_bytes_max >= 1 << 20 && self.statements_bytes_max >= 1 << 20,
            "limits.prepared_bytes_max and statements_bytes_max must be at least 1 MiB (1048576)",
        );
        checks.that(
            self.request_timeout_ms.is_none_or(|ms| ms >= 100),
            "limits.request_timeout_ms must be at least 100",
        );
        checks.that(
            self.page_timeout_ms >= 100,
            "limits.page_timeout_ms must be at least 100",
        );
        checks.that(
            self.logins_max >= 1 && self.identities_max >= 1,
            "limits.logins_max and limits.identities_max must be at least 1",
        );
    }
}

impl Admin {
    /// True if requests must carry a token, as soon as those of files are read.
    fn has_token(&self) -> bool {
        let files = [&self.token_file, &self.read_token_file];
        self.token.is_some() || self.read_token.is_some() || files.into_iter().any(Option::is_some)
    }

    fn check(&self, checks: &mut Checks) {
        let is_empty = |token: &Option<Secret>| {
            let token = token.as_ref();
            token.is_some_and(|token| token.expose().is_empty())
        };
        checks.that(
            !is_empty(&self.token),
            "admin.token is empty, so anybody would be let in: set a token, or leave the key out",
        );
        checks.that(
            !is_empty(&self.read_token),
            "admin.read_token is empty, so anybody would be let in: set a token, or leave the key out",
        );
        checks.that(
            self.read_token.is_none() || self.read_token_file.is_none(),
            "admin.read_token and admin.read_token_file are both set: leave one out",
        );
        checks.that(
            self.read_token.is_none() || self.read_token != self.token,
            "admin.read_token is the same as admin.token, and would not only read: choose another",
        );
        checks.that(
            self.token.is_none() || self.token_file.is_none(),
            "admin.token and admin.token_file are both set: leave one out",
        );
    }
}

#[cfg(test)]
mod tests;
