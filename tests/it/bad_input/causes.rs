//! An error states its cause exactly once, however it is printed.

use std::error::Error as StdError;
use std::iter::successors;

use super::{SECRET, assert_no_secret};
use crate::support::certificates::{Authority, TRUSTED};
use crate::support::prelude::*;
use crate::support::server::Port;

/// The texts of the error and of all its sources, as programs print that show the whole chain.
fn chain(error: &(dyn StdError + 'static)) -> Vec<String> {
    let errors = successors(Some(error), |&error| error.source());
    errors.map(ToString::to_string).collect()
}

/// The error of a call of this client, which fails.
fn failure(builder: LockClientBuilder) -> Error {
    let client = builder.command_timeout(millis(200)).build().unwrap();
    let lock = client.reentrant_lock("lock");
    lock.try_lock(Duration::ZERO, Lease::RENEWED)
        .expect_err("it fails")
}

/// The text of each source appears exactly once in the whole chain, and appears in the error
/// itself.
#[track_caller]
fn assert_stated_once(error: &Error) {
    assert_no_secret(error);
    // The runtime writes `Debug` of the error that `main` returns.
    assert_eq!(format!("{error:?}"), error.to_string());
    let (Error::Redis { cause, .. } | Error::Unavailable { cause, .. }) = error else {
        panic!("{error:?}")
    };
    let printed = chain(error).join(": ");
    for text in chain(&**cause) {
        assert_eq!(printed.matches(&text).count(), 1, "{text:?} in {printed:?}");
        assert!(error.to_string().contains(&text), "no {text:?} in {error}");
    }
}

#[test]
fn the_cause_of_a_failed_connection_is_stated_once() {
    let closed = Port::reserve();
    let address = format!("redis://:{SECRET}@127.0.0.1:{}", closed.number());
    for builder in [
        builder(&address),
        // A look-up that fails without a request to a name server.
        builder("redis://a..b"),
        LockClient::builder_sentinel([&address], "mymaster"),
        LockClient::builder_cluster([&address]),
        builder("redis+unix:///nonexistent/socket"),
    ] {
        let error = failure(builder);
        assert!(matches!(error, Error::Unavailable { .. }), "{error:?}");
        assert_stated_once(&error);
    }
    let invalid = LockClient::connect("redis://127.0.0.1:99999").expect_err("no such port");
    assert_eq!(chain(&invalid), [invalid.to_string()], "it has no source");
}

/// Programs can distinguish errors of Redis by type.
#[test]
fn the_cause_of_a_refusal_is_the_error_of_redis_and_stated_once() {
    let identity = TRUSTED.issue("127.0.0.1");
    let server = Server::options().password("right").tls(&identity).start();
    let address = server.address();
    server.run("ACL SETUSER worker on >hunter2 ~* +@all -hset");
    let wrong = format!("redis://:{SECRET}@{address}");
    let distrusting = builder(&format!("rediss://{}", server.tls_address()));
    for (builder, code) in [
        (builder(&wrong), Some("WRONGPASS")),
        (builder(&format!("redis://{address}")), Some("NOAUTH")),
        (builder(&format!("redis://worker:{SECRET}@{address}")), None),
        (LockClient::builder_sentinel([&wrong], "mymaster"), None),
        (LockClient::builder_cluster([&server.url()]), None),
        (distrusting.ca_certificates(Authority::new().pem), None),
    ] {
        let error = failure(builder);
        assert_stated_once(&error);
        let Error::Redis { cause, .. } = &error else {
            panic!("{error:?}")
        };
        if code.is_some() {
            let cause = cause.downcast_ref::<redis::RedisError>();
            assert_eq!(cause.and_then(redis::RedisError::code), code);
        }
    }
}
