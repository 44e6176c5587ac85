//! The password of the server changes, or the function that returns it fails: locks are kept, and
//! calls go on.

use parking_lot::{Condvar, Mutex};

use leasehold::{Cause, Credentials};

use crate::support::prelude::*;
use crate::support::{assert_matches, run};

const HELD: usize = 20;

/// The least time from one call of a provider to the next.
const APART: Duration = Duration::from_secs(1);

/// What the provider of a test does, and how often it was called.
#[derive(Clone, Default)]
struct Store(Arc<Inner>);

#[derive(Default)]
struct Inner {
    password: Mutex<String>,
    calls: AtomicU64,
    is_blocked: Mutex<bool>,
    released: Condvar,
}

impl Store {
    fn new(password: &str) -> Self {
        let store = Self::default();
        store.set(password);
        store
    }

    fn set(&self, password: &str) {
        *self.0.password.lock() = password.into();
    }

    fn calls(&self) -> u64 {
        self.0.calls.load(Ordering::SeqCst)
    }

    fn block(&self, blocks: bool) {
        *self.0.is_blocked.lock() = blocks;
        self.0.released.notify_all();
    }

    fn get(&self) -> Result<Credentials, Cause> {
        self.0.calls.fetch_add(1, Ordering::SeqCst);
        let mut is_blocked = self.0.is_blocked.lock();
        self.0
            .released
            .wait_while(&mut is_blocked, |blocks| *blocks);
        let password = self.0.password.lock().clone();
        match &*password {
            "fails" => Err("no token".into()),
            "panics" => panic!("on purpose"),
            _ => Ok(Credentials::user("worker", password)),
        }
    }

    fn builder(&self, server: &Server) -> LockClientBuilder {
        let store = self.clone();
        let url = format!("redis://{}", server.address());
        builder(&url).credentials_provider(move || store.get())
    }
}

/// The server accepts this password only, and keeps the connections that are logged in.
fn rotate(admin: &mut Connection, password: &str) {
    let rule = format!("ACL SETUSER worker reset on >{password} ~* &* +@all");
    run(admin, &rule);
}

fn hold(client: &LockClient) -> Vec<LockGuard> {
    let locks = (0..HELD).map(|_| client.reentrant_lock(&unique("held")));
    locks
        .map(|lock| lock.acquire().expect("it is free"))
        .collect()
}

/// The `field` of each connection of the user in `CLIENT LIST`.
fn connections(admin: &mut Connection, field: &str) -> Vec<String> {
    let mut list = redis::cmd("CLIENT");
    let list: String = list.arg("LIST").query(admin).expect("the server replies");
    let lines = list.lines().filter(|line| line.contains("name=leasehold:"));
    let field = format!(" {field}=");
    let value = |line: &str| {
        line.split(&field)
            .nth(1)?
            .split(' ')
            .next()
            .map(str::to_owned)
    };
    lines.filter_map(value).collect()
}

/// Rotates the password beside held locks, while threads make calls on old and new connections.
#[test]
fn passwords_that_are_rotated_lose_no_lock_and_fail_no_call() {
    const ROTATIONS: u32 = 2;
    let interval = APART * 5 / 4;
    let server = Server::start();
    let admin = &mut server.connection();
    rotate(admin, "p0");
    let store = Store::new("p0");
    let builder = store.builder(&server).connections(64);
    let client = builder.watchdog_lease(LEASE.get() * 3).build().unwrap();
    let guards = hold(&client);
    throughout(APART, "all locks are held", || {
        guards.iter().all(|guard| guard.check().is_ok())
    });
    let ends = AtomicBool::new(false);
    let calls = AtomicU64::new(0);
    thread::scope(|scope| {
        let _stop = Stop(&ends);
        for at in 1..=ROTATIONS {
            let password = format!("p{at}");
            store.set(&password);
            rotate(admin, &password);
            // Without a connection of its own, the watchdog has to log in, and so have callers.
            run(admin, "CLIENT KILL TYPE normal SKIPME yes");
            for thread in 0..4 {
                let (client, ends, calls) = (&client, &ends, &calls);
                scope.spawn(move || {
                    let lock = client.reentrant_lock(&format!("{at}:{thread}"));
                    while !ends.load(Ordering::Relaxed) {
                        pair(&lock);
                        calls.fetch_add(1, Ordering::Relaxed);
                        thread::yield_now();
                    }
                });
            }
            throughout(interval, "all locks are held", || {
                guards.iter().all(|guard| guard.check().is_ok())
            });
        }
    });
    assert_eq!(client.stats().lost, 0);
    assert!(calls.load(Ordering::Relaxed) > u64::from(ROTATIONS));
    assert!(store.calls() > u64::from(ROTATIONS), "{}", store.calls());
    for guard in guards {
        guard.unlock().expect("it was held all the time");
    }
}

