//! The certificate authorities and the crypto provider of the system.

use std::path::Path;

use rustls::crypto::CryptoProvider;

use super::{server, works};
use crate::support::certificates::TRUSTED;
use crate::support::child::send_line;
use crate::support::prelude::*;

/// In a child, because variables and provider belong to a whole process.
pub fn trust_the_system(arguments: &[&str]) {
    let [address, provider] = arguments else {
        panic!("{arguments:?}")
    };
    let ring = rustls::crypto::ring::default_provider();
    let (suites, chosen) = match *provider {
        "none" => (Vec::new(), false),
        "ring" => (ring.cipher_suites.clone(), true),
        "useless" => (Vec::new(), true),
        other => panic!("{other}"),
    };
    let provider = CryptoProvider {
        cipher_suites: suites,
        ..ring
    };
    if chosen {
        provider.install_default().expect("the first");
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
    std::fs::write(&file, &TRUSTED.pem).unwrap();
    for provider in ["none", "ring"] {
        let said = with_a_system_of(file.path(), provider, &server);
        assert_eq!(said, "works", "provider: {provider}");
    }
    // On real machines one of many certificates may be unreadable.
    let cut = TRUSTED.pem.replacen("MII", "", 1);
    std::fs::write(&file, format!("{cut}{}", TRUSTED.pem)).unwrap();
    assert_eq!(with_a_system_of(file.path(), "none", &server), "works");
}

#[test]
fn a_system_without_authorities_is_rejected_by_build() {
    let server = server();
    let file = tempfile::NamedTempFile::new().unwrap();
    for text in ["", "rubbish"] {
        std::fs::write(&file, text).unwrap();
        let said = with_a_system_of(file.path(), "none", &server);
        assert!(said.starts_with("ca_certificates is not set"), "{said}");
    }
    let said = with_a_system_of(Path::new("/nonexistent/ca.pem"), "none", &server);
    assert!(said.starts_with("ca_certificates is not set"), "{said}");
    assert!(said.contains("/nonexistent/ca.pem"), "{said}");
}

#[test]
fn a_useless_provider_is_rejected_by_build() {
    let server = server();
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(&file, &TRUSTED.pem).unwrap();
    let said = with_a_system_of(file.path(), "useless", &server);
    assert!(
        said.starts_with("url is") && said.contains("crypto provider"),
        "{said}"
    );
}
