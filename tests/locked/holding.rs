//! The lock is held during the whole body, by no other thread, and not longer.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::bounded;
use leasehold::{Error, LockClient, current_lock, locked};

use crate::servers::timing::{SOON, eventually, within};
use crate::shop::{Shop, assert_held_by_another, assert_not_held};

#[locked(client = locks, key = "order")]
fn at_once(locks: &LockClient, body: impl FnOnce()) -> leasehold::Result<u32> {
    body();
    Ok(7)
}

#[locked(client = locks, key = "order", wait = "100s")]
fn waits_long(locks: &LockClient) -> leasehold::Result<u32> {
    Ok(8)
}

#[locked(client = locks, key = "order", wait = "200ms")]
fn waits_briefly(locks: &LockClient) -> leasehold::Result<u32> {
    Ok(9)
}

#[locked(client = locks, key = "order", wait = "forever")]
fn waits_indefinitely(locks: &LockClient) -> leasehold::Result<u32> {
    Ok(10)
}

/// Runs `meanwhile` while another thread is in a body with the lock, until `meanwhile` calls what
/// it gets.
fn while_held(shop: &Shop, meanwhile: impl FnOnce(&dyn Fn())) {
    let (entered, is_in) = bounded(1);
    let (go_on, may_leave) = bounded(1);
    let stop = || {
        entered.send(()).expect("the test listens");
        let go_on = may_leave.recv_timeout(SOON.get());
        go_on.expect("the test lets it go on");
    };
    thread::scope(|scope| {
        let holder = scope.spawn(|| at_once(&shop.locks, stop));
        let is_in = is_in.recv_timeout(SOON.get());
        is_in.expect("the body is run");
        meanwhile(&|| go_on.send(()).expect("the body waits"));
        assert_eq!(holder.join().unwrap().unwrap(), 7);
    });
}

#[test]
fn other_clients_are_refused_at_once() {
    let shop = Shop::open();
    let other_client = shop.another_client();
    while_held(&shop, |let_it_go_on| {
        for locks in [&shop.locks, &other_client] {
            let refused = within(SOON.get(), "a refusal", || {
                at_once(locks, || {
                    panic!("this body runs at the same time as the other")
                })
            });
            assert_held_by_another(refused, "order");
        }
        let_it_go_on();
    });
    assert_eq!(at_once(&other_client, || ()).unwrap(), 7);
}

#[test]
fn a_waiter_gets_the_lock_when_it_is_free() {
    type Waiting = fn(&LockClient) -> leasehold::Result<u32>;
    for (waiting, result) in [(waits_long as Waiting, 8), (waits_indefinitely, 10)] {
        let shop = Shop::open();
        let other_client = shop.another_client();
        while_held(&shop, |let_it_go_on| {
            thread::scope(|scope| {
                let waiter = scope.spawn(|| waiting(&other_client));
                shop.await_waiter("order");
                assert!(!waiter.is_finished(), "the lock is held");
                let_it_go_on();
                assert_eq!(waiter.join().unwrap().unwrap(), result);
            });
        });
    }
}

#[test]
fn a_wait_ends_at_its_deadline() {
    let shop = Shop::open();
    let other_client = shop.another_client();
    while_held(&shop, |let_it_go_on| {
        let start = Instant::now();
        let refused = waits_briefly(&other_client);
        let took = start.elapsed();
        let Err(error @ Error::HeldByAnother { .. }) = refused else {
            panic!("{refused:?}");
        };
        let holder = shop.locks.inspect("order").unwrap().owner.unwrap();
        assert!(error.to_string().contains(&holder), "{error}");
        let Error::HeldByAnother { waited, owner, .. } = error else {
            unreachable!("it was matched");
        };
        assert_eq!(owner, Some(holder));
        let wait = Duration::from_millis(200);
        assert!(wait <= waited && waited <= took, "{waited:?} of {took:?}");
        assert!(took < SOON.get(), "{took:?}");
        let_it_go_on();
    });
}

#[derive(Debug)]
enum SettleError {
    Lock(Error),
    NoNumber,
    Empty,
}

impl From<Error> for SettleError {
    fn from(error: Error) -> Self {
        Self::Lock(error)
    }
}

impl From<std::num::ParseIntError> for SettleError {
    fn from(_: std::num::ParseIntError) -> Self {
        Self::NoNumber
    }
}

#[locked(client = &shop.locks, key = "order")]
fn settle(shop: &Shop, amount: &str) -> Result<u32, SettleError> {
    assert!(shop.has("order"));
    if amount.is_empty() {
        return Err(SettleError::Empty);
    }
    if amount == "all" {
        return Ok(100);
    }
    Ok(amount.parse::<u32>()? + 1)
}

#[test]
fn return_and_question_mark_end_the_body_and_release_the_lock() {
    let shop = Shop::open();
    for (amount, expected) in [
        ("6", "Ok(7)"),
        ("all", "Ok(100)"),
        ("", "Err(Empty)"),
        ("six", "Err(NoNumber)"),
    ] {
        assert_eq!(format!("{:?}", settle(&shop, amount)), expected);
        assert!(!shop.has("order"), "{amount}");
    }
}

