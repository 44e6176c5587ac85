//! The certificate authorities and the crypto provider of the system.

use std::path::Path;

use super::{server, works};
use crate::support::certificates::TRUSTED;
use crate::support::child::send_line;
use crate::support::prelude::*;

/// In a child, because variables and provider belong to a whole process.
pub fn trust_the_system(arguments: &[&str]) {
    let [address, provider] = arguments else {
        panic!("{arguments:?}")
    };
    let mut ring = rustls::crypto::ring::default_provider();
    if *provider == "useless" {
        ring.cipher_suites.clear();
    }
    if *provider != "none" {
        ring.install_default().expect("the first");
    }
    let builder = builder(&format!("rediss://{address}"));
    match builder.clone().build() {
        Ok(_) => {
            works(builder);
            send_line("works");
        }
        Err(error) => send_line(error),
    }
}

/// The result of a child whose system trusts the certificates in `file`.
fn with_a_system_of(file: &Path, provider: &str, server: &Server) -> String {
    let arguments = [&server.tls_address(), provider];
    let file = file.to_str().expect("a path").to_owned();
    let child = Process::start_in(
        "trust_the_system",
        &arguments,
        vec![("SSL_CERT_FILE", file), ("SSL_CERT_DIR", String::new())],
    );
    child.finish().concat()
}

#[test]
fn the_authorities_of_the_system_are_trusted() {
    let server = server();
    let file = tempfile::NamedTempFile::new().unwrap();
    let with = |text: &str, provider: &str| {
        std::fs::write(&file, text).unwrap();
        with_a_system_of(file.path(), provider, &server)
    };
    for provider in ["none", "ring"] {
        assert_eq!(with(&TRUSTED.pem, provider), "works", "{provider}");
    }
    // On real machines one of many certificates may be unreadable.
    let cut = TRUSTED.pem.replacen("MII", "", 1) + &TRUSTED.pem;
    assert_eq!(with(&cut, "none"), "works");
    let refused = with(&TRUSTED.pem, "useless");
    assert!(refused.contains("crypto provider"), "{refused}");
    let missing = with_a_system_of(Path::new("/nonexistent/ca.pem"), "none", &server);
    assert!(missing.contains("/nonexistent/ca.pem"), "{missing}");
    for said in [with("", "none"), with("rubbish", "none"), missing] {
        assert!(said.starts_with("ca_certificates is not set"), "{said}");
    }
}
