//! Every method of the trait `Lock` is also an inherent method of every lock type, so that no
//! import of the trait is needed.

use std::time::Duration;

use leasehold::{
    Error, FencedGuard, Interrupt, Lease, LockGuard, OwnedGuard, RedLock, ReentrantLock, Result,
};

use crate::support::server::Server;
use crate::support::{assert_matches, client, on_another_thread};

/// A function that uses every method of `$lock`, whose guards are `$guard`.
macro_rules! uses_every_method {
    ($function:ident, $lock:ty, $guard:ty) => {
        fn $function(lock: &$lock, name: &str) {
            let lease = Lease::fixed(Duration::from_secs(60));
            let (no_wait, interrupt) = (Duration::ZERO, Interrupt::new());
            assert_eq!(lock.name(), name);
            assert!(!lock.is_locked().unwrap() && lock.remaining().unwrap().is_none());

            let levels: [Result<bool>; 5] = [
                lock.lock().map(|()| true),
                lock.lock_with(lease).map(|()| true),
                lock.try_lock(no_wait, lease),
                lock.lock_interruptibly(lease, &interrupt).map(|()| true),
                lock.try_lock_interruptibly(no_wait, lease, &interrupt),
            ];
            assert!(levels.into_iter().all(|taken| taken.unwrap()));
            assert!(lock.is_held_by_current_thread() && lock.hold_count() == 5);
            for _ in 0..5 {
                lock.unlock().unwrap();
            }

            let owned: [fn(&$lock, Lease) -> OwnedGuard; 3] = [
                |lock, lease| lock.acquire_owned(lease).unwrap(),
                |lock, lease| {
                    let guard = lock.try_acquire_owned(Duration::ZERO, lease);
                    guard.unwrap().expect("it is free")
                },
                |lock, lease| {
                    lock.acquire_owned_interruptibly(lease, &Interrupt::new())
                        .unwrap()
                },
            ];
            for acquire in owned {
                let guard = acquire(lock, lease);
                assert!(guard.name() == name && lock.hold_count() == 0);
                on_another_thread(|| guard.unlock().unwrap());
            }

            let guards: [$guard; 7] = [
                lock.acquire().unwrap(),
                lock.acquire_with(lease).unwrap(),
                lock.try_acquire(no_wait, lease)
                    .unwrap()
                    .expect("it is held"),
                lock.try_acquire_now().unwrap().expect("it is held"),
                lock.try_acquire_for(no_wait).unwrap().expect("it is held"),
                lock.acquire_interruptibly(lease, &interrupt).unwrap(),
                lock.try_acquire_interruptibly(no_wait, lease, &interrupt)
                    .unwrap()
                    .expect("it is held"),
            ];
            assert!(lock.hold_count() == 7 && lock.is_locked().unwrap());
            // The longest lease counts.
            assert!(guards[0].remaining() > Duration::from_secs(30));
            on_another_thread(|| assert!(lock.try_acquire_now().unwrap().is_none()));
            interrupt.interrupt();
            let interrupted =
                on_another_thread(|| lock.acquire_interruptibly(lease, &interrupt).map(drop));
            assert_matches!(interrupted, Err(Error::Interrupted { .. }));
            drop(guards);
            assert!(lock.hold_count() == 0);
            let work = |guard: &$guard| match guard.remaining() > Duration::from_secs(30) {
                true => Ok(7),
                false => Err("a short lease"),
            };
            assert_eq!(lock.run(lease, work).unwrap(), 7);
            assert_eq!(lock.try_run(no_wait, lease, work).unwrap(), Some(7));
            assert_eq!(lock.hold_count(), 0);
        }
    };
}

uses_every_method!(of_a_reentrant_lock, ReentrantLock, LockGuard);
uses_every_method!(of_a_fenced_lock, leasehold::FencedLock, FencedGuard);
uses_every_method!(of_a_multi_lock, leasehold::MultiLock, LockGuard);
uses_every_method!(of_a_red_lock, RedLock, LockGuard);

/// A lock of another crate, which has only the required methods.
mod of_another_crate {
    use leasehold::Lock;

