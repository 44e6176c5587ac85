//! TLS settings that `build` rejects.

use super::trusting;
use crate::support::certificates::{Identity, TRUSTED};
use crate::support::prelude::*;

/// The setting that `build` rejects, and the error.
#[track_caller]
fn refused(builder: LockClientBuilder) -> (&'static str, String) {
    let error = builder.build().expect_err("it is no good");
    let text = error.to_string();
    match error {
        Error::Config { field, .. } => (field, text),
        other => panic!("{other:?}"),
    }
}

#[test]
fn invalid_certificates_and_keys_are_rejected_by_build() {
    let Identity { chain, key } = TRUSTED.issue("client");
    let (start, end) = chain.split_at(chain.len() / 2);
    let cut = format!("{start}!!{end}");
    for pem in ["", "rubbish", key.as_str(), start, cut.as_str()] {
        let trust = trusting("127.0.0.1:1").ca_certificates(pem);
        assert_eq!(refused(trust).0, "ca_certificates", "{pem}");
        let show = trusting("127.0.0.1:1").client_certificate(pem, key.as_str());
        assert_eq!(refused(show).0, "client_certificate", "{pem}");
    }
    // The second of two is invalid.
    let both = format!("{}{cut}", TRUSTED.pem);
    let trust = trusting("127.0.0.1:1").ca_certificates(both);
    assert_eq!(refused(trust).0, "ca_certificates");
    let others = TRUSTED.issue("client").key;
    let secret = key.lines().nth(1).unwrap();
    let (start, end) = key.split_at(key.len() / 2);
    let cut = format!("{start}!!{end}");
    let no_end_of_line = key.replacen("-----\n", "", 1);
    for pem in [
        "",
        "rubbish",
        chain.as_str(),
        start,
        &cut,
        &no_end_of_line,
        &others,
    ] {
        let show = trusting("127.0.0.1:1").client_certificate(chain.as_str(), pem);
        let (field, text) = refused(show);
        assert_eq!(field, "client_certificate", "{text}");
        assert!(!text.contains(secret), "{text}");
        // As a list of bytes, some formatting could print it.
        assert!(!text.contains("45, 45, 45"), "{text}");
    }
}

#[test]
fn tls_settings_without_tls_are_refused() {
    let Identity { chain, key } = TRUSTED.issue("client");
    for url in ["redis://127.0.0.1:1", "redis+unix:///tmp/none"] {
        let plain = || LockClient::builder(url);
        let trust = refused(plain().ca_certificates(TRUSTED.pem.as_str()));
        assert_eq!(trust.0, "ca_certificates");
        assert!(trust.1.contains("rediss://"), "{}", trust.1);
        let show = plain().client_certificate(chain.as_str(), key.as_str());
        assert_eq!(refused(show).0, "client_certificate");
    }
}
