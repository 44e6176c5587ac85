//! A process that holds locks forks: the child has none of them and does not affect them.

#[cfg(target_os = "linux")]
pub mod namespace;
#[cfg(target_os = "linux")]
pub mod wakers;

use fork::Fork;
use leasehold::Result;

use crate::support::prelude::*;
use crate::support::{connect, process};

/// The number of forks while other threads use the same client.
const FORKS: usize = 40;

/// Long enough to renew in time on a busy machine.
fn lease() -> Duration {
    LEASE.get() * 3
}

/// Runs `work` in a forked child, then ends the process. Nothing that the parent left on the stack
/// is run, not even after a panic.
fn run_child(work: impl FnOnce()) -> ! {
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        report(info);
        std::process::exit(101);
    }));
    work();
    std::process::exit(0);
}

/// Waits for a forked child, which must end soon and without a failure.
fn wait_for(child: i32) {
    let start = Instant::now();
    let status = loop {
        if let Some(status) = fork::waitpid_nohang(child).expect("a child of ours") {
            break status;
        }
        // Before the test itself gives up.
        if start.elapsed() > SOON.get() / 2 {
            let pid = u32::try_from(child).expect("a process");
            process::signal(pid, "KILL");
            panic!("the forked child hangs");
        }
        thread::sleep(millis(2));
    };
    assert!(
        fork::WIFEXITED(status) && fork::WEXITSTATUS(status) == 0,
        "the child failed: {status}"
    );
}

fn is_forked<T: std::fmt::Debug>(result: &Result<T>) -> bool {
    matches!(result, Err(Error::Forked { .. }))
}

/// The call is refused at once, without a request to Redis.
#[track_caller]
fn is_refused<T: std::fmt::Debug>(what: &str, call: impl FnOnce() -> Result<T>) {
    let result = within(SLIP.get(), what, call);
    assert!(is_forked(&result), "{what}: {result:?}");
}

/// What the parent holds when it forks.
struct Held {
    client: LockClient,
    /// Held twice, without a guard.
    unguarded: ReentrantLock,
    by_guards: [LockGuard; 4],
    /// One is dropped in the child.
    owned: [OwnedGuard; 2],
    free: ReentrantLock,
}

impl Held {
    fn take(url: &str, prefix: &str) -> Self {
        let client = builder(url).watchdog_lease(lease());
        let client = client.build().expect("the settings are valid");
        let lock = |what: &str| client.reentrant_lock(&format!("{prefix}:{what}"));
        let unguarded = lock("unguarded");
        unguarded.lock().expect("it is free");
        unguarded.lock().expect("it is held by this thread");
        Self {
            unguarded,
            by_guards: ["unlocked", "unlocked_after", "dropped", "kept"]
                .map(|what| lock(what).acquire().expect("it is free")),
            owned: ["owned", "owned, dropped"].map(|what| {
                let guard = lock(what).acquire_owned(Lease::RENEWED);
                guard.expect("it is free")
            }),
            free: lock("free"),
            client,
        }
    }

    fn is_held(&self) -> bool {
        let guards = self.by_guards.iter().map(LockGuard::check);
        let mut guards = guards.chain(self.owned.iter().map(OwnedGuard::check));
        self.unguarded.hold_count() == 2 && guards.all(|check| check.is_ok())
    }

    /// In the child: no lock is held.
    fn is_not_held(&self) {
        assert!(!self.unguarded.is_held_by_current_thread());
        assert_eq!(self.unguarded.hold_count(), 0);
        let shown = format!("{:?} {:?}", self.unguarded, self.client);
        assert!(shown.contains("hold_count: 0"), "{shown}");
        for guard in &self.by_guards {
            is_refused("check", || guard.check());
            assert_eq!(guard.remaining(), Duration::ZERO);
            assert!(format!("{guard:?}").contains("NotHeld"), "{guard:?}");
            is_refused("extend", || guard.extend(SOON.get()));
            is_refused("confirm", || guard.confirm());
        }
        for guard in &self.owned {
            is_refused("check", || guard.check());
            is_refused("confirm", || guard.confirm());
        }
        for _ in 0..3 {
            is_refused("unlock", || self.unguarded.unlock());
        }
    }

