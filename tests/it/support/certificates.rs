//! Certificates of the tests' own authority.

use std::sync::LazyLock;

use rcgen::{
    BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose,
    date_time_ymd,
};

use super::unique;

/// The authority that the tests trust.
pub static TRUSTED: LazyLock<Authority> = LazyLock::new(Authority::new);

pub struct Authority {
    pub pem: String,
    issuer: Issuer<'static, KeyPair>,
}

/// A certificate and its key, in PEM.
#[derive(Clone, Debug)]
pub struct Identity {
    pub chain: String,
    pub key: String,
}

impl Authority {
    pub fn new() -> Self {
        let mut params = CertificateParams::default();
        // A certificate of another authority with the same name counts as forged.
        let name = unique("authority");
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let key = KeyPair::generate().expect("a key");
        Self {
            pem: params.self_signed(&key).expect("a certificate").pem(),
            issuer: Issuer::new(params, key),
        }
    }

    /// For a name or an address.
    pub fn issue(&self, host: &str) -> Identity {
        self.issue_with(host, |_| ())
    }

    pub fn issue_expired(&self, host: &str) -> Identity {
        self.issue_with(host, |params| {
            params.not_before = date_time_ymd(2000, 1, 1);
            params.not_after = date_time_ymd(2001, 1, 1);
        })
    }

    fn issue_with(&self, host: &str, change: impl FnOnce(&mut CertificateParams)) -> Identity {
        let mut params = CertificateParams::new([host.to_owned()]).expect("a host");
        params.distinguished_name.push(DnType::CommonName, host);
        change(&mut params);
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.issuer);
        Identity {
            chain: certificate.expect("a certificate").pem(),
            key: key.serialize_pem(),
        }
    }
}
