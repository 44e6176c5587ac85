//! The owner of a lock: `<client uuid>:<thread number>` in Redis, a thread in this process.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use uuid::Uuid;

/// The next number. A process never uses a number twice. The system uses the id of an ended thread
/// again, but a key in Redis can outlive its thread: the next thread with that id would own the
/// lock.
static NEXT: AtomicU64 = AtomicU64::new(1);

/// The thread has no number yet.
const NONE: u64 = 0;

// Cells of plain numbers have no destructor. So guards in other thread-local variables can read
// them while the thread ends.
thread_local! {
    static THREAD: Cell<u64> = const { Cell::new(NONE) };
    static OWNER: Cell<u64> = const { Cell::new(NONE) };
}

thread_local! {
    /// Dropped at the end of the thread.
    static LIVENESS: Arc<()> = Arc::default();
}

fn number(of: &'static std::thread::LocalKey<Cell<u64>>) -> u64 {
    of.with(|cell| {
        if cell.get() == NONE {
            cell.set(NEXT.fetch_add(1, Ordering::Relaxed));
        }
        cell.get()
    })
}

/// A thread of this process. Never used for another thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ThreadId(u64);

impl ThreadId {
    pub(crate) fn current() -> Self {
        Self(number(&THREAD))
    }

    #[cfg(test)]
    pub(crate) fn numbered(number: u64) -> Self {
        Self(number)
    }
}

/// Knows whether a thread has ended.
#[derive(Debug)]
pub(crate) struct Liveness(Weak<()>);

impl Liveness {
    /// The liveness of the calling thread. A thread that already drops its thread-local variables
    /// may count as ended.
    pub(crate) fn of_this_thread() -> Self {
        Self(LIVENESS.try_with(Arc::downgrade).unwrap_or_default())
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.0.strong_count() == 0
    }
}

/// The owner id of a hold in Redis. While it is unknown which of several requests was executed, it
/// contains all possible names, the newest first, separated by spaces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OwnerId(Arc<str>);

impl OwnerId {
    /// The owner id for the next lock of this thread.
    pub(crate) fn current(client: &Uuid) -> Self {
        Self(format!("{client}:{}", number(&OWNER)).into())
    }

    /// Adds a new name that was never used before.
    pub(crate) fn with_fresh_name(&self) -> Self {
        let client = self.0.split(':').next().unwrap_or_default();
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        Self(format!("{client}:{number} {}", self.0).into())
    }

    /// Splits off the newest name. Also returns the older names, if there are any.
    pub(crate) fn split(&self) -> (Self, Option<Self>) {
        match self.0.split_once(' ') {
            Some((newest, older)) => (Self(newest.into()), Some(Self(older.into()))),
            None => (self.clone(), None),
        }
    }

    /// Keeps at most `names` names, the newest ones.
    pub(crate) fn newest(&self, names: usize) -> Self {
        let newest: Vec<&str> = self.0.split(' ').take(names).collect();
        Self(newest.join(" ").into())
    }

    /// True if it has several names, so that the name in Redis is unknown.
    pub(crate) fn is_uncertain(&self) -> bool {
        self.0.contains(' ')
    }

    /// True if it contains every name of `other`.
    pub(crate) fn covers(&self, other: &Self) -> bool {
        let mut others = other.0.split(' ');
        others.all(|other| self.0.split(' ').any(|name| name == other))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

/// Gives this thread a new owner number for its next lock. Existing holds keep their owner id.
///
/// Called after a command without a clear reply: it may still be on its way, and a release that
/// arrives late must not find a hold under its owner id.
pub(crate) fn retire() {
    OWNER.with(|cell| cell.set(NONE));
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn a_thread_keeps_its_owner_until_it_is_retired() {
        let client = Uuid::new_v4();
        let first = OwnerId::current(&client);
        assert_eq!(first, OwnerId::current(&client));
        retire();
        assert_ne!(first, OwnerId::current(&client));
    }

    #[test]
    fn retiring_an_owner_does_not_change_the_thread_id() {
        let thread = ThreadId::current();
        retire();
        assert_eq!(thread, ThreadId::current());
    }

    #[test]
    fn a_thread_has_ended_once_it_is_joined() {
        let mine = Liveness::of_this_thread();
        let theirs = std::thread::spawn(|| {
            let liveness = Liveness::of_this_thread();
            assert!(!liveness.has_ended());
            liveness
        });
        assert!(theirs.join().unwrap().has_ended());
        assert!(!mine.has_ended());
    }

    #[test]
    fn a_hundred_threads_one_after_another_have_a_hundred_owners() {
        let client = Uuid::new_v4();
        let owners: HashSet<String> = (0..100)
            .map(|_| {
                std::thread::spawn(move || OwnerId::current(&client).as_str().to_owned())
                    .join()
                    .unwrap()
            })
            .collect();
        assert_eq!(owners.len(), 100);
    }

    #[test]
    fn an_owner_can_have_several_names_and_the_newest_comes_first() {
        let client = Uuid::new_v4();
        let first = OwnerId::current(&client);
        let both = first.with_fresh_name();
        let (second, older) = both.split();
        assert_eq!(older.as_ref(), Some(&first));
        assert_eq!(
            second.split().0.as_str().split(':').next(),
            Some(&*client.to_string())
        );
        assert_eq!(first, OwnerId::current(&client), "the thread's stays");
        assert!(first.covers(&first) && !first.covers(&second) && !first.is_uncertain());
        assert!(both.covers(&first) && both.covers(&second) && both.is_uncertain());
        assert!(!first.covers(&both));
        assert_eq!(second.split(), (second.clone(), None));
        assert_eq!(both.newest(1), second);
        assert_eq!(both.newest(9), both);
    }

    #[test]
    fn the_wire_form_is_uuid_and_number() {
        let client = Uuid::new_v4();
        let owner = OwnerId::current(&client);
        let (uuid, number) = owner.as_str().split_once(':').unwrap();
        assert_eq!(uuid, client.to_string());
        assert!(number.parse::<u64>().unwrap() > 0);
    }
}
