//! The TLS port of a server, in addition to the plain port that the test itself uses.

use std::ffi::OsString;

use tempfile::TempDir;

use super::port::Port;
use super::{HOST, Identity, TRUSTED};

pub struct TlsPort {
    port: Port,
    /// The server's certificate, its key, and the authority that it trusts.
    files: TempDir,
    asks: bool,
}

impl TlsPort {
    pub fn new(identity: &Identity, asks: bool) -> Self {
        let files = tempfile::tempdir().expect("a directory");
        for (name, pem) in [
            ("chain", &identity.chain),
            ("key", &identity.key),
            ("authority", &TRUSTED.pem),
        ] {
            std::fs::write(files.path().join(name), pem).expect("our own directory");
        }
        Self {
            port: Port::reserve(),
            files,
            asks,
        }
    }

    pub fn arguments(&self) -> Vec<OsString> {
        let file = |name| self.files.path().join(name).into();
        let asks = if self.asks { "yes" } else { "no" };
        vec![
            "--tls-port".into(),
            self.port.number().to_string().into(),
            "--tls-auth-clients".into(),
            asks.into(),
            "--tls-cert-file".into(),
            file("chain"),
            "--tls-key-file".into(),
            file("key"),
            "--tls-ca-cert-file".into(),
            file("authority"),
        ]
    }

    pub fn address(&self) -> String {
        format!("{HOST}:{}", self.port.number())
    }
}
