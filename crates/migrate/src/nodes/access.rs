//! Where the cluster is, and who asks: options, or a proxy's settings.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result, bail, ensure};
use async_trait::async_trait;
use clap::{ArgAction, Args};
use futures::future::join_all;
use helenus_console::settings::Settings;
use helenus_proxy::config::NodeTls;
use helenus_proxy::{Config, GivenBy, NodeAccess};
use scylla::client::session_builder::SessionBuilder;
use scylla::errors::TranslationError;
use scylla::policies::address_translator::{AddressTranslator, UntranslatedPeer};

use super::cluster::{Cluster, builder};

#[derive(Args, Clone, Debug, Default)]
pub struct Access {
    /// Settings file of a proxy: nodes (cluster.contact_points), role (cluster.username) and TLS (cluster.tls)
    /// are taken from there, unless they are given here
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Contact points of the cluster itself, not of proxies: host:port; comma-separated or repeated
    /// [default: 127.0.0.1:9042]
    #[arg(long = "contact", value_delimiter = ',', value_name = "HOST:PORT")]
    contact: Vec<String>,
    /// Role, if the cluster requires authentication
    #[arg(long, requires = "password_file")]
    user: Option<String>,
    /// File with the role's password
    #[arg(long, value_name = "FILE", requires = "user")]
    password_file: Option<PathBuf>,
    #[command(flatten)]
    tls: TlsArgs,
}

/// What `cluster.tls` is for a proxy; either all of it is given here or nothing.
#[derive(Args, Clone, Debug, Default)]
struct TlsArgs {
    /// Encrypt connections to the nodes, whose certificates an authority in this PEM file has signed
    #[arg(long, value_name = "FILE")]
    tls_ca: Option<PathBuf>,
    /// Certificate to show to nodes that ask for one, with its chain, as a PEM file
    #[arg(long, value_name = "FILE", requires_all = ["tls_ca", "tls_key"])]
    tls_cert: Option<PathBuf>,
    /// Its private key, as a PEM file
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Name in the nodes' certificates [default: the address of each node]
    #[arg(long, value_name = "NAME", requires = "tls_ca")]
    tls_server_name: Option<String>,
    /// Whether names in the nodes' certificates are checked; that the authority has signed them always is
    /// [default: true]
    #[arg(long, value_name = "BOOL", action = ArgAction::Set, requires = "tls_ca")]
    tls_verify_names: Option<bool>,
}

impl TlsArgs {
    fn settings(&self) -> Result<Option<NodeTls>> {
        ensure!(
            self.tls_server_name.is_none() || self.tls_verify_names != Some(false),
            "--tls-server-name says which name to check, and --tls-verify-names false to check none: leave one of them out"
        );
        Ok(self.tls_ca.as_ref().map(|ca| NodeTls {
            ca: ca.clone(),
            certificate: self.tls_cert.clone(),
            key: self.tls_key.clone(),
            server_name: self.tls_server_name.clone(),
            verify_names: self.tls_verify_names.unwrap_or(true),
        }))
    }
}

impl Access {
    /// To a cluster that requires no authentication.
    pub fn to(contact: Vec<String>) -> Access {
        Access {
            contact,
            ..Access::default()
        }
    }

    /// The options as they were given, each followed by its value.
    pub fn given(&self) -> Vec<String> {
        let path = |path: &Option<PathBuf>| path.as_ref().map(|path| path.display().to_string());
        let tls = &self.tls;
        let contact = (!self.contact.is_empty()).then(|| self.contact.join(","));
        let all = [
            ("--config", path(&self.config)),
            ("--contact", contact),
            ("--user", self.user.clone()),
            ("--password-file", path(&self.password_file)),
            ("--tls-ca", path(&tls.tls_ca)),
            ("--tls-cert", path(&tls.tls_cert)),
            ("--tls-key", path(&tls.tls_key)),
            ("--tls-server-name", tls.tls_server_name.clone()),
            (
                "--tls-verify-names",
                tls.tls_verify_names.map(|verify| verify.to_string()),
            ),
        ];
        let given = all.into_iter();
        let given = given.filter_map(|(option, value)| Some([option.to_owned(), value?]));
        given.flatten().collect()
    }

    pub async fn connect(&self) -> Result<Cluster> {
        let (config, by) = self.settings()?;
        let cluster = &config.cluster;
        let nodes = Arc::new(NodeAccess::new(&config, by)?);
        let points = cluster.contact_points.join(", ");
        let found = first_nodes(&nodes, &cluster.contact_points).await;
        let found = found.with_context(|| format!("cannot open a CQL session with {points}"))?;
        let mut builder: SessionBuilder = builder()
            .known_nodes_addr(found)
            .address_translator(Arc::new(Entrances(nodes.clone())));
        if let (Some(user), Some(password)) = (&cluster.username, &cluster.password) {
            builder = builder.user(user, password.expose());
        }
        let session = builder.build().await.with_context(|| {
            format!(
                "cannot open a CQL session with {points}: is it a node of the cluster, and does it need --user?"
            )
        })?;
        Cluster::of(session, cluster.username.clone(), nodes).await
    }

    /// The settings of a proxy that connects like this, and who has said how to encrypt.
    fn settings(&self) -> Result<(Config, GivenBy)> {
        let mut config = Config::default();
        let mut by = GivenBy::Options;
        if let Some(path) = &self.config {
            let given = Settings::of_file(path)?.load()?;
            config.cluster = given.cluster;
            config.links = given.links;
            by = GivenBy::Settings;
        }
        if !self.contact.is_empty() {
            config.cluster.contact_points = self.contact.clone();
        }
        if let Some(tls) = self.tls.settings()? {
            config.cluster.tls = Some(tls);
            by = GivenBy::Options;
        }
        if let (Some(user), Some(path)) = (&self.user, &self.password_file) {
            config.cluster.username = Some(user.clone());
            config.cluster.password = None;
            config.cluster.password_file = Some(path.clone());
        }
        let problems = config.problems();
        ensure!(problems.is_empty(), "{}", problems.join("; "));
        helenus_proxy::config::read_secrets(&mut config)?;
        Ok((config, by))
    }
}

/// Where the driver enters to the contact points that answer; an error says why none does.
async fn first_nodes(access: &NodeAccess, points: &[String]) -> Result<Vec<SocketAddr>> {
    let addresses = NodeAccess::addresses(points).await;
    ensure!(!addresses.is_empty(), "no address is known by this name");
    let tried = addresses.iter().map(|node| access.try_node(*node));
    let mut found = Vec::new();
    let mut problems = Vec::new();
    for (node, outcome) in addresses.iter().zip(join_all(tried).await) {
        match outcome {
            Ok(()) => found.push(access.entrance(*node)?),
            Err(e) => problems.push(format!("{node}: {e}")),
        }
    }
    if found.is_empty() {
        bail!("{}", problems.join("; "));
    }
    Ok(found)
}

/// Where the driver enters to nodes that it hears of.
struct Entrances(Arc<NodeAccess>);

#[async_trait]
impl AddressTranslator for Entrances {
    async fn translate_address(
        &self,
        peer: &UntranslatedPeer,
    ) -> Result<SocketAddr, TranslationError> {
        let entrance = self.0.entrance_heard(peer.untranslated_address());
        entrance.map_err(|e| TranslationError::IoError(Arc::new(e)))
    }
}

#[cfg(test)]
mod tests;