    /// In the child: calls of the parent's client send nothing to Redis.
    fn sends_nothing(&self) {
        for lock in [&self.unguarded, &self.free] {
            for (call, result) in every_call(lock) {
                is_refused(call, || result);
            }
            is_refused("wait", || lock.condition("c").wait());
            is_refused("notify_one", || lock.condition("c").notify_one());
            is_refused("inspect", || self.client.inspect(lock.name()));
            is_refused("force_unlock", || self.client.force_unlock(lock.name()));
        }
    }

    /// Forks at the word of the test. The child tries everything.
    fn fork(self) -> Self {
        child::send_line("held");
        assert_eq!(child::read_line(), "fork");
        match fork::fork().expect("the system can fork") {
            Fork::Parent(child) => wait_for(child),
            Fork::Child => run_child(|| {
                self.is_not_held();
                self.sends_nothing();
                self.is_not_held();
                self.drop_all();
            }),
        }
        child::send_line("tried");
        self
    }

    /// Unlocks all at the word of the test.
    fn end(self) {
        child::send_line("go on");
        child::read_line();
        for _ in 0..2 {
            self.unguarded.unlock().expect("it is held");
        }
        for guard in self.by_guards {
            guard.unlock().expect("it is held");
        }
        for guard in self.owned {
            guard.unlock().expect("it is held");
        }
    }

    /// In the child: dropping the parent's guards and handles does nothing, and does not hang.
    fn drop_all(self) {
        let Self {
            client,
            unguarded,
            by_guards: [unlocked, unlocked_after, dropped, kept],
            owned: [owned, owned_dropped],
            free,
            ..
        } = self;
        is_refused("unlock", || unlocked.unlock());
        is_refused("unlock_after", || unlocked_after.unlock_after(SOON.get()));
        is_refused("unlock", || owned.unlock());
        within(SLIP.get(), "the drop of a guard", || {
            drop((dropped, owned_dropped));
        });
        within(SLIP.get(), "the drop of the last handle", || {
            drop((client, unguarded, free, kept));
        });
    }
}

/// A thread of this client waits for a lock of another client, and is woken by its release.
fn is_woken(client: &LockClient, other: &LockClient, url: &str, name: &str) {
    let mut redis = connect(url);
    let held = other.reentrant_lock(name);
    held.lock_with(Lease::fixed(SOON.get() * 6))
        .expect("it is free");
    thread::scope(|scope| {
        let waiter = scope.spawn(|| client.reentrant_lock(name).acquire()?.unlock());
        eventually("the waiter to subscribe", || {
            in_redis::listening(&mut redis, name) == 1
        });
        within(SLIP.get() * 2, "from release to hold", || {
            held.unlock().expect("it is held");
            waiter.join().expect("no panic").expect("it has the lock");
        });
    });
}

/// The role: forks while it holds locks. The child tries everything with the parent's guards and
/// handles.
pub fn fork_a_holder(arguments: &[&str]) {
    let [url, prefix] = child::named(arguments);
    let held = Held::take(url, prefix);
    let other = client(url);
    let awaited = format!("{prefix}:awaited");
    // From now on all threads and connections exist.
    is_woken(&held.client, &other, url, &awaited);
    let before = held.client.stats();
    let held = held.fork();
    throughout(lease(), "the parent's locks are held", || held.is_held());
    let after = held.client.stats();
    assert_eq!(
        (after.lost, after.renewals_unknown, after.reconnects),
        (0, 0, 0),
        "{after:?}"
    );
    assert!(after.renewals > before.renewals);
    is_woken(&held.client, &other, url, &awaited);
    pair(&held.free);
    held.end();
}

/// In the parent of the role.
fn assert_unaffected(server: &Server, start: impl FnOnce(&[&str]) -> Process) {
    let prefix = unique("fork");
    let names = [
        "unguarded",
        "unlocked",
        "dropped",
        "kept",
        "owned",
        "owned, dropped",
    ];
    let names = names.map(|what| format!("{prefix}:{what}"));
    let holders = || {
        let names = names.each_ref();
        names.map(|name| in_redis::holders(server, name))
    };
    let mut parent = start(&[&server.url(), &prefix]);
    assert_eq!(parent.read_line(), "held");
    in_redis::holder_with_count(server, &names[0], 2);
    let before = holders();
    parent.send_line("fork");
    for line in ["tried", "go on"] {
        assert_eq!(parent.read_line(), line);
        assert_eq!(holders(), before, "all is held as it was");
    }
    parent.send_line("end");
    parent.finish();
    for name in &names {
        assert!(in_redis::is_free(server, name), "{name}");
    }
}

