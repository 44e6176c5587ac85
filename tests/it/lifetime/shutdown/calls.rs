//! Calls that have sent a request when their client is shut down. Redis executes it, and the
//! connection breaks before the reply.

use leasehold::Result;

use super::is_shut_down;
use crate::support::prelude::*;

/// Makes `call`, whose request of `script` gets no reply. The client is shut down meanwhile, in
/// less time than the call takes. Then the connection is reset, and the shutdown completed.
#[track_caller]
fn shut_down_without_reply(
    proxied: &ProxiedServer,
    client: &LockClient,
    script: &'static str,
    call: impl FnOnce() -> Result<()> + Send,
) {
    let lost = proxied.fault_once(script, &Fault::SwallowReply);
    thread::scope(|scope| {
        let calling = scope.spawn(call);
        eventually("the request", || lost.load(Ordering::SeqCst));
        let short = millis(50);
        let result = within(short + SLIP.get(), "shutdown", || client.shutdown(short));
        assert_matches!(
            result,
            Err(Error::NotReleased { .. }),
            "the call is not over"
        );
        proxied.proxy.reset_all();
        let result = calling.join().unwrap();
        assert!(is_shut_down(&result), "{result:?}");
    });
    within(SOON.get() / 2, "shutdown", || client.shutdown(SOON.get())).unwrap();
}

/// A client for which nothing ends by itself within a test.
fn patient(proxied: &ProxiedServer) -> LockClient {
    let builder = proxied.builder(SOON.get());
    builder.watchdog_lease(SOON.get() * 6).build().unwrap()
}

#[test]
fn a_lock_is_released_although_the_shutdown_timed_out() {
    let proxied = ProxiedServer::new();
    let client = patient(&proxied);
    let lock = client.reentrant_lock("lock");
    shut_down_without_reply(&proxied, &client, "acquire", || lock.lock());
    assert_eq!(proxied.rival().inspect("lock").unwrap().owner, None);
}

#[test]
fn permits_without_a_lease_are_given_back() {
    let proxied = ProxiedServer::new();
    let slots = proxied.rival().semaphore("slots");
    slots.try_set_permits(3).unwrap();
    let client = patient(&proxied);
    let theirs = client.semaphore("slots");
    shut_down_without_reply(&proxied, &client, "take_permits", || theirs.acquire(2));
    assert_eq!(slots.available().unwrap(), 3);
}

#[test]
fn the_place_of_a_thread_that_begins_to_wait_on_a_condition_is_ended() {
    let proxied = ProxiedServer::new();
    let client = patient(&proxied);
    let lock = client.reentrant_lock("lock");
    shut_down_without_reply(&proxied, &client, "condition_wait", || {
        let _guard = lock.acquire()?;
        let _ = lock.condition("ready").wait();
        lock.lock()
    });
    let keys: Vec<String> = proxied.server.ask(redis::cmd("KEYS").arg("*"));
    let is_of_condition = |key: &&String| key.contains("ready");
    assert_eq!(keys.iter().find(is_of_condition), None);
}
