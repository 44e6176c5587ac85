//! What a client is made from: URLs with all schemes, settings of the `redis` crate.

use redis::io::tcp::{TcpSettings, socket2};
use redis::{ConnectionAddr, ConnectionInfo, IntoConnectionInfo, RedisConnectionInfo};

use crate::support::certificates::TRUSTED;
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

/// User, password and database after the `?` mean the same on a TCP URL as on that of a socket.
#[test]
fn the_parameters_of_a_url_are_used() {
    let server = Server::start();
    let user = "ACL SETUSER ann on >p&w ~* &* +@all";
    let () = server.ask(redis::Cmd::new().arg(user.split(' ').collect::<Vec<_>>()));
    let () = server.ask(redis::cmd("ACL").arg("SETUSER").arg("default").arg("-@all"));
    let parameters = "db=3&user=ann&pass=p%26w";
    let socket = server.socket();
    let client = LockClient::connect(&format!("unix:{}?{parameters}", socket.display())).unwrap();
    for url in [
        format!("redis://{}?{parameters}", server.address()),
        format!("valkey://ann@{}/3?pass=p%26w", server.address()),
    ] {
        println!("{url}");
        assert_same_server(&client, LockClient::builder(&url));
    }
}

#[test]
fn both_schemes_for_tls_reach_the_server() {
    let server = Server::options().tls(&TRUSTED.issue("127.0.0.1")).start();
    let client = LockClient::connect(&server.url()).unwrap();
    for scheme in ["rediss", "valkeys"] {
        let builder = LockClient::builder(&format!("{scheme}://{}", server.tls_address()));
        assert_same_server(&client, builder.ca_certificates(TRUSTED.pem.as_str()));
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
fn tls_of_a_redis_client_is_reused_without_its_certificates() {
    let server = Server::options().tls(&TRUSTED.issue("127.0.0.1")).start();
    let client = LockClient::connect(&server.url()).unwrap();
    let address = server.tls_address();
    let (host, port) = address.rsplit_once(':').unwrap();
    let address = ConnectionAddr::TcpTls {
        host: host.into(),
        port: port.parse().unwrap(),
        insecure: false,
        tls_params: None,
    };
    let info = "redis://h".into_connection_info().unwrap();
    let builder = LockClient::builder(info.set_addr(address));
    assert_same_server(&client, builder.ca_certificates(TRUSTED.pem.as_str()));
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