#[test]
fn a_forked_child_neither_has_nor_affects_its_parents_locks() {
    let start = |arguments: &[&str]| Process::start("fork_a_holder", arguments);
    assert_unaffected(&Server::start(), start);
}

/// The role: forks repeatedly while other threads make calls of the same client, so that mutexes
/// may be locked in the child.
pub fn fork_a_busy_client(arguments: &[&str]) {
    let [url, prefix] = child::named(arguments);
    let client = client(url);
    let held = client.reentrant_lock(&format!("{prefix}:held"));
    let guard = held.acquire().expect("it is free");
    let end = Arc::new(AtomicBool::new(false));
    let busy: Vec<_> = (0..4)
        .map(|at| {
            // Two threads share a name, and so a queue.
            let lock = client.reentrant_lock(&format!("{prefix}:{}", at / 2));
            let end = Arc::clone(&end);
            thread::spawn(move || {
                while !end.load(Ordering::Relaxed) {
                    let guard = lock.acquire().expect("Redis replies");
                    guard.check().expect("it is held");
                    guard.unlock().expect("it is held");
                }
            })
        })
        .collect();
    for _ in 0..FORKS {
        let child = match fork::fork().expect("the system can fork") {
            Fork::Parent(child) => child,
            Fork::Child => run_child(|| {
                assert!(is_forked(&guard.check()));
                assert_eq!(held.hold_count(), 0);
                assert!(is_forked(&held.unlock()));
                is_refused("try_lock", || held.try_lock(SOON.get(), Lease::RENEWED));
                let busy = client.reentrant_lock(&format!("{prefix}:0"));
                is_refused("acquire", || busy.acquire().map(drop));
                drop((client.stats(), client.events()));
                assert!(guard.lost().recv_timeout(millis(1)).is_err());
                drop((guard, held, busy, client));
            }),
        };
        wait_for(child);
        guard.check().expect("the parent's hold is valid");
    }
    end.store(true, Ordering::Relaxed);
    for thread in busy {
        thread.join().expect("the thread panicked, see above");
    }
    let stats = client.stats();
    assert_eq!(stats.lost, 0, "{stats:?}");
    guard.unlock().expect("it is held");
}

#[test]
#[ignore = "soak"]
fn a_fork_during_calls_leaves_no_call_that_hangs() {
    let server = Server::start();
    child::run_role("fork_a_busy_client", &[&server.url(), &unique("fork")]);
    assert_eq!(server.ask::<u32>(&redis::cmd("DBSIZE")), 0);
}

/// The role: makes an interrupt, but no client, and forks. Its interrupt works in each child.
pub fn fork_with_an_interrupt(arguments: &[&str]) {
    let [url, name] = child::named(arguments);
    let interrupt = Interrupt::new();
    for _ in 0..2 {
        let child = match fork::fork().expect("the system can fork") {
            Fork::Parent(child) => child,
            Fork::Child => run_child(|| {
                let (holder, waiter) = (client(url), client(url));
                let guard = holder.reentrant_lock(name).acquire();
                let lock = waiter.reentrant_lock(name);
                thread::scope(|scope| {
                    let waiting = || lock.lock_interruptibly(Lease::RENEWED, &interrupt);
                    let waiting = scope.spawn(waiting);
                    eventually("it waits", || waiter.stats().wakeups_by_message > 0);
                    interrupt.interrupt();
                    let ended = within(SLIP.get(), "the interrupt", || waiting.join());
                    assert_error!(ended.expect("no panic"), Interrupted);
                });
                guard.expect("it is free").unlock().expect("it is held");
            }),
        };
        wait_for(child);
        assert!(!interrupt.is_interrupted(), "it is raised in the child");
    }
}

#[test]
fn an_interrupt_that_was_made_before_a_fork_ends_waits_in_the_child() {
    let server = Server::start();
    child::run_role("fork_with_an_interrupt", &[&server.url(), &unique("fork")]);
}