    use super::*;

    #[derive(Debug)]
    pub struct Wrapper(pub ReentrantLock);

    impl Lock for Wrapper {
        fn name(&self) -> &str {
            self.0.name()
        }

        fn lock_with(&self, lease: Lease) -> Result<()> {
            self.0.lock_with(lease)
        }

        fn try_lock(&self, wait: Duration, lease: Lease) -> Result<bool> {
            self.0.try_lock(wait, lease)
        }

        fn lock_interruptibly(&self, lease: Lease, interrupt: &Interrupt) -> Result<()> {
            self.0.lock_interruptibly(lease, interrupt)
        }

        fn unlock(&self) -> Result<()> {
            self.0.unlock()
        }

        fn acquire(&self) -> Result<LockGuard> {
            self.0.acquire()
        }

        fn try_acquire(&self, wait: Duration, lease: Lease) -> Result<Option<LockGuard>> {
            self.0.try_acquire(wait, lease)
        }

        fn acquire_owned(&self, lease: Lease) -> Result<OwnedGuard> {
            self.0.acquire_owned(lease)
        }

        fn try_acquire_owned(&self, wait: Duration, lease: Lease) -> Result<Option<OwnedGuard>> {
            self.0.try_acquire_owned(wait, lease)
        }

        fn acquire_owned_interruptibly(
            &self,
            lease: Lease,
            interrupt: &Interrupt,
        ) -> Result<OwnedGuard> {
            self.0.acquire_owned_interruptibly(lease, interrupt)
        }

        fn hold_count(&self) -> u32 {
            self.0.hold_count()
        }

        fn is_locked(&self) -> Result<bool> {
            self.0.is_locked()
        }

        fn remaining(&self) -> Result<Option<Duration>> {
            self.0.remaining()
        }
    }

    uses_every_method!(of_a_wrapper, Wrapper, LockGuard);

    #[test]
    fn the_other_methods_are_provided() {
        let server = Server::start();
        let client = client(&server.url());
        let lock = Wrapper(client.reentrant_lock("plain"));
        of_a_wrapper(&lock, "plain");
        let _held = lock.acquire().unwrap();
        on_another_thread(|| {
            let wait = Duration::from_millis(120);
            let interrupt = Interrupt::new();
            let has_it = lock.try_lock_interruptibly(wait, Lease::RENEWED, &interrupt);
            assert!(!has_it.unwrap());
        });
    }
}

#[test]
fn no_method_of_a_lock_needs_the_trait() {
    let servers = Server::start_all((0..3).map(|_| Server::options()).collect());
    let clients: Vec<_> = servers.iter().map(|one| client(&one.url())).collect();
    let client = &clients[0];
    of_a_reentrant_lock(&client.reentrant_lock("plain"), "plain");
    of_a_fenced_lock(&client.fenced_lock("fenced"), "fenced");
    of_a_multi_lock(&client.multi_lock(["b", "a"]), "a, b");
    of_a_red_lock(&RedLock::new(&clients, "red"), "red");
}

/// What the client does with a name.
#[test]
fn a_handle_inspects_its_lock_and_frees_it() {
    let server = Server::start();
    let client = client(&server.url());
    macro_rules! check {
        ($($lock:expr),+) => { $({
            let lock = $lock;
            assert!(!lock.force_unlock().unwrap());
            assert!(lock.holder().unwrap().is_none());
            let guard = lock.acquire().unwrap();
            let by_name = client.inspect(lock.name()).unwrap();
            assert_eq!(lock.inspect().unwrap().owner, by_name.owner);
            assert!(lock.inspect().unwrap().owner.is_some());
            assert_eq!(lock.holder().unwrap().unwrap().process_id, std::process::id());
            assert!(lock.force_unlock().unwrap());
            assert!(guard.is_lost() && lock.inspect().unwrap().owner.is_none());
        })+ };
    }
    check!(
        client.reentrant_lock("plain"),
        client.fenced_lock("fenced"),
        client.fair_lock("fair"),
        client.read_write_lock("shared").read(),
        client.read_write_lock("shared").write()
    );
}
