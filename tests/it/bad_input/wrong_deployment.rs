//! The wrong builder, port, name or password for the deployment. The first call reports it, at once
//! if retries cannot help, and says what to use instead.

use std::net::TcpListener;

use super::{SECRET, assert_no_secret, setting};
use crate::support::prelude::*;
use crate::support::server::Port;

const MASTER: &str = "mymaster";

/// `lock` retries for ten of these.
const TIMEOUT: u64 = 1_000;

fn quick(builder: LockClientBuilder) -> LockClient {
    let builder = builder.watchdog_lease(LEASE.get());
    let builder = builder.connect_timeout(millis(TIMEOUT));
    builder.command_timeout(millis(TIMEOUT)).build().unwrap()
}

fn by_sentinels(urls: &[String]) -> LockClientBuilder {
    LockClient::builder_sentinel(urls, MASTER)
}

/// One sentinel of this master.
fn sentinel_of(master: &Server, password: Option<&str>) -> Server {
    let options = Server::options().sentinel(format!(
        "sentinel monitor {MASTER} 127.0.0.1 {} 1\n",
        master.port()
    ));
    match password {
        Some(password) => options.password(password).start(),
        None => options.start(),
    }
}

/// The error of a call that must fail at once, without retries.
#[track_caller]
fn error_at_once(builder: LockClientBuilder) -> Error {
    error_at_once_for(builder, "lock")
}

#[track_caller]
fn error_at_once_for(builder: LockClientBuilder, name: &str) -> Error {
    let lock = quick(builder).reentrant_lock(name);
    let error = within(millis(TIMEOUT) * 2, "the refusal", || {
        lock.lock().expect_err("it is refused")
    });
    assert_no_secret(&error);
    error
}

/// The error of a call that must fail at once and name this server.
#[track_caller]
fn refusal(builder: LockClientBuilder, server: &Server) -> String {
    said_by(&error_at_once(builder), server)
}

#[track_caller]
fn said_by(error: &Error, server: &Server) -> String {
    let Error::Redis { node, .. } = error else {
        panic!("{error:?}")
    };
    assert_eq!(*node, server.address());
    error.to_string()
}

fn works(builder: LockClientBuilder) {
    take_and_release(&quick(builder).reentrant_lock("lock"));
}

/// A URL at which no server listens.
fn url_without_server(port: &Port) -> String {
    format!("redis://:{SECRET}@127.0.0.1:{}", port.number())
}

/// A listener that accepts connections and never replies.
fn listener_without_reply() -> (TcpListener, String) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let address = listener.local_addr().unwrap();
    (listener, format!("redis://:{SECRET}@{address}"))
}

/// One working sentinel or server is enough, whatever the others are.
#[test]
fn one_working_server_of_a_list_is_enough() {
    let (closed, (_listener, unanswering)) = (Port::reserve(), listener_without_reply());
    let plain = Server::start();
    let master = Server::start();
    let sentinel = sentinel_of(&master, None);
    let cluster = ClusterDeployment::shared();
    let without_login = |url: String| url.replace(&format!(":{SECRET}@"), "");
    let bad = [
        without_login(url_without_server(&closed)),
        without_login(unanswering),
        plain.url(),
    ];
    for bad in bad {
        works(by_sentinels(&[bad.clone(), sentinel.url()]));
        works(LockClient::builder_cluster([
            bad,
            cluster.urls()[0].clone(),
        ]));
    }
}

