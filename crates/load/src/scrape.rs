//! Scrapes a proxy's metrics page (Prometheus text format), before and after a phase.

use anyhow::{Context, Result, ensure};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

const SCRAPE_TIMEOUT: Duration = Duration::from_secs(5);
const PAGE_BYTES_MAX: u64 = 64 << 20;

/// All samples of one scrape, by name and labels.
#[derive(Clone, Debug, Default)]
pub struct Metrics(BTreeMap<(String, String), f64>);

impl Metrics {
    pub async fn of(admin: SocketAddr) -> Result<Self> {
        let page = timeout(SCRAPE_TIMEOUT, fetch(admin)).await;
        let page = page.with_context(|| format!("{admin} did not answer in time"))?;
        let page = page.with_context(|| format!("cannot read http://{admin}/metrics"))?;
        Ok(Self::parse(&page))
    }

    /// Lines that are not samples are skipped.
    pub fn parse(page: &str) -> Self {
        let sample = |line: &str| {
            let (series, value) = line.rsplit_once(' ')?;
            let (name, labels) = match series.split_once('{') {
                Some((name, labels)) => (name, labels.strip_suffix('}')?),
                None => (series, ""),
            };
            Some(((name.to_owned(), labels.to_owned()), value.parse().ok()?))
        };
        let lines = page.lines().filter(|line| !line.starts_with('#'));
        Self(lines.filter_map(sample).collect())
    }

    /// Sum over all labels; None if there is no such metric.
    pub fn sum(&self, name: &str) -> Option<f64> {
        let named = self.0.iter().filter(|((other, _), _)| other == name);
        named
            .map(|(_, value)| *value)
            .reduce(|sum, value| sum + value)
    }

    /// The sample with exactly these labels, as they are written.
    pub fn get(&self, name: &str, labels: &str) -> Option<f64> {
        self.0.get(&(name.to_owned(), labels.to_owned())).copied()
    }

    /// The increase since `before`.
    pub fn since(&self, before: &Metrics) -> Metrics {
        let added = |(key, value): (&(String, String), &f64)| {
            (key.clone(), value - before.0.get(key).unwrap_or(&0.0))
        };
        Metrics(self.0.iter().map(added).collect())
    }

    /// The histogram buckets of metrics whose name ends with `name_end`, summed over all other
    /// labels: upper bound and non-cumulative count, in ascending order.
    pub fn buckets(&self, name_end: &str) -> Vec<(f64, f64)> {
        let wanted = format!("{name_end}_bucket");
        let mut cumulative: Vec<(f64, f64)> = Vec::new();
        for ((name, labels), count) in &self.0 {
            let Some(bound) = label(labels, "le").filter(|_| name.ends_with(&wanted)) else {
                continue;
            };
            let bound = match bound {
                "+Inf" => f64::INFINITY,
                number => number.parse().unwrap_or(f64::NAN),
            };
            match cumulative.iter_mut().find(|(other, _)| *other == bound) {
                Some((_, sum)) => *sum += count,
                None => cumulative.push((bound, *count)),
            }
        }
        cumulative.sort_by(|left, right| left.0.total_cmp(&right.0));
        let mut below = 0.0;
        let alone = cumulative.into_iter().map(|(bound, count)| {
            let alone = count - below;
            below = count;
            (bound, alone)
        });
        alone.collect()
    }
}

/// The value of a label. Values with escaped quotes are not supported.
fn label<'a>(labels: &'a str, name: &str) -> Option<&'a str> {
    labels.split(',').find_map(|pair| {
        let (key, value) = pair.split_once('=')?;
        (key == name).then(|| value.trim_matches('"'))
    })
}

async fn fetch(admin: SocketAddr) -> Result<String> {
    let mut stream = TcpStream::connect(admin).await?;
    // HTTP/1.0, so that the response is not chunked.
    let request = format!("GET /metrics HTTP/1.0\r\nHost: {admin}\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream
        .take(PAGE_BYTES_MAX)
        .read_to_string(&mut answer)
        .await?;
    let (head, page) = answer
        .split_once("\r\n\r\n")
        .context("the answer has no head")?;
    let status = head.lines().next().unwrap_or_default();
    ensure!(status.contains(" 200"), "it answered {status:?}");
    Ok(page.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEFORE: &str = "# HELP a Things.\n# TYPE a counter\na{node=\"x\"} 5\nb 7\n";
    const AFTER: &str = "a{node=\"x\"} 8\na{node=\"y\"} 4\nb 7.5\nbroken\nalso broken\n\
        x_per_frame_bucket{node=\"x\",le=\"1\"} 10\nx_per_frame_bucket{node=\"x\",le=\"2\"} 15\n\
        x_per_frame_bucket{node=\"x\",le=\"+Inf\"} 15\nx_per_frame_bucket{node=\"y\",le=\"1\"} 1\n\
        x_per_frame_bucket{node=\"y\",le=\"2\"} 1\nx_per_frame_bucket{node=\"y\",le=\"+Inf\"} 3\n";

    #[test]
    fn counters_are_summed_over_labels_and_differences_taken() {
        let added = Metrics::parse(AFTER).since(&Metrics::parse(BEFORE));
        assert_eq!(added.sum("a"), Some(7.0));
        assert_eq!(added.sum("b"), Some(0.5));
        assert_eq!(added.sum("c"), None);
        assert_eq!(added.get("a", "node=\"x\""), Some(3.0));
        assert_eq!(added.get("a", ""), None);
    }

    #[test]
    fn buckets_are_no_longer_cumulative() {
        let buckets = Metrics::parse(AFTER).buckets("per_frame");
        assert_eq!(buckets, [(1.0, 11.0), (2.0, 5.0), (f64::INFINITY, 2.0)]);
        assert!(Metrics::parse(AFTER).buckets("nothing").is_empty());
    }

    #[tokio::test]
    async fn a_page_is_fetched_and_an_error_status_is_an_error() {
        for (answer, good) in [
            ("HTTP/1.0 200 OK\r\nA: b\r\n\r\na 1\n", true),
            ("HTTP/1.0 403 Forbidden\r\n\r\n", false),
            ("nonsense", false),
        ] {
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            tokio::spawn(async move {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut request = [0; 512];
                let got = stream.read(&mut request).await.unwrap();
                assert!(request[..got].starts_with(b"GET /metrics "));
                stream.write_all(answer.as_bytes()).await.unwrap();
            });
            let metrics = Metrics::of(address).await;
            assert_eq!(metrics.is_ok(), good, "{answer:?}: {metrics:?}");
            assert_eq!(metrics.unwrap_or_default().sum("a"), good.then_some(1.0));
        }
    }
}
