//! What a client is made from: URLs with all schemes, settings of the `redis` crate.

use redis::io::tcp::TcpSettings;
use redis::{ConnectionAddr, ConnectionInfo, IntoConnectionInfo, RedisConnectionInfo};

use crate::support::prelude::*;

/// Both clients use one lock on one server.
#[track_caller]
fn assert_same_server(one: &LockClient, builder: LockClientBuilder) {
    let other = builder.build().unwrap();
    let guard = other.reentrant_lock("lock").acquire().unwrap();
    assert!(one.inspect("lock").unwrap().owner.is_some());
    guard.unlock().unwrap();
}

#[test]
fn every_scheme_reaches_the_server() {
    let server = Server::start();
    let client = LockClient::connect(&server.url()).unwrap();
    let (address, socket) = (server.address(), server.socket());
    let url = server.url();
    for url in &[url.as_str(), url.trim()] {
        assert_same_server(&client, LockClient::builder(url));
    }
    for url in [
        format!("redis://{address}"),
        format!("valkey://{address}/0"),
        format!("VALKEY://{address}"),
        format!("redis+unix://{}", socket.display()),
        format!("valkey+unix://{}", socket.display()),
        format!("unix:{}", socket.display()),
    ] {
        println!("{url}");
        assert_same_server(&client, LockClient::builder(&url));
    }
}

#[test]
fn the_settings_of_a_redis_client_are_reused() {
    let server = Server::options().password("sesam").start();
    let url = format!("{}/3", server.url());
    let client = LockClient::connect(&url).unwrap();
    let cache = redis::Client::open(url.as_str()).unwrap();
    let info: &ConnectionInfo = cache.get_connection_info();
    assert_same_server(&client, LockClient::builder(&cache));
    assert_same_server(&client, LockClient::builder(info));
    assert_same_server(&client, LockClient::builder(info.clone()));
    assert_same_server(&client, cache.into());
}

#[test]
fn settings_that_cannot_be_reused_are_refused() {
    let info = "redis://user:hunter2@h".into_connection_info().unwrap();
    let insecure = ConnectionAddr::TcpTls {
        host: "h".into(),
        port: 1,
        insecure: true,
        tls_params: None,
    };
    let tcp = |settings| info.clone().set_tcp_settings(settings);
    let redis = |settings| info.clone().set_redis_settings(settings);
    let (tcp_settings, settings) = (TcpSettings::default, RedisConnectionInfo::default);
    let linger = tcp_settings().set_linger_time(Duration::ZERO);
    let library = settings().set_lib_name("shop", "1");
    for (info, expected) in [
        (info.clone().set_addr(insecure), "insecure TLS"),
        (tcp(linger), "TCP settings"),
        (redis(library), "a library name or version"),
        (redis(settings().set_db(-1)), "a negative database"),
    ] {
        let error = LockClient::builder(info).build().unwrap_err();
        assert!(!format!("{error:?}").contains("hunter2"), "{error:?}");
        let text = error.to_string();
        assert!(text.contains(expected), "{text}");
    }
    // This client does the same in any case.
    let nodelay = tcp(tcp_settings().set_nodelay(true));
    LockClient::builder(nodelay).build().unwrap();
}