/// A token that is replaced in time: no login is refused, and open connections get the new one.
#[test]
fn open_connections_log_in_again_with_new_credentials_before_the_old_ones_end() {
    let server = Server::start();
    let admin = &mut server.connection();
    for user in ["ann", "bob"] {
        run(
            admin,
            &format!("ACL SETUSER {user} reset on >secret ~* &* +@all"),
        );
    }
    let first = AtomicBool::new(true);
    let provider = move || {
        // It is called again five seconds before.
        let end = Instant::now() + Duration::from_secs(5) + millis(1_500);
        match first.swap(false, Ordering::SeqCst) {
            true => Ok(Credentials::user("ann", "secret").until(end)),
            false => Ok(Credentials::user("bob", "secret")),
        }
    };
    let url = format!("redis://{}", server.address());
    let client = builder(&url)
        .credentials_provider(provider)
        .build()
        .unwrap();
    let guards = hold(&client);
    eventually("a connection of the watchdog", || {
        connections(admin, "user").len() >= 2
    });
    assert!(connections(admin, "user").iter().all(|user| user == "ann"));
    eventually("all connections to be of bob", || {
        connections(admin, "user").iter().all(|user| user == "bob")
    });
    assert!(connections(admin, "user").len() >= 2);
    let before = client.stats().renewals;
    eventually("a renewal", || client.stats().renewals > before);
    for guard in guards {
        guard.unlock().expect("it is held");
    }
    let log: Vec<redis::Value> = redis::cmd("ACL").arg("LOG").query(admin).unwrap();
    assert!(log.is_empty(), "{log:?}");
}

#[test]
fn a_provider_that_blocks_loses_no_lock_and_delays_no_drop() {
    let server = Server::start();
    let admin = &mut server.connection();
    rotate(admin, "old");
    let store = Store::new("old");
    let client = store.builder(&server).build().unwrap();
    let guards = hold(&client);
    eventually("a renewal", || client.stats().renewals > 0);
    store.block(true);
    rotate(admin, "new");
    // A login that is refused wakes the provider, which blocks.
    let mut refused = None;
    eventually("the provider to be called", || {
        let opened = leasehold::admin::servers(&client)
            .unwrap()
            .remove(0)
            .connect();
        refused = opened.err();
        store.calls() > 1
    });
    let refused = refused.expect("its password is wrong").to_string();
    assert!(refused.contains("WRONGPASS"), "{refused}");
    throughout(LEASE.get() * 5 / 4, "all locks are held", || {
        guards.iter().all(|guard| guard.check().is_ok())
    });
    pair(&client.reentrant_lock(&unique("free")));
    for guard in guards {
        guard.unlock().expect("it was held all the time");
    }
    assert_eq!(client.stats().lost, 0);
    within(SLIP.get(), "the drop", || drop(client));
    store.block(false);
    eventually("its thread to end", || Arc::strong_count(&store.0) == 1);
}

/// The release comes between the change of the password and the next call of the provider.
#[test]
fn a_release_of_permits_is_repeated_if_its_login_is_refused() {
    let server = Server::start();
    let admin = &mut server.connection();
    rotate(admin, "old");
    let store = Store::new("old");
    let permits = store.builder(&server).build().unwrap();
    let permits = permits.semaphore(&unique("permits"));
    permits.add_permits(2).unwrap();
    permits.acquire(2).unwrap();
    rotate(admin, "new");
    run(admin, "CLIENT KILL USER worker");
    let released = permits.release(2);
    store.set("new");
    let retried = match released {
        Err(Error::NotReleased { retried, .. }) => retried,
        other => panic!("{other:?}"),
    };
    assert!(retried);
    let client = client(&server.url());
    let theirs = client.semaphore(permits.name());
    eventually("the permits to be free", || {
        theirs.available().unwrap() == 2
    });
}