#[test]
fn an_error_of_the_lock_is_an_error_of_the_function() {
    let shop = Shop::open();
    while_held(&shop, |let_it_go_on| {
        thread::scope(|scope| {
            let refused = scope.spawn(|| settle(&shop, "6")).join().unwrap();
            let lock = matches!(refused, Err(SettleError::Lock(Error::HeldByAnother { .. })));
            assert!(lock, "{refused:?}");
        });
        let_it_go_on();
    });
    let _: u32 = shop
        .server
        .ask(redis::cmd("SADD").arg("order").arg("no lock"));
    let refused = at_once(&shop.locks, || panic!("there is no lock"));
    assert!(
        matches!(refused, Err(Error::WrongType { .. })),
        "{refused:?}"
    );
}

#[test]
fn a_panic_releases_the_lock_and_continues() {
    let shop = Shop::open();
    let body = || panic!("in the body, on purpose");
    let panicked = catch_unwind(AssertUnwindSafe(|| at_once(&shop.locks, body))).unwrap_err();
    let message = panicked.downcast_ref::<&str>();
    assert_eq!(message, Some(&"in the body, on purpose"));
    assert!(!shop.has("order"));
    assert_not_held(current_lock().check());
    assert_eq!(at_once(&shop.locks, || ()).unwrap(), 7);
}

#[locked(client = locks, key = "upper")]
#[locked(client = locks, key = "lower")]
fn twice(locks: &LockClient, body: impl FnOnce()) -> leasehold::Result<u32> {
    body();
    Ok(7)
}

/// The upper attribute is expanded first, and so is within the lock of the lower one.
#[test]
fn of_two_attributes_the_lower_one_is_the_outer_lock() {
    let shop = Shop::open();
    let both = || {
        assert!(shop.has("upper") && shop.has("lower"));
        assert_eq!(current_lock().name(), "upper");
    };
    assert_eq!(twice(&shop.locks, both).unwrap(), 7);
    let other_client = shop.another_client();
    let alone = || panic!("this body runs at the same time as the other");
    let refused = |name| assert_held_by_another(twice(&other_client, alone), name);
    twice(&shop.locks, || refused("lower")).unwrap();
    let upper = shop.locks.reentrant_lock("upper").acquire().unwrap();
    refused("upper");
    upper.unlock().unwrap();
}

#[locked(client = shop.locks, key = "order", lease = "3s")]
fn renewed(shop: &Shop) -> leasehold::Result<()> {
    let mut least = shop.time_to_live("order");
    assert!(least <= 3_000, "{least}");
    eventually("a renewal", || {
        let left = shop.time_to_live("order");
        let renewed = left > least;
        least = left;
        renewed
    });
    current_lock().check()
}

#[test]
fn the_watchdog_renews_the_lease() {
    renewed(&Shop::open()).unwrap();
}

#[locked(client = shop.locks, key = "order", lease = "1500ms", fixed)]
fn fixed(shop: &Shop) -> leasehold::Result<()> {
    let mut least = 1_500;
    eventually("the end of the lease", || {
        let left = shop.time_to_live("order");
        assert!(left <= least, "{left} after {least} is a renewal");
        least = left;
        !shop.has("order")
    });
    Ok(())
}

#[test]
fn a_fixed_lease_is_not_renewed() {
    let lost = fixed(&Shop::open());
    assert!(matches!(lost, Err(Error::Lost { .. })), "{lost:?}");
}

/// Without `lease`, it is that of the client.
#[test]
fn the_default_lease_is_the_clients() {
    let shop = Shop::open();
    let builder = LockClient::builder(&shop.server.url());
    let locks = builder.watchdog_lease(Duration::from_secs(77)).build();
    let lease = || {
        let left = shop.time_to_live("order");
        assert!((60_000..=77_000).contains(&left), "{left}");
    };
    at_once(&locks.unwrap(), lease).unwrap();
}

#[locked(client = locks, key = "order", kind = fair)]
fn fairly(locks: &LockClient) -> leasehold::Result<u32> {
    Ok(7)
}

#[test]
fn a_fair_lock_is_not_acquired_before_a_client_that_waits() {
    let shop = Shop::open();
    let ask = |command: &mut redis::Cmd| shop.server.ask::<()>(command);
    let (queue, ends) = (
        "redisson_lock_queue:{order}",
        "redisson_lock_timeout:{order}",
    );
    // As a client of Redisson with five minutes from 2100 on.
    ask(redis::cmd("ZADD")
        .arg(ends)
        .arg(4_102_444_800_000_u64)
        .arg("java:1"));
    ask(redis::cmd("RPUSH").arg(queue).arg("java:1"));
    assert_held_by_another(fairly(&shop.locks), "order");
    ask(redis::cmd("DEL").arg(queue));
    assert_eq!(fairly(&shop.locks).unwrap(), 7);
}

#[locked(client = locks, key = "order", kind = read)]
fn read(locks: &LockClient, within: impl FnOnce()) -> leasehold::Result<u32> {
    within();
    Ok(7)
}

#[locked(client = locks, key = "order", kind = write)]
fn write(locks: &LockClient) -> leasehold::Result<u32> {
    Ok(8)
}

#[test]
fn readers_run_together_and_a_writer_alone() {
    let shop = Shop::open();
    let other = shop.another_client();
    let within = || {
        assert_eq!(read(&other, || ()).unwrap(), 7);
        assert_held_by_another(write(&other), "order");
    };
    assert_eq!(read(&shop.locks, within).unwrap(), 7);
    assert_eq!(write(&other).unwrap(), 8);
}
