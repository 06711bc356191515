//! When the proxy's own certificates expire.

use std::path::{Path, PathBuf};

use x509_cert::Certificate;
use x509_cert::der::Decode;

use super::certificates;
use crate::config::Config;

/// When the first certificate of a chain expires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Expiry {
    /// The key that names the chain's file.
    pub setting: &'static str,
    /// Seconds since 1970.
    pub at_unix_s: u64,
}

/// Of all chains that the proxy shows to others. A file that cannot be read is left out: whoever loads
/// it reports that.
pub(crate) fn expiries(config: &Config) -> Vec<Expiry> {
    let to_clients = config.listen.tls.as_ref();
    let to_nodes = config.cluster.tls.as_ref();
    let files = [
        (
            "listen.tls.certificate",
            to_clients.map(|tls| &tls.certificate),
        ),
        (
            "cluster.tls.certificate",
            to_nodes.and_then(|tls| tls.certificate.as_ref()),
        ),
    ];
    let expiry = |(setting, path): (&'static str, Option<&PathBuf>)| {
        let at_unix_s = first_expiry(path?)?;
        Some(Expiry { setting, at_unix_s })
    };
    files.into_iter().filter_map(expiry).collect()
}

fn first_expiry(path: &Path) -> Option<u64> {
    let chain = certificates(path).ok()?;
    let each = chain.iter().filter_map(|der| {
        let certificate = Certificate::from_der(der).ok()?;
        let validity = certificate.tbs_certificate().validity();
        Some(validity.not_after.to_unix_duration().as_secs())
    });
    each.min()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pem(year: i32) -> String {
        let mut params =
            rcgen::CertificateParams::new(vec!["localhost".to_owned()]).expect("a name");
        params.not_after = rcgen::date_time_ymd(year, 2, 3);
        let key = rcgen::KeyPair::generate().expect("a key");
        params.self_signed(&key).expect("signed").pem()
    }

    #[test]
    fn the_first_certificate_of_a_chain_to_expire_counts() {
        let path = std::env::temp_dir().join(format!("helenus-chain-{}.pem", std::process::id()));
        let file = path.display();
        let text = format!("[listen.tls]\ncertificate = '{file}'\nkey = '{file}'\n");
        let config = crate::config::from_toml(&text).expect("settings");
        assert_eq!(expiries(&config), [], "no file");
        // 2049 is the last year that certificates write with two digits.
        for (years, at_unix_s) in [
            (&[2031][..], 1_927_843_200),
            (&[2055, 2049], 2_495_923_200),
            (&[2055], 2_685_225_600),
        ] {
            let chain: String = years.iter().map(|year| pem(*year)).collect();
            std::fs::write(&path, chain).expect("written");
            let setting = "listen.tls.certificate";
            assert_eq!(expiries(&config), [Expiry { setting, at_unix_s }]);
        }
        std::fs::write(&path, "no certificate").expect("written");
        assert_eq!(expiries(&config), []);
        std::fs::remove_file(&path).expect("removed");
    }
}