#[test]
fn an_error_or_a_panic_keeps_the_last_credentials_and_is_logged() {
    logs::keep();
    let server = Server::start();
    let admin = &mut server.connection();
    rotate(admin, "hunter2");
    for (fault, words) in [("fails", "no token"), ("panics", "panicked")] {
        let store = Store::new("hunter2");
        let provider = {
            let store = store.clone();
            move || Ok(store.get()?.until(Instant::now()))
        };
        let url = format!("redis://{}", server.address());
        let client = builder(&url)
            .credentials_provider(provider)
            .build()
            .unwrap();
        let guards = hold(&client);
        store.set(fault);
        eventually("the log", || !logs::warnings_about(words).is_empty());
        run(admin, "CLIENT KILL TYPE normal SKIPME yes");
        pair(&client.reentrant_lock(&unique("free")));
        assert!(guards.iter().all(|guard| guard.check().is_ok()));
        let about = logs::warnings_about("last credentials");
        assert!(
            about.iter().all(|line| !line.contains("hunter2")),
            "{about:?}"
        );
    }
}

#[test]
fn a_wrong_provider_is_called_about_once_a_second_and_calls_are_refused() {
    let server = Server::start();
    rotate(&mut server.connection(), "right");
    let store = Store::new("wrong");
    let client = store.builder(&server).build().unwrap();
    let began = Instant::now();
    thread::scope(|scope| {
        for thread in 0..4 {
            let lock = client.reentrant_lock(&format!("{thread}"));
            scope.spawn(move || {
                while began.elapsed() < APART * 3 / 2 {
                    let error = lock.try_acquire_now().expect_err("the password is wrong");
                    assert_matches!(error, Error::Redis { .. } | Error::Unavailable { .. });
                    assert!(!error.to_string().contains("wrong"), "{error}");
                }
            });
        }
    });
    let most = 1 + began.elapsed().as_secs();
    assert!((2..=most).contains(&store.calls()), "{}", store.calls());
    store.set("right");
    eventually("the right password to be used", || {
        client
            .reentrant_lock(&unique("free"))
            .try_acquire_now()
            .is_ok()
    });
}

#[test]
fn a_client_without_credentials_is_not_built() {
    let server = Server::start();
    for (fault, words) in [
        ("fails", "no token"),
        ("panics", "panicked"),
        ("", "not returned"),
    ] {
        let store = Store::new(fault);
        store.block(fault.is_empty());
        let timeout = if fault.is_empty() { A_WHILE } else { SOON };
        let builder = store.builder(&server).connect_timeout(timeout.get());
        let built = within(SOON.get(), "the build", || builder.build());
        let error = built.expect_err("there are no credentials");
        assert_matches!(&error, Error::Unavailable { .. });
        assert!(
            error.is_transient() && error.to_string().contains(words),
            "{error}"
        );
        store.block(false);
        eventually("its thread to end", || Arc::strong_count(&store.0) == 1);
    }
}

/// Each has a thread of its own, and a failed build leaves nothing in the builder.
#[test]
fn clients_from_one_builder_share_no_state_of_the_provider() {
    let server = Server::start();
    let admin = &mut server.connection();
    rotate(admin, "old");
    let store = Store::new("fails");
    let builder = store.builder(&server);
    let failed = builder.clone().build();
    assert_matches!(failed.expect_err("no token"), Error::Unavailable { .. });
    store.set("old");
    let build = || builder.clone().build().expect("the provider works again");
    let (first, second) = (build(), build());
    drop(first);
    store.set("new");
    rotate(admin, "new");
    pair(&second.reentrant_lock(&unique("free")));
}

/// With sentinels, the password in the URLs is theirs, and the provider has that of the master.
#[test]
fn a_second_password_is_an_error_except_that_of_sentinels() {
    let given = |builder: LockClientBuilder| {
        builder
            .credentials_provider(|| Ok(Credentials::password("hunter2")))
            .build()
    };
    let with = "redis://:hunter2@127.0.0.1:1";
    for builder in [
        LockClient::builder(with),
        LockClient::builder_cluster([with]),
        LockClient::builder("redis://127.0.0.1:1").credentials(None, "hunter2"),
    ] {
        let error = given(builder).expect_err("it has two");
        assert_matches!(
            &error,
            Error::Config {
                field: "credentials_provider",
                ..
            }
        );
        assert!(!error.to_string().contains("hunter2"), "{error}");
    }
    given(LockClient::builder_sentinel([with], "main")).expect("they are for different servers");
}
