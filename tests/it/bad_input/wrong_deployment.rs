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
fn error_at_once(builder: LockClientBuilder, name: &str) -> Error {
    let lock = quick(builder).reentrant_lock(name);
    let error = within(millis(TIMEOUT) * 2, "the refusal", || {
        lock.lock().expect_err("it is refused")
    });
    assert_no_secret(&error);
    error
}

/// A call must fail at once, and its error names this server and contains these words.
#[track_caller]
fn is_refused(builder: LockClientBuilder, server: &Server, words: &str) {
    let error = error_at_once(builder, "lock");
    let Error::Redis { node, .. } = &error else {
        panic!("{error:?}")
    };
    assert_eq!(*node, server.address());
    assert!(error.to_string().contains(words), "no {words:?}: {error}");
}

fn works(builder: LockClientBuilder) {
    pair(&quick(builder).reentrant_lock("lock"));
}

/// One working sentinel or server is enough, whatever the others are.
#[test]
fn one_working_server_of_a_list_is_enough() {
    let unanswering = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let (closed, plain, master) = (Port::reserve(), Server::start(), Server::start());
    let sentinel = sentinel_of(&master, None);
    let cluster = ClusterDeployment::shared();
    for bad in [
        format!("redis://127.0.0.1:{}", closed.number()),
        format!("redis://{}", unanswering.local_addr().unwrap()),
        plain.url(),
    ] {
        works(by_sentinels(&[bad.clone(), sentinel.url()]));
        let node = cluster.urls()[0].clone();
        works(LockClient::builder_cluster([bad, node]));
    }
}

/// `transport::hint` has the advice for each refusal.
#[test]
fn a_server_of_another_kind_is_reported_at_once() {
    let server = Server::start();
    let sentinel = sentinel_of(&server, None);
    let [of_server, of_sentinel] = [&server, &sentinel].map(Server::url);
    let by_server = by_sentinels(std::slice::from_ref(&of_server));
    is_refused(by_server, &server, "is not a sentinel");
    let one = LockClient::builder(&of_sentinel);
    is_refused(one, &sentinel, "builder_sentinel");
    let nodes = LockClient::builder_cluster([of_server.clone()]);
    is_refused(nodes, &server, "LockClient::builder ");
    let unknown = LockClient::builder_sentinel([of_sentinel], "hismaster");
    let error = error_at_once(unknown, "lock");
    assert!(error.to_string().contains("hismaster"), "{error}");
    assert_eq!(error.lock_name(), Some("lock"));
    assert_eq!(setting::<()>(Err(error)), "master");
    let (cluster, name) = (ClusterDeployment::shared(), "elsewhere");
    let other = cluster.another_primary(cluster.slot_of(name));
    let error = error_at_once(LockClient::builder(&other.url()), name);
    assert!(error.to_string().contains("builder_cluster"), "{error}");
    // The other sentinel may be back later, so the call retries until its deadline.
    let closed = format!("redis://127.0.0.1:{}", Port::reserve().number());
    let client = by_sentinels(&[of_server, closed]).build().unwrap();
    let error = client
        .reentrant_lock("mixed up")
        .try_acquire_now()
        .unwrap_err();
    assert!(matches!(error, Error::Unavailable { .. }), "{error}");
    assert!(error.to_string().contains("is not a sentinel"), "{error}");
}

/// The user does not know the address: it is in no URL.
#[test]
fn an_announced_address_that_cannot_be_reached_is_reported_with_its_source() {
    let closed = Port::reserve();
    let announced = format!("127.0.0.1:{} (announced for", closed.number());
    let port = closed.number().to_string();
    let (own, _bus) = Port::reserve_with_bus();
    let cluster = ["--cluster-enabled", "yes", "--cluster-announce-port", &port];
    let node = Server::options().port(own).arguments(&cluster).start();
    let slots: Vec<String> = (0..16_384).map(|slot| slot.to_string()).collect();
    node.run(&format!("CLUSTER ADDSLOTS {}", slots.join(" ")));
    eventually("the cluster", || {
        node.query::<String>("CLUSTER INFO")
            .contains("cluster_state:ok")
    });
    let sentinel =
        Server::options().sentinel(format!("sentinel monitor {MASTER} 127.0.0.1 {port} 1\n"));
    let sentinel = sentinel.start();
    for (builder, source) in [
        (LockClient::builder_cluster([node.url()]), node.address()),
        (by_sentinels(&[sentinel.url()]), sentinel.address()),
    ] {
        let client = builder.command_timeout(millis(200)).build().unwrap();
        let lock = client.reentrant_lock("lock");
        let error = lock.try_acquire_now().unwrap_err().to_string();
        for words in [&announced, &source] {
            assert!(error.contains(words), "no {words:?}: {error}");
        }
    }
}

#[test]
fn a_wrong_login_is_reported_at_once_with_the_setting_to_change() {
    let master = Server::options().password("right").start();
    let open = sentinel_of(&master, None);
    let closed = sentinel_of(&master, Some("theirs"));
    let url = |server: &Server, login: &str| format!("redis://{login}{}", server.address());
    let by = |sentinel: &Server, login: &str| by_sentinels(&[url(sentinel, login)]);
    works(by(&open, "").credentials(None, "right"));
    works(by(&closed, ":theirs@").credentials(Some("default"), "right"));
    // The URLs of sentinels carry the password of the sentinels.
    let credentials = "LockClientBuilder::credentials";
    let in_urls = "of the sentinels in their URLs";
    for (builder, at, words) in [
        (
            LockClient::builder(&url(&master, ":hunter2@")),
            &master,
            credentials,
        ),
        (
            by(&open, "").credentials(None, SECRET),
            &master,
            credentials,
        ),
        (by(&open, ""), &master, credentials),
        (by(&closed, ":hunter2@"), &closed, in_urls),
        (by(&closed, ""), &closed, in_urls),
        (by(&open, ":hunter2@"), &open, in_urls),
    ] {
        is_refused(builder, at, words);
    }
}
