//! Who holds a lock: on the connection `<client uuid>:<thread number>`, at home the thread itself.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use uuid::Uuid;

/// Numbers are handed out once in the life of a process. A thread's address or id is used again
/// after it ends, and a key in Redis outlives the thread: its next user would own a dead lock.
static NEXT: AtomicU64 = AtomicU64::new(1);

/// No number taken yet.
const NONE: u64 = 0;

// Cells of plain numbers have no destructor, so they can be read while a thread is torn down, as
// guards that sit in other thread-locals need.
thread_local! {
    static THREAD: Cell<u64> = const { Cell::new(NONE) };
    static OWNER: Cell<u64> = const { Cell::new(NONE) };
}

thread_local! {
    /// Dropped when the thread ends.
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

/// An OS thread of this process, for as long as it lives.
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

/// Tells whether a thread has ended.
#[derive(Debug)]
pub(crate) struct Liveness(Weak<()>);

impl Liveness {
    /// Of the calling thread. A thread that already runs the destructors of its thread-local values
    /// may count as ended.
    pub(crate) fn of_this_thread() -> Self {
        Self(LIVENESS.try_with(Arc::downgrade).unwrap_or_default())
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.0.strong_count() == 0
    }
}

/// The name under which a hold stands in Redis. While nobody can say which of several requests was done,
/// all the names that it may stand under, the newest first, with spaces between.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OwnerId(Arc<str>);

impl OwnerId {
    /// The owner under which this thread takes its next lock.
    pub(crate) fn current(client: &Uuid) -> Self {
        Self(format!("{client}:{}", number(&OWNER)).into())
    }

    /// With one more name, newer than the others, which nobody has had.
    pub(crate) fn with_fresh_name(&self) -> Self {
        let client = self.0.split(':').next().unwrap_or_default();
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        Self(format!("{client}:{number} {}", self.0).into())
    }

    /// The newest name, and the older ones.
    pub(crate) fn split(&self) -> (Self, Option<Self>) {
        match self.0.split_once(' ') {
            Some((newest, older)) => (Self(newest.into()), Some(Self(older.into()))),
            None => (self.clone(), None),
        }
    }

    /// As many of its names, the newest of them.
    pub(crate) fn newest(&self, names: usize) -> Self {
        let newest: Vec<&str> = self.0.split(' ').take(names).collect();
        Self(newest.join(" ").into())
    }

    /// Which name it has is not known.
    pub(crate) fn is_uncertain(&self) -> bool {
        self.0.contains(' ')
    }

    /// Whoever asked for all these names has asked for each of those.
    pub(crate) fn covers(&self, other: &Self) -> bool {
        let mut others = other.0.split(' ');
        others.all(|other| self.0.split(' ').any(|name| name == other))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

/// Gives this thread a fresh owner number for its next lock.
///
/// Called when a command never got a clear answer: it may still be under way, and a release that
/// arrives late must find no hold under the name it carries. Holds that stand keep their owner.
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
    fn retiring_an_owner_leaves_the_thread_what_it_is() {
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
    fn a_hundred_threads_one_after_another_are_a_hundred_owners() {
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
