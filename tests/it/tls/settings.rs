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
    // The second of two is invalid.
    let both = format!("{}{start}!!{end}", TRUSTED.pem);
    for pem in ["", "rubbish", &key, start, &both] {
        let trust = trusting("127.0.0.1:1").ca_certificates(pem);
        assert_eq!(refused(trust).0, "ca_certificates", "{pem}");
        let show = trusting("127.0.0.1:1").client_certificate(pem, key.as_str());
        assert_eq!(refused(show).0, "client_certificate", "{pem}");
    }
    let others = TRUSTED.issue("client").key;
    let secret = key.lines().nth(1).unwrap();
    let (start, _) = key.split_at(key.len() / 2);
    let no_end_of_line = key.replacen("-----\n", "", 1);
    for pem in ["", "rubbish", &chain, start, &no_end_of_line, &others] {
        let show = trusting("127.0.0.1:1").client_certificate(chain.as_str(), pem);
        let (field, text) = refused(show);
        assert_eq!(field, "client_certificate", "{text}");
        // As a list of bytes, some formatting could print it.
        assert!(
            !text.contains(secret) && !text.contains("45, 45, 45"),
            "{text}"
        );
    }
}

#[test]
fn tls_settings_without_tls_are_refused() {
    let plain = LockClient::builder("redis+unix:///tmp/none");
    let (field, text) = refused(plain.ca_certificates(TRUSTED.pem.as_str()));
    assert_eq!(field, "ca_certificates");
    assert!(text.contains("rediss://"), "{text}");
}
