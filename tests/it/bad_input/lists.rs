//! Lists of servers: which ones `build` rejects, and which entry the error names.

use leasehold::{Error, LockClient, LockClientBuilder};

use super::{SECRET, assert_no_secret, setting};

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
fn an_empty_list_is_refused() {
    assert!(refused(&[]).contains("at least one"));
}

#[test]
fn an_invalid_url_is_named_by_its_position_in_the_list() {
    for bad in [
        "",
        "hunter2",
        "127.0.0.1:7002",
        "http://user:hunter2@127.0.0.1:7002",
        "redis://user:hunter2@127.0.0.1:hunter2",
        "redis://user:hunter2@127.0.0.1:7002/hunter2",
        "redis://user:hunter2@",
        "rediss://user:hunter2@127.0.0.1:7002#insecure",
    ] {
        let text = refused(&[GOOD, bad, "redis://user:hunter2@127.0.0.1:7003"]);
        assert!(text.contains("number 2 of 3"), "{bad}: {text}");
        assert!(!text.contains("unix"), "{text}");
    }
}

#[test]
fn a_unix_socket_in_a_list_is_refused() {
    let text = refused(&["redis+unix:///run/redis"]);
    assert!(text.contains("number 1 of 1"), "{text}");
    assert!(text.contains("a host and a port"), "{text}");
}

#[test]
fn servers_with_different_logins_or_databases_are_refused() {
    for other in [
        "redis://another:hunter2@127.0.0.1:7002",
        "redis://user:hunter22@127.0.0.1:7002",
        "redis://127.0.0.1:7002",
        "redis://user:hunter2@127.0.0.1:7002/1",
        "rediss://user:hunter2@127.0.0.1:7002",
    ] {
        let text = refused(&[GOOD, other]);
        assert!(text.contains("number 2 of 2, 127.0.0.1:7002"), "{text}");
        assert!(text.contains("the same scheme, user, password"), "{text}");
    }
}

#[test]
fn a_duplicate_server_is_refused() {
    let text = refused(&[GOOD, "redis://user:hunter2@127.0.0.1:7002", GOOD]);
    assert!(text.contains("number 3 of 3, 127.0.0.1:7001"), "{text}");
    assert!(text.contains("once"), "{text}");
    // 6379 is the default port.
    refused(&["redis://127.0.0.1", "redis://127.0.0.1:6379"]);
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
fn an_empty_master_name_is_refused() {
    let nameless = LockClient::builder_sentinel([GOOD], "").build();
    assert_eq!(setting(nameless), "master");
}

#[test]
fn tls_settings_require_a_list_with_tls() {
    for (_, builder) in both(&[GOOD]) {
        let error = builder.ca_certificates("rubbish").build().unwrap_err();
        assert!(matches!(
            error,
            Error::Config {
                field: "ca_certificates",
                ..
            }
        ));
    }
}

#[test]
fn debug_shows_no_password() {
    for (_, builder) in both(&[GOOD]) {
        let builder = builder.credentials(Some("user"), SECRET);
        let shown = format!("{builder:?} {:#?}", builder.clone().build().unwrap());
        assert!(!shown.contains(SECRET), "{shown}");
    }
}
