//! The default client of a thread in tests.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;

use leasehold::testing::with_default_client;
use leasehold::{Error, LockClient, current_lock, locked};

#[locked(key = "order")]
fn settle(body: impl FnOnce()) -> leasehold::Result<()> {
    current_lock().check()?;
    body();
    Ok(())
}

fn client() -> LockClient {
    LockClient::in_memory().unwrap()
}

#[track_caller]
fn assert_no_client() {
    let refused = settle(|| panic!("there is no client"));
    assert!(matches!(refused, Err(Error::Config { .. })), "{refused:?}");
}

#[test]
fn each_thread_has_its_own_default_client_as_long_as_its_work_runs() {
    let (client, inner) = (client(), client());
    let acquisitions = || (client.stats().acquisitions, inner.stats().acquisitions);
    assert_no_client();
    with_default_client(&client, || {
        settle(|| assert!(client.reentrant_lock("order").is_locked().unwrap())).unwrap();
        assert_eq!(acquisitions(), (1, 0));
        with_default_client(&inner, || settle(|| ()).unwrap());
        assert_eq!(acquisitions(), (1, 1));
        settle(|| ()).unwrap();
        assert_eq!(acquisitions(), (2, 1));
        thread::scope(|scope| scope.spawn(assert_no_client).join().unwrap());
    });
    assert_no_client();
}

#[test]
fn a_panic_ends_the_replacement() {
    let client = client();
    let work = || with_default_client(&client, || settle(|| panic!("on purpose")));
    catch_unwind(AssertUnwindSafe(work)).unwrap_err();
    assert_no_client();
    assert!(!client.reentrant_lock("order").is_locked().unwrap());
}