#[test]
fn a_server_of_another_kind_is_reported_at_once() {
    let server = Server::start();
    let sentinel = sentinel_of(&server, None);
    let says = |builder, at, words: &[&str]| {
        let text = refusal(builder, at);
        let all = words.iter().all(|word| text.contains(word));
        assert!(all, "not {words:?}: {text}");
    };
    let [by_name, by_cluster] = [&sentinel, &server].map(Server::url);
    let no_sentinel = &["is not a sentinel", "26379"];
    says(by_sentinels(&[server.url()]), &server, no_sentinel);
    let wants_sentinels = &["builder_sentinel"];
    says(LockClient::builder(&by_name), &sentinel, wants_sentinels);
    let no_node = &["does not belong to a cluster"];
    says(LockClient::builder_cluster([by_name]), &sentinel, no_node);
    let no_cluster = &["cluster support disabled", "LockClient::builder "];
    says(
        LockClient::builder_cluster([by_cluster]),
        &server,
        no_cluster,
    );
    let shared = SentinelDeployment::shared();
    let urls: Vec<String> = shared.servers().iter().map(Server::url).collect();
    let error = error_at_once(by_sentinels(&urls));
    assert!(error.to_string().contains("is not a sentinel"), "{error}");
    let unknown = LockClient::builder_sentinel(shared.sentinel_urls(), "hismaster");
    let error = error_at_once(unknown);
    assert!(error.to_string().contains("hismaster"), "{error}");
    assert_eq!(setting::<()>(Err(error)), "master");
    let (cluster, name) = (ClusterDeployment::shared(), "elsewhere");
    let other = cluster.another_primary(cluster.slot_of(name));
    let error = error_at_once_for(LockClient::builder(&other.url()), name);
    assert!(said_by(&error, other).contains("builder_cluster"));
    // The other sentinel may be back later, so the call retries until its deadline.
    let closed = format!("redis://127.0.0.1:{}", Port::reserve().number());
    let client = by_sentinels(&[server.url(), closed]).build().unwrap();
    let lock = client.reentrant_lock("mixed up");
    let error = lock.try_lock(Duration::ZERO, Lease::RENEWED).unwrap_err();
    assert!(matches!(error, Error::Unavailable { .. }), "{error}");
    assert!(error.to_string().contains("is not a sentinel"), "{error}");
}

/// The message names the settings of the library, not those of the command.
#[track_caller]
fn assert_names_the_login(text: &str) {
    for word in ["URL", "LockClientBuilder::credentials"] {
        assert!(text.contains(word), "no {word}: {text}");
    }
    assert!(!text.contains("LEASEHOLD"), "{text}");
}

#[test]
fn a_wrong_login_at_one_server_is_reported_with_the_setting_to_change() {
    let server = Server::options().password("right").start();
    for login in ["", ":hunter2@", "unknown:hunter2@"] {
        let url = format!("redis://{login}{}", server.address());
        assert_names_the_login(&refusal(LockClient::builder(&url), &server));
    }
    let url = format!("redis://{}", server.address());
    let builder = LockClient::builder(&url).credentials(None, SECRET);
    assert_names_the_login(&refusal(builder, &server));
    // The server has no password, and the client has one.
    let open = Server::start();
    let url = format!("redis://:{SECRET}@{}", open.address());
    let error = refusal(LockClient::builder(&url), &open);
    assert!(
        error.contains("the server has no password; leave"),
        "{error}"
    );
}

#[test]
fn a_wrong_login_at_the_master_or_the_sentinels_is_reported_at_once() {
    let master = Server::options().password("right").start();
    let open = sentinel_of(&master, None);
    let closed = sentinel_of(&master, Some("theirs"));
    let by = |sentinel: &Server, login: &str| {
        by_sentinels(&[format!("redis://{login}{}", sentinel.address())])
    };
    works(by(&open, "").credentials(None, "right"));
    works(by(&open, "").credentials(Some("default"), "right"));
    works(by(&closed, ":theirs@").credentials(None, "right"));
    for builder in [
        by(&open, ""),
        by(&open, "").credentials(None, SECRET),
        by(&open, "").credentials(Some("unknown"), "right"),
    ] {
        let text = refusal(builder, &master);
        assert!(text.contains("LockClientBuilder::credentials"), "{text}");
    }
    // The URLs of sentinels carry the password of the master.
    for (sentinel, login) in [
        (&open, ":hunter2@"),
        (&closed, ""),
        (&closed, ":hunter2@"),
        (&closed, "unknown:theirs@"),
    ] {
        let text = refusal(by(sentinel, login), sentinel);
        assert!(text.contains("of the sentinels in their URLs"), "{text}");
    }
}

#[test]
fn a_name_whose_keys_are_in_several_slots_is_refused_in_a_cluster() {
    let cluster = ClusterDeployment::shared();
    let client = quick(LockClient::builder_cluster(cluster.urls()));
    for name in ["a}b", "a{b", "{}x", "{a", "}{"] {
        let lock = client.reentrant_lock(name);
        let mut results = every_call(&lock);
        results.extend([
            ("fenced", client.fenced_lock(name).acquire().map(drop)),
            ("inspect", client.inspect(name).map(drop)),
            ("force_unlock", client.force_unlock(name).map(drop)),
        ]);
        for (call, result) in results {
            assert_eq!(setting(result), "name", "{call} of {name}");
        }
        assert_error!(lock.unlock(), NotHeld);
    }
    // Users put braces around a part of a name on purpose.
    take_and_release(&client.reentrant_lock("{a}b"));
}
