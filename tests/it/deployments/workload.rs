//! Threads that work under fenced locks while servers fail, and the data that they change.

use leasehold::FencedLock;
use parking_lot::Mutex;

use crate::support::prelude::*;

/// Longer than a failover, so that a hold that survives it is renewed or released in time.
pub const LEASE: Millis = Millis(4_000);

const COMMAND: Millis = Millis(400);

/// The longest wait for a lock.
const WAIT: Millis = Millis(1_500);

/// The time that a worker holds the lock.
const WORK: Duration = Duration::from_millis(2);

/// How long a request under way may take after the end of a wait: `call_budget::GRACE`.
const GRACE: Duration = Duration::from_millis(250);

/// Settings for servers that are replaced within two or three seconds.
pub fn client_for_failovers(builder: LockClientBuilder) -> LockClient {
    let builder = builder.watchdog_lease(LEASE.get());
    let builder = builder.command_timeout(COMMAND.get());
    builder.build().expect("the settings are valid")
}

/// A sum that refuses writes with an older token than the newest that it has seen.
#[derive(Default)]
struct Store(Mutex<Stored>);

#[derive(Default)]
struct Stored {
    newest: u64,
    sum: u64,
}

impl Store {
    fn read(&self, token: u64) -> Option<u64> {
        let mut stored = self.0.lock();
        (token >= stored.newest).then(|| {
            stored.newest = token;
            stored.sum
        })
    }

    fn write(&self, token: u64, sum: u64) -> bool {
        let mut stored = self.0.lock();
        let accepted = token >= stored.newest;
        if accepted {
            *stored = Stored { newest: token, sum };
        }
        accepted
    }

    fn is_newest(&self, token: u64) -> bool {
        self.0.lock().newest == token
    }
}

/// A lock's name, the data under it, and the number of writes that the workers believe were
/// accepted.
struct Account {
    name: String,
    store: Store,
    accepted: AtomicU64,
    /// The number of holds that ended without an error.
    done: AtomicU64,
}

/// What all threads work on.
pub struct Workload {
    accounts: Vec<Account>,
    stop: AtomicBool,
    /// Holders that were notified of a loss, or whose calls found Redis unavailable.
    failed: AtomicU64,
}

impl Workload {
    pub fn over(names: impl IntoIterator<Item = String>) -> Self {
        let account = |name| Account {
            name,
            store: Store::default(),
            accepted: AtomicU64::new(0),
            done: AtomicU64::new(0),
        };
        Self {
            accounts: names.into_iter().map(account).collect(),
            stop: AtomicBool::new(false),
            failed: AtomicU64::new(0),
        }
    }

    /// Two threads of each client work while `meanwhile` runs. Then checks the sums.
    pub fn run(&self, clients: &[LockClient], meanwhile: impl FnOnce()) {
        thread::scope(|scope| {
            for client in clients {
                for _ in 0..2 {
                    scope.spawn(|| self.work(client));
                }
            }
            let _stop = Stop(&self.stop);
            meanwhile();
        });
        for account in &self.accounts {
            let sum = account.store.0.lock().sum;
            let accepted = account.accepted.load(Ordering::Relaxed);
            assert_eq!(sum, accepted, "{}", account.name);
        }
        let (done, failed): (u64, _) = (self.done().iter().sum(), &self.failed);
        println!("{done} holds without an error, {failed:?} with one");
    }

    fn done(&self) -> Vec<u64> {
        let done = |account: &Account| account.done.load(Ordering::Relaxed);
        self.accounts.iter().map(done).collect()
    }

    /// Waits until each of the locks has been used again.
    #[track_caller]
    pub fn await_progress(&self) {
        let before = self.done();
        eventually("the work to go on", || {
            let now = self.done();
            now.iter().zip(&before).all(|(now, before)| now > before)
        });
    }

    fn work(&self, client: &LockClient) {
        while !self.stop.load(Ordering::Relaxed) {
            let account = &self.accounts[fastrand::usize(..self.accounts.len())];
            self.hold(account, &client.fenced_lock(&account.name));
        }
    }

    /// One hold. Each of its calls must end in time.
    fn hold(&self, account: &Account, lock: &FencedLock) {
        let taken = in_time("try_acquire", WAIT.get(), || {
            lock.try_acquire(WAIT.get(), Lease::RENEWED)
        });
        let guard = match taken {
            Ok(Some(guard)) => guard,
            Ok(None) | Err(Error::Unavailable { .. }) => return,
            Err(error) => panic!("{error}"),
        };
        let token = guard.fencing_token();
        if let Some(sum) = account.store.read(token) {
            thread::sleep(WORK);
            if account.store.write(token, sum + 1) {
                account.accepted.fetch_add(1, Ordering::Relaxed);
            }
        }
        let is_newest = account.store.is_newest(token);
        match in_time("unlock", COMMAND.get() * 3, || guard.unlock()) {
            Ok(()) => {
                assert!(is_newest, "lost {} without a notification", account.name);
                account.done.fetch_add(1, Ordering::Relaxed);
            }
            Err(Error::Lost { .. } | Error::NotReleased { .. }) => {
                self.failed.fetch_add(1, Ordering::Relaxed);
            }
            Err(error) => panic!("{error}"),
        }
    }
}

/// Fails if a call takes longer than its budget, the grace of the last request, and the delay of a
/// busy machine.
#[track_caller]
fn in_time<T>(what: &str, budget: Duration, call: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let result = call();
    let took = start.elapsed();
    let bound = budget + GRACE + SLIP.get() * 3;
    assert!(took <= bound, "{what} took {took:?} of {bound:?}");
    result
}

/// Lets the work go on for this many milliseconds.
pub fn run_for(time: u64) {
    thread::sleep(millis(time));
}
