//! Options that name one endpoint, or two to compare.

use std::time::Duration;

use anyhow::{Result, bail, ensure};
use clap::Args;
use helenus_console::quantities::parse_time;
use helenus_load::client::endpoint::{Endpoint, Policy};

use crate::load::{Arm, parse_arm};
use crate::tls_args::TlsArgs;

#[derive(Args, Debug)]
pub(crate) struct EndpointArgs {
    /// Where to send, NAME=HOST:PORT[,HOST:PORT]; once, or twice to compare
    #[arg(long = "endpoint", required = true, value_parser = parse_arm, value_name = "NAME=HOST:PORT")]
    endpoints: Vec<Arm>,
    /// Role, if the cluster requires authentication; the password is read from HELENUS_LOAD_PASSWORD
    #[arg(long)]
    username: Option<String>,
    /// How long to wait for an answer
    #[arg(long, default_value = "30s", value_parser = parse_time, value_name = "TIME")]
    request_timeout: Duration,
    #[command(flatten)]
    tls: TlsArgs,
}

impl EndpointArgs {
    pub(crate) fn endpoints(&self) -> Result<Vec<Endpoint>> {
        let password = std::env::var("HELENUS_LOAD_PASSWORD");
        let credentials = match (&self.username, password) {
            (None, _) => None,
            (Some(user), Ok(password)) => Some((user.clone(), password)),
            (Some(_), Err(_)) => bail!("--username needs the password in HELENUS_LOAD_PASSWORD"),
        };
        ensure!(
            self.endpoints.len() <= 2,
            "give --endpoint once, or twice to compare"
        );
        if let [first, second] = &self.endpoints[..] {
            ensure!(
                first.name != second.name,
                "two endpoints are named {}",
                first.name
            );
        }
        ensure!(
            !self.request_timeout.is_zero(),
            "--request-timeout must be above 0"
        );
        let tls = self.tls.tls()?;
        let endpoints = self.endpoints.iter().map(|of| {
            let contact_points = of.contact_points.clone();
            let mut endpoint = Endpoint::new(of.name.clone(), contact_points, Policy::RoundRobin);
            endpoint.credentials.clone_from(&credentials);
            endpoint.request_timeout = self.request_timeout;
            endpoint.tls.clone_from(&tls);
            endpoint
        });
        Ok(endpoints.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Alone {
        #[command(flatten)]
        args: EndpointArgs,
    }

    fn endpoints(line: &str) -> Result<Vec<Endpoint>> {
        let words = std::iter::once("x").chain(line.split_whitespace());
        Alone::try_parse_from(words)?.args.endpoints()
    }

    #[test]
    fn there_are_one_or_two_endpoints_with_names_of_their_own() {
        let two = endpoints("--endpoint a=127.0.0.1:1 --endpoint b=127.0.0.1:2,127.0.0.1:3");
        let two = two.unwrap();
        assert_eq!((two.len(), two[1].contact_points.len()), (2, 2));
        for wrong in [
            "",
            "--endpoint a",
            "--endpoint a=h:1 --endpoint a=h:2",
            "--endpoint a=h:1 --endpoint b=h:2 --endpoint c=h:3",
            "--endpoint a=h:1 --request-timeout 0s",
            "--endpoint a=h:1 --tls-ca /nowhere/ca.pem",
            "--endpoint a=h:1 --tls-cert c --tls-key k",
        ] {
            assert!(endpoints(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn all_endpoints_are_encrypted_if_one_is() {
        let two = endpoints("--endpoint a=h:1 --endpoint b=h:2 --tls-insecure").unwrap();
        assert!(two.iter().all(|of| of.tls.is_some()));
        let plain = endpoints("--endpoint a=h:1").unwrap();
        assert!(plain[0].tls.is_none());
    }
}
