//! Servers that limit the number of arguments of a request, as ElastiCache Serverless does.

use leasehold::Hint;

use crate::support::prelude::*;

const LIMIT: usize = 3_999;

/// A server that refuses requests with more arguments, and a client of it.
fn limited() -> (ProxiedServer, LockClient) {
    let proxied = ProxiedServer::new();
    proxied
        .proxy
        .on_request(|request| match request.words.len() > LIMIT {
            true => Fault::ReplaceReply(b"-ERR too many parameters\r\n".into()),
            false => Fault::Pass,
        });
    let builder = proxied.builder(SOON.get()).watchdog_lease(SOON.get());
    let client = builder.build().unwrap();
    (proxied, client)
}

fn names(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("n{number}")).collect()
}

#[test]
fn many_names_are_locked_extended_and_released_within_the_limit() {
    let (proxied, client) = limited();
    let lock = client.multi_lock(names(3_980));
    let guard = lock.acquire().unwrap();
    assert_eq!(proxied.server.size(), 3_980);
    guard.extend(SOON.get() * 2).unwrap();
    guard.confirm().unwrap();
    guard.unlock().unwrap();
    assert_eq!(proxied.server.size(), 0);
}

/// All names are acquired by one request, which cannot be divided.
#[test]
fn too_many_names_for_one_request_are_refused_with_a_hint() {
    let (proxied, client) = limited();
    let error = client
        .multi_lock(names(4_000))
        .acquire()
        .map(drop)
        .unwrap_err();
    assert!(error.to_string().contains("3,999 arguments"), "{error}");
    let Error::Redis { hint, .. } = error else {
        panic!("{error}");
    };
    assert_eq!(hint.as_deref(), Some(&Hint::FewerNames));
    // The server has executed it all the same.
    eventually("nothing to be left", || proxied.server.size() == 0);
}
