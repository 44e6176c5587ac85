//! What a client is made from: URLs with all schemes, settings of the `redis` crate.

use redis::io::tcp::{TcpSettings, socket2};
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

fn info(address: ConnectionAddr) -> ConnectionInfo {
    let info = "redis://user:hunter2@h".into_connection_info().unwrap();
    info.set_addr(address)
}

#[test]
fn settings_that_cannot_be_reused_are_refused() {
    let plain = || info(ConnectionAddr::Tcp("h".into(), 1));
    let tcp = |settings| plain().set_tcp_settings(settings);
    let redis = |settings: RedisConnectionInfo| {
        plain().set_redis_settings(settings.set_password("hunter2"))
    };
    let defaults = RedisConnectionInfo::default;
    let keepalive = socket2::TcpKeepalive::new();
    for (info, expected) in [
        (
            info(ConnectionAddr::TcpTls {
                host: "h".into(),
                port: 1,
                insecure: true,
                tls_params: None,
            }),
            "insecure TLS",
        ),
        (
            tcp(TcpSettings::default().set_keepalive(keepalive)),
            "TCP settings",
        ),
        (
            tcp(TcpSettings::default().set_linger_time(Duration::ZERO)),
            "TCP settings",
        ),
        (
            redis(defaults().set_lib_name("shop", "1")),
            "a library name or version",
        ),
        (redis(defaults().set_db(-1)), "a negative database"),
    ] {
        let error = LockClient::builder(info).build().unwrap_err();
        let text = error.to_string();
        assert!(!format!("{error:?}{text}").contains("hunter2"), "{error:?}");
        match error {
            Error::Config { field, value, .. } => {
                assert_eq!((field, &*value), ("connection info", expected));
            }
            other => panic!("{other:?}"),
        }
    }
    // This client does the same in any case.
    let settings = tcp(TcpSettings::default().set_nodelay(true));
    LockClient::builder(settings).build().unwrap();
    let settings = redis(defaults().set_skip_set_lib_name());
    LockClient::builder(settings).build().unwrap();
}
