//! Several names, and permits in place of a lock.

use crossbeam_channel::bounded;
use leasehold::{Error, LockClient, current_lock, locked};

use crate::servers::timing::SOON;
use crate::shop::{Shop, assert_held_by_another};

#[locked(client = locks, prefix = "account", keys = ["{from}", "{to}"])]
fn transfer(locks: &LockClient, from: u32, to: u32, body: impl FnOnce()) -> leasehold::Result<()> {
    current_lock().check()?;
    body();
    Ok(())
}

#[locked(client = locks, key = "account:{account}")]
fn close(locks: &LockClient, account: u32) -> leasehold::Result<()> {
    Ok(())
}

#[test]
fn all_names_are_held_during_the_body() {
    let shop = Shop::open();
    let other_client = shop.another_client();
    let body = || {
        assert!(shop.has("account:7") && shop.has("account:4"));
        assert_eq!(current_lock().name(), "account:4, account:7");
        assert_held_by_another(close(&other_client, 4), "account:4");
        assert_held_by_another(close(&other_client, 7), "account:7");
        // Reentrant, also for one of them.
        close(&shop.locks, 7).unwrap();
        current_lock().extend(SOON.get() * 100).unwrap();
        assert!(
            shop.time_to_live("account:4")
                .min(shop.time_to_live("account:7"))
                > 500_000
        );
    };
    transfer(&shop.locks, 7, 4, body).unwrap();
    assert!(!shop.has("account:7") && !shop.has("account:4"));
}

#[test]
fn no_name_is_held_if_another_client_has_one() {
    let shop = Shop::open();
    let other = shop.another_client().reentrant_lock("account:4");
    let guard = other.acquire().unwrap();
    let refused = transfer(&shop.locks, 7, 4, || panic!("it has not all locks"));
    assert_held_by_another(refused, "account:7, account:4");
    assert!(!shop.has("account:7"));
    guard.unlock().unwrap();

    let twice = transfer(&shop.locks, 7, 7, || panic!("a name occurs twice"));
    assert!(
        matches!(twice, Err(Error::InvalidArgument { .. })),
        "{twice:?}"
    );
}

struct Mailer {
    locks: LockClient,
    limit: u32,
}

impl Mailer {
    #[locked(client = self.locks, key = "mail:{host}", permits = self.limit)]
    fn send(&self, host: &str, body: impl FnOnce()) -> leasehold::Result<()> {
        let permit = current_lock();
        assert_eq!(permit.name(), format!("mail:{host}"));
        permit.check()?;
        permit.confirm()?;
        let kept = permit.unlock_after(SOON.get());
        assert!(
            matches!(kept, Err(Error::InvalidArgument { .. })),
            "{kept:?}"
        );
        body();
        Ok(())
    }
}

#[test]
fn as_many_bodies_run_as_there_are_permits() {
    let shop = Shop::open();
    let mailer = Mailer {
        locks: shop.another_client(),
        limit: 2,
    };
    let (entered, is_in) = bounded(2);
    let (go_on, may_leave) = bounded(2);
    let stop = || {
        entered.send(()).unwrap();
        may_leave.recv_timeout(SOON.get()).unwrap();
    };
    std::thread::scope(|scope| {
        let senders = [(); 2].map(|()| scope.spawn(|| mailer.send("a", stop)));
        for _ in 0..2 {
            is_in.recv_timeout(SOON.get()).unwrap();
        }
        let refused = mailer.send("a", || panic!("two others have the permits"));
        assert_held_by_another(refused, "mail:a");
        mailer.send("b", || ()).unwrap();
        for sender in senders {
            go_on.send(()).unwrap();
            drop(sender);
        }
    });
    let semaphore = shop.locks.leased_semaphore("mail:a");
    assert_eq!(semaphore.available().unwrap(), 2, "all are released");
}

/// A nested call needs a permit of its own.
#[test]
fn permits_are_not_reentrant() {
    let shop = Shop::open();
    let mailer = Mailer {
        locks: shop.another_client(),
        limit: 1,
    };
    let nested = || assert_held_by_another(mailer.send("a", || ()), "mail:a");
    mailer.send("a", nested).unwrap();
}

#[test]
fn a_lost_permit_is_reported() {
    let shop = Shop::open();
    let mailer = Mailer {
        locks: shop.another_client(),
        limit: 1,
    };
    let lost = mailer.send("a", || {
        shop.delete("{mail:a}:timeout");
        assert!(matches!(current_lock().confirm(), Err(Error::Lost { .. })));
    });
    assert!(matches!(lost, Err(Error::Lost { .. })), "{lost:?}");
}
