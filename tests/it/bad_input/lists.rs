//! Lists of servers: which ones `build` rejects, and which entry the error names.

use super::{SECRET, assert_no_secret, setting};
use crate::support::prelude::*;

const GOOD: &str = "redis://user:hunter2@127.0.0.1:7001";

/// The error of `build` for a list, as sentinels and as servers of a cluster.
#[track_caller]
fn refused(urls: &[&str]) -> String {
    let [sentinels, nodes] = both(urls).map(|(field, builder)| {
        let error = builder.build().expect_err("no good list");
        assert_no_secret(&error);
        let text = error.to_string();
        assert_eq!(setting::<()>(Err(error)), field, "{text}");
        text.replacen(field, "", 1)
    });
    assert_eq!(sentinels, nodes);
    nodes
}

fn both(urls: &[&str]) -> [(&'static str, LockClientBuilder); 2] {
    let urls = || urls.iter().copied();
    [
        (
            "sentinels",
            LockClient::builder_sentinel(urls(), "mymaster"),
        ),
        ("nodes", LockClient::builder_cluster(urls())),
    ]
}

#[test]
fn a_bad_list_is_refused_and_the_error_names_the_entry() {
    const OTHER: &str = "redis://user:hunter2@127.0.0.1:7002";
    let differs = &[
        "number 2 of 2, 127.0.0.1:7002",
        "the same scheme, user, password",
    ];
    let again = &["number 3 of 3, 127.0.0.1:7001", "once"];
    let socket = &["number 1 of 1", "a host and a port"];
    for (urls, words) in [
        (&[][..], &["at least one"][..]),
        (&["redis+unix:///run/redis"], socket),
        (&[GOOD, "redis://another:hunter2@127.0.0.1:7002"], differs),
        (&[GOOD, "redis://user:hunter22@127.0.0.1:7002"], differs),
        (&[GOOD, "redis://127.0.0.1:7002"], differs),
        (&[GOOD, "redis://user:hunter2@127.0.0.1:7002/1"], differs),
        (&[GOOD, "rediss://user:hunter2@127.0.0.1:7002"], differs),
        (&[GOOD, OTHER, GOOD], again),
        // 6379 is the default port.
        (&["redis://127.0.0.1", "redis://127.0.0.1:6379"], &["once"]),
    ] {
        let text = refused(urls);
        for word in words {
            assert!(text.contains(word), "no {word:?}: {text}");
        }
    }
}

#[test]
fn a_database_is_refused_for_a_cluster_and_used_for_the_master() {
    for url in ["redis://127.0.0.1:7001/3", "redis://127.0.0.1:7001?db=3"] {
        let [(_, sentinel), (_, cluster)] = both(&[url]);
        sentinel.build().unwrap();
        let error = cluster.build().unwrap_err();
        assert!(error.to_string().contains("database 3"), "{error}");
        assert_eq!(setting::<()>(Err(error)), "nodes");
    }
}

#[test]
fn an_empty_master_name_and_tls_settings_without_tls_are_refused() {
    let nameless = LockClient::builder_sentinel([GOOD], "").build();
    assert_eq!(setting(nameless), "master");
    for (_, builder) in both(&[GOOD]) {
        let shown = builder.clone().credentials(Some("user"), SECRET);
        let shown = format!("{shown:?} {:#?}", shown.clone().build().unwrap());
        assert!(!shown.contains(SECRET), "{shown}");
        let authorities = builder.ca_certificates("rubbish").build();
        assert_error!(authorities, Config);
    }
}
