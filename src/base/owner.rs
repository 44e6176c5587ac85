//! The owner of a lock: `<client uuid>:<number>` in Redis, a thread or a guard in this process.
//!
//! Each grant has an owner id of its own, and so does each copy of an acquire: a late copy of a
//! request must not find a newer grant. Each further copy carries the ids of the older ones, and
//! replaces the one that it finds. The grant has the id of the copy that got the reply. No id is
//! used again. Numbers are counted, except that of a hold which is given away: it is random, so
//! that no client can guess the owner id of another token.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use uuid::Uuid;

/// The next number. A process never uses a number twice: a request that is still under way must
/// not find a later grant under its owner id.
static NEXT: AtomicU64 = AtomicU64::new(1);

/// The random numbers begin here. [`NEXT`] never gets this far, and Java's `long` has all of them.
const FIRST_SECRET: u64 = 1 << 62;

/// The length of the id of a permit.
const PERMIT_ID: usize = 32;

fn next_number() -> u64 {
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// A number with 62 random bits of the operating system, which no client can guess.
fn secret_number() -> u64 {
    // The two bits before these 62 have the same value in each UUID.
    let (_, random) = Uuid::new_v4().as_u64_pair();
    FIRST_SECRET + random % FIRST_SECRET
}

thread_local! {
    // A plain number has no destructor. So guards in other thread-local variables can read it while
    // the thread ends.
    static THREAD: u64 = next_number();
    /// Dropped at the end of the thread.
    static LIVENESS: Arc<()> = Arc::default();
}

/// Who has a hold in this process, or wants one: a thread, or an owned guard, whichever thread uses
/// it. A guard has one hold with one level. Never used for another holder.
///
/// Twice its number, and one more for a guard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct HolderId(u64);

impl HolderId {
    pub(crate) fn current_thread() -> Self {
        THREAD.with(|number| Self::thread(*number))
    }

    pub(crate) fn new_guard() -> Self {
        Self::guard(next_number())
    }

    /// The thread with this number.
    pub(crate) const fn thread(number: u64) -> Self {
        Self(number * 2)
    }

    /// The guard with this number.
    pub(crate) const fn guard(number: u64) -> Self {
        Self(number * 2 + 1)
    }

    pub(crate) fn is_guard(self) -> bool {
        self.0 % 2 == 1
    }
}

/// Knows whether the thread of a hold has ended. The hold of an owned guard has no thread.
///
/// The thread-local variables of a thread are dropped in an order that is not known here. So a
/// thread that drops its thread-local variables may count as ended: a lock that it acquires or
/// still holds then is not renewed. Its guard unlocks as usual.
#[derive(Clone, Debug)]
pub(crate) struct Liveness(Option<Weak<()>>);

impl Liveness {
    /// The liveness of a holder: the calling thread, or a guard.
    pub(crate) fn of(holder: HolderId) -> Self {
        let this_thread = || LIVENESS.try_with(Arc::downgrade).unwrap_or_default();
        Self((!holder.is_guard()).then(this_thread))
    }

    pub(crate) fn has_ended(&self) -> bool {
        let thread = self.0.as_ref();
        thread.is_some_and(|thread| thread.strong_count() == 0)
    }
}

/// The owner id of a grant in Redis, or the ids of permits that were acquired together, without a
/// space between them. While it is unknown which copy of an acquire was executed, it contains the
/// names of all copies, the newest first, separated by spaces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OwnerId(Arc<str>);

impl OwnerId {
    /// An owner id of the client with this UUID that was never used before.
    pub(crate) fn new(client: &str) -> Self {
        Self::numbered(client, ":")
    }

    /// An owner id of a fair lock that was never used before. Its number begins with a zero, by
    /// which other kinds of locks recognize it (`lua/shared/kinds.lua`).
    pub(crate) fn of_fair_lock(client: &str) -> Self {
        Self::numbered(client, ":0")
    }

    /// True for an owner of this library: the UUID of its client has version 8, and those of
    /// Redisson have version 4.
    pub(crate) fn is_of_this_library(owner: &str) -> bool {
        owner.as_bytes().get(14) == Some(&b'8')
    }

    fn numbered(client: &str, before: &str) -> Self {
        let mut number = itoa::Buffer::new();
        let name = [client, before, number.format(next_number())];
        Self(name.concat().into())
    }

    /// The ids of this number of permits that were never used before: 32 hexadecimal characters
    /// each.
    pub(crate) fn of_permits(permits: usize) -> Self {
        let ids = (0..permits).map(|_| Uuid::new_v4().simple().to_string());
        Self(ids.collect::<String>().into())
    }

    /// The permit with this id; `None` if it is not 32 hexadecimal characters.
    pub(crate) fn of_permit_id(id: &str) -> Option<Self> {
        let is_id = id.len() == PERMIT_ID && id.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_id.then(|| Self(id.into()))
    }

    /// The ids of permits, those of the newest copy first.
    pub(crate) fn permit_ids(&self) -> impl Iterator<Item = &str> {
        let names = self.0.split(' ');
        names.flat_map(|ids| {
            (PERMIT_ID..=ids.len())
                .step_by(PERMIT_ID)
                .map(|end| &ids[end - PERMIT_ID..end])
        })
    }

    /// The number of permits; at most 1 for the owner of a lock, whose names are short.
    pub(crate) fn permits(&self) -> usize {
        self.0.split(' ').next().unwrap_or_default().len() / PERMIT_ID
    }

    /// Adds a new name that was never used before.
    pub(crate) fn with_fresh_name(&self) -> Self {
        self.with_name(next_number)
    }

    /// Adds a new name that was never used before, and that no client can guess.
    pub(crate) fn with_secret_name(&self) -> Self {
        self.with_name(secret_number)
    }

    /// True if no client can guess the newest name. The ids of permits are random.
    pub(crate) fn is_secret(&self) -> bool {
        self.number().is_none_or(|number| number >= FIRST_SECRET)
    }

    fn with_name(&self, number: fn() -> u64) -> Self {
        Self(match self.0.split_once(':') {
            Some((client, present)) => {
                let zero = if present.starts_with('0') { "0" } else { "" };
                format!("{client}:{zero}{} {}", number(), self.0).into()
            }
            None => format!("{} {}", Self::of_permits(self.permits()).0, self.0).into(),
        })
    }

    /// Adds the names of `older` as the older ones.
    pub(crate) fn before(&self, older: &Self) -> Self {
        Self([&self.0, " ", &older.0].concat().into())
    }

    /// The owner id of a lock, or the ids of permits, with this text; `None` if it is none. So it
    /// is never a field that another program uses.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let is_hex = |byte: u8| byte.is_ascii_hexdigit() || byte == b'-';
        let (client, number) = text.split_once(':').unwrap_or((text, "0"));
        let is_long = client.len() == 36 || !client.is_empty() && client.len() % PERMIT_ID == 0;
        let is_id = is_long && client.bytes().all(is_hex) && number.parse::<u64>().is_ok();
        is_id.then(|| Self(text.into()))
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

    /// The UUID of the client.
    pub(crate) fn client(&self) -> &str {
        self.0.split(':').next().unwrap_or_default()
    }

    /// The number of the newest name; `None` for the id of a permit.
    pub(crate) fn number(&self) -> Option<u64> {
        let (_, number) = self.0.split_once(':')?;
        number.split(' ').next()?.parse().ok()
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn a_thread_has_ended_once_it_is_joined_and_a_guard_never_has() {
        let mine = Liveness::of(HolderId::current_thread());
        let theirs = std::thread::spawn(|| {
            let liveness = Liveness::of(HolderId::current_thread());
            assert!(!liveness.has_ended());
            (liveness, Liveness::of(HolderId::new_guard()))
        });
        let (thread, guard) = theirs.join().unwrap();
        assert!(thread.has_ended());
        assert!(!mine.has_ended() && !guard.has_ended());
    }

    #[test]
    fn an_owner_can_have_several_names_and_the_newest_comes_first() {
        let first = OwnerId::new("client");
        let both = first.with_fresh_name();
        let (second, older) = both.split();
        assert_eq!(older.as_ref(), Some(&first));
        assert_ne!(second, first);
        assert_eq!(second.split(), (second.clone(), None));
        assert_eq!(both.newest(1), second);
        assert_eq!(both.newest(9), both);
    }

    #[test]
    fn all_names_of_an_owner_of_a_fair_lock_begin_with_a_zero() {
        let owner = OwnerId::of_fair_lock("client").with_fresh_name();
        let names: Vec<&str> = owner.as_str().split(' ').collect();
        assert_eq!(names.len(), 2);
        assert!(names.iter().all(|name| name.starts_with("client:0")));
        let plain = OwnerId::new("client").with_fresh_name();
        assert!(!plain.as_str().contains(":0"));
    }

    #[test]
    fn a_secret_name_tells_nothing_of_the_next_one() {
        let client = "6ba7b810-9dad-81d1-80b4-00c04fd430c8";
        for owner in [OwnerId::new(client), OwnerId::of_fair_lock(client)] {
            let names = [(); 2].map(|()| owner.with_secret_name().split().0);
            let [one, other] = names.each_ref().map(|name| name.number().unwrap());
            assert!(one.abs_diff(other) > 1 << 32, "{names:?}");
            assert!(one.max(other) <= i64::MAX as u64, "{names:?}");
            let is_fair = owner.as_str().contains(":0");
            for name in &names {
                assert!(name.is_secret() && OwnerId::parse(name.as_str()).is_some());
                assert_eq!(name.as_str().contains(":0"), is_fair, "{name:?}");
            }
            assert!(!owner.is_secret() && !owner.with_fresh_name().is_secret());
        }
        assert!(OwnerId::of_permits(1).with_secret_name().is_secret());
    }

    #[test]
    fn each_copy_of_a_request_for_a_permit_has_an_id_of_its_own() {
        let both = OwnerId::of_permits(3).with_fresh_name();
        let (second, first) = both.split();
        assert_eq!(
            [both.permits(), second.permits(), first.unwrap().permits()],
            [3; 3]
        );
        let ids: HashSet<&str> = both.permit_ids().collect();
        assert_eq!(ids.len(), 6);
        assert!(ids.iter().all(|id| OwnerId::of_permit_id(id).is_some()));
        for id in ["", "0123", &"g".repeat(32), &"0".repeat(64)] {
            assert_eq!(OwnerId::of_permit_id(id), None);
        }
    }
}
