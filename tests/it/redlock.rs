//! One lock on several independent servers.

use crate::support::prelude::*;

mod contention;
mod faults;
mod hold;

const OTHER_OWNER: &str = "b4a9e8a4-0000-4000-8000-000000000000:7";
const NAME: &str = "lock";

/// The command timeout of clients for servers that hang.
const COMMAND: u64 = 300;

/// Independent servers.
struct Servers(Vec<Server>);

impl Servers {
    fn start(count: usize) -> Self {
        let options = (0..count).map(|_| Server::options()).collect();
        Self(Server::start_all(options))
    }

    fn clients(&self) -> Vec<LockClient> {
        self.0.iter().map(|server| client(&server.url())).collect()
    }

    /// The lock for new clients, as another process would have it.
    fn lock(&self) -> RedLock {
        RedLock::new(&self.clients(), NAME)
    }

    /// With a short command timeout.
    fn clients_with_short_timeout(&self) -> Vec<LockClient> {
        let short = |server: &Server| builder(&server.url()).command_timeout(millis(COMMAND));
        let clients = self.0.iter().map(|server| short(server).build());
        clients.collect::<Result<_, _>>().unwrap()
    }

    fn lock_with_short_timeout(&self) -> RedLock {
        RedLock::new(&self.clients_with_short_timeout(), NAME)
    }

    /// The hold count on each of the servers.
    fn counts(&self) -> Vec<u32> {
        self.counts_of(NAME)
    }

    fn counts_of(&self, name: &str) -> Vec<u32> {
        let count = |server: &Server| {
            let held: Vec<(String, u32)> = server.ask(redis::cmd("HGETALL").arg(name));
            held.iter().map(|(_, count)| count).sum()
        };
        self.0.iter().map(count).collect()
    }

    fn held(&self) -> usize {
        self.counts().iter().filter(|&&count| count > 0).count()
    }

    fn delete(&self, servers: std::ops::Range<usize>) {
        for server in &self.0[servers] {
            server.delete(NAME);
        }
    }

    /// Another owner holds the lock on these servers.
    fn occupy(&self, servers: std::ops::Range<usize>) {
        for server in &self.0[servers] {
            server.ask::<()>(redis::cmd("HSET").arg(NAME).arg(OTHER_OWNER).arg(1));
            let lease = u64::try_from(SOON.get().as_millis()).unwrap() * 6;
            server.ask::<()>(redis::cmd("PEXPIRE").arg(NAME).arg(lease));
        }
    }
}

/// Acquires the lock on all servers, also if some reply late on a busy machine. The keys do not
/// show whether all servers belong to the hold: what was granted too late is about to be released.
fn take_all(clients: &[LockClient], lease: Lease) -> LockGuard {
    let lock = RedLock::new(clients, NAME);
    eventually_some("all of them to have it", || {
        let guard = lock.try_acquire(SOON.get(), lease).unwrap()?;
        let has_it = |client: &LockClient| client.reentrant_lock(NAME).is_held_by_current_thread();
        clients.iter().all(has_it).then_some(guard)
    })
}

#[test]
fn a_majority_is_required_and_sufficient() {
    for count in [3, 5] {
        let servers = Servers::start(count);
        let lock = servers.lock();
        let minority = count / 2;
        servers.occupy(0..minority);
        assert!(!lock.is_locked().unwrap(), "{minority} of {count}");
        lock.lock().unwrap();
        assert!(lock.is_locked().unwrap() && lock.is_held_by_current_thread());
        lock.unlock().unwrap();
        assert_eq!(
            servers.held(),
            minority,
            "the locks of the other owner stay"
        );

        servers.occupy(minority..minority + 1);
        assert!(lock.is_locked().unwrap());
        assert!(lock.remaining().unwrap() > Some(SOON.get()));
        for wait in [Duration::ZERO, A_WHILE.get()] {
            assert!(!lock.try_lock(wait, Lease::RENEWED).unwrap());
            assert_eq!(servers.held(), minority + 1, "what was granted is released");
        }
        assert_eq!(lock.hold_count(), 0);
        assert_matches!(lock.unlock(), Err(Error::NotHeld { lock, .. }) if lock == NAME);
    }
}

#[test]
fn invalid_lists_of_servers_are_refused_by_the_first_call() {
    let servers = Servers::start(3);
    let clients = servers.clients();
    let twin = client(&servers.0[0].url());
    let of = |clients: &[&LockClient], name: &str| {
        let clients: Vec<LockClient> = clients.iter().map(|&client| client.clone()).collect();
        RedLock::new(&clients, name)
    };
    let [one, two, three] = [&clients[0], &clients[1], &clients[2]];
    let address = servers.0[0].address();
    for (lock, named, said) in [
        (of(&[], NAME), "clients", "0 servers"),
        (of(&[one, two], NAME), "clients", "2 servers"),
        (of(&[one, two, three, &twin], NAME), "clients", "4 servers"),
        (of(&[one, two, &twin], NAME), "clients", &address),
        (of(&[one, two, three], ""), "name", "\"\""),
    ] {
        let unlocked = ("unlock", lock.unlock());
        for (call, result) in every_call(&lock).into_iter().chain([unlocked]) {
            let Err(Error::InvalidArgument {
                argument, value, ..
            }) = &result
            else {
                panic!("{call}: {result:?}")
            };
            assert!(*argument == named && value.contains(said), "{result:?}");
        }
        assert_eq!(lock.hold_count(), 0);
    }
    assert_eq!(servers.held(), 0);
}

/// If all servers refuse, the call fails with their error. If a few refuse, the call succeeds.
#[test]
fn a_key_of_another_type_counts_as_a_refusal() {
    let servers = Servers::start(3);
    let lock = servers.lock();
    servers.0[0].ask::<()>(redis::cmd("SET").arg(NAME).arg("no lock"));
    pair(&lock);
    servers.0[1].ask::<()>(redis::cmd("SET").arg(NAME).arg("no lock"));
    let refused = lock.lock();
    assert_matches!(refused, Err(Error::WrongType { .. }));
    let left: bool = servers.0[2].ask(redis::cmd("EXISTS").arg(NAME));
    assert!(!left);
}
