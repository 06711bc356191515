//! Addresses of proxies' admin servers, and how they are asked.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use hyper::body::Bytes;
use hyper::{Method, StatusCode, Uri};
use serde::de::DeserializeOwned;
use tokio::net::TcpStream;

use super::call::exchange;

const PATIENCE: Duration = Duration::from_secs(10);

/// A proxy's admin server: `http://HOST:PORT`, or the same without a scheme.
#[derive(Clone, Debug)]
pub struct AdminUrl {
    authority: String,
}

impl std::str::FromStr for AdminUrl {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<AdminUrl> {
        let usage = "write the address of a proxy's admin server: http://HOST:PORT";
        let uri: Uri = text.parse().with_context(|| format!("{text}: {usage}"))?;
        match uri.scheme_str() {
            None | Some("http") => {}
            Some("https") => bail!(
                "{text}: https is not supported here: use the admin server's own address, or a tunnel to it"
            ),
            Some(_) => bail!("{text}: {usage}"),
        }
        if !matches!(uri.path(), "" | "/") || uri.query().is_some() {
            bail!("{text}: {usage}, without a path");
        }
        let authority = uri.authority().filter(|at| at.port_u16().is_some());
        let authority = authority.with_context(|| format!("{text}: {usage}"))?;
        if authority.as_str().contains('@') {
            bail!("{text}: {usage}; a token belongs in the file of --admin-token-file");
        }
        Ok(AdminUrl {
            authority: authority.to_string(),
        })
    }
}

/// The token of a file.
pub fn token_of(path: &Path) -> Result<String> {
    let shown = path.display();
    let token = std::fs::read_to_string(path).with_context(|| format!("cannot read {shown}"))?;
    Ok(token.trim().to_owned())
}

impl AdminUrl {
    /// Host and port.
    pub fn authority(&self) -> &str {
        &self.authority
    }

    /// A proxy's answer at this path. `missing`: the error if it does not know it.
    pub async fn ask<T: DeserializeOwned>(
        &self,
        path: &str,
        token: Option<&str>,
        missing: &str,
    ) -> Result<T> {
        let at = &self.authority;
        let answer = tokio::time::timeout(PATIENCE, self.get(path, token)).await;
        let answer = answer.with_context(|| format!("{at} has not answered in {PATIENCE:?}"))?;
        let (status, body) = answer.with_context(|| format!("cannot ask http://{at}{path}"))?;
        let text = String::from_utf8_lossy(&body);
        match status {
            StatusCode::OK => serde_json::from_slice(&body)
                .with_context(|| format!("http://{at} does not answer as a proxy: {text}")),
            StatusCode::UNAUTHORIZED if token.is_some() => bail!(
                "{at} does not accept the token of --admin-token-file: {}",
                text.trim()
            ),
            StatusCode::UNAUTHORIZED => bail!(
                "{at} needs a token (admin.token or admin.read_token): give --admin-token-file. It says: {}",
                text.trim()
            ),
            StatusCode::NOT_FOUND => {
                bail!("{at} {missing}: is it the admin server of a proxy of this version?")
            }
            status => bail!("{at} answers {status}: {}", text.trim()),
        }
    }

    async fn get(&self, path: &str, token: Option<&str>) -> Result<(StatusCode, Bytes)> {
        let stream = TcpStream::connect(&self.authority).await?;
        exchange(stream, &self.authority, Method::GET, path, token).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_of_admin_servers_are_taken() {
        for good in [
            "http://127.0.0.1:9180",
            "http://proxy.internal:80/",
            "127.0.0.1:9180",
            "localhost:9180",
            "http://[::1]:9180",
        ] {
            let url: Result<AdminUrl> = good.parse();
            let url = url.unwrap_or_else(|e| panic!("{good}: {e:#}"));
            assert!(good.contains(&url.authority), "{url:?}");
        }
        for (bad, why) in [
            ("https://127.0.0.1:9180", "https is not supported"),
            ("http://127.0.0.1", "HOST:PORT"),
            ("http://127.0.0.1:9180/metrics", "without a path"),
            ("http://token@127.0.0.1:9180", "--admin-token-file"),
            ("ftp://127.0.0.1:21", "HOST:PORT"),
            ("", "HOST:PORT"),
        ] {
            let error = bad.parse::<AdminUrl>().expect_err(bad);
            assert!(format!("{error:#}").contains(why), "{bad}: {error:#}");
        }
    }
}
