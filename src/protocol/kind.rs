//! What the kinds of locks differ in: each kind is one [`Kind`], and has a file of its own.
//!
//! A kind is written as the difference to [`PLAIN`](super::PLAIN), a hash of owner to hold count.

use std::borrow::Cow;
use std::fmt;
use std::sync::LazyLock;

use redis::Value;

use super::AcquireOptions;
use crate::base::{Family, LockKey, OwnerId};
use crate::script::{Call, Script};

/// One kind of lock: its properties, its scripts, and the parts of their keys, arguments and
/// replies that differ between kinds. Each grant has an owner id of its own. Grants of one kind do
/// not suit another.
pub(crate) struct Kind {
    /// The name of the kind, also in spans.
    pub(crate) name: &'static str,
    pub(super) family: Family,
    /// Several threads of a client hold the lock at the same time, and may share a grant. Locks of
    /// the same id whose holds are not shared exclude them.
    pub(crate) is_shared: bool,
    /// A thread needs the ticket of the lock for each request, and its hold is its own. Otherwise
    /// threads need a ticket only to wait, several threads of a client can have holds at the same
    /// time, each with a grant of its own, and no hold belongs to a thread.
    pub(crate) has_ticket: bool,
    /// One call can acquire several locks of this kind, all of them or none.
    pub(crate) is_joinable: bool,
    /// Each hold has a fencing token.
    pub(crate) has_tokens: bool,
    /// Clients that wait stand in a line (`lua/shared/line.lua`).
    pub(crate) has_line: bool,

    pub(super) to_acquire: &'static LazyLock<Script>,
    pub(super) to_release: &'static LazyLock<Script>,
    /// Releases a lock, but leaves it held by another owner id.
    pub(super) to_leave: &'static LazyLock<Script>,
    pub(super) to_renew: &'static LazyLock<Script>,
    /// Gives what an owner has to another owner id.
    pub(super) to_adopt: &'static LazyLock<Script>,
    /// The script that reads which owner has a lock, and the argument for this kind.
    pub(super) to_inspect: (&'static LazyLock<Script>, &'static str),

    /// Completes the names of a lock, for a channel that depends on the client.
    pub(super) names: fn(LockKey, &str) -> LockKey,
    /// A new owner id for a grant to a client whose owner ids begin with this.
    pub(crate) new_owner: fn(&str) -> OwnerId,
    /// Adds the keys of one lock to a call.
    pub(super) keys: fn(Call, &LockKey) -> Call,
    /// The names of an owner id in the form in which Redis has them.
    pub(super) written: fn(&OwnerId) -> Cow<'_, [u8]>,
    /// The channels of a lock, as the scripts that publish get them.
    pub(super) channel: fn(&LockKey) -> Cow<'_, str>,
    /// Adds the arguments of an acquire that follow the owner and the lease.
    pub(super) options: fn(Call, &[&LockKey], &OwnerId, &AcquireOptions) -> Call,
    /// The largest hold count that a renewal writes. `None`: it writes none.
    pub(super) largest_count: Option<u32>,
    /// The call that follows if the requests of a client were refused, and the caller waits no
    /// more; `None` if Redis knows of no client that waits. The last argument is the place of the
    /// client, if the lock has a line. All waits of the client have the same place.
    pub(crate) give_up: fn(&LockKey, &str, Option<&str>) -> Option<Call>,

    /// How many holds may use what a reply grants; `None` if that is not limited. The last argument
    /// is the number of threads that waited here when Redis first refused the lock, if it did.
    pub(crate) turns: fn(&Value, Option<u32>) -> Option<u32>,
}

impl Kind {
    /// The names of a lock in Redis. Its channel can depend on the client.
    pub(crate) fn names(&self, namespace: &str, name: &str, client: &str) -> LockKey {
        (self.names)(LockKey::of(self.family, namespace, name), client)
    }

    /// Acquires all of these locks for `owner`, or none, for `millis` milliseconds.
    pub(crate) fn acquire(
        &self,
        keys: &[&LockKey],
        owner: &OwnerId,
        millis: u64,
        options: &AcquireOptions,
    ) -> Call {
        let call = Call::new(self.to_acquire).acquiring();
        let mut call = keys.iter().fold(call, |call, key| (self.keys)(call, key));
        if self.has_tokens {
            call = keys
                .iter()
                .fold(call, |call, key| call.key(&key.last_token_key()));
        }
        let call = call
            .arg((self.written)(owner))
            .arg(itoa::Buffer::new().format(millis));
        (self.options)(call, keys, owner, options)
    }

    /// Releases a lock, and publishes that. `owner` may have several names.
    pub(crate) fn release(&self, key: &LockKey, owner: &OwnerId) -> Call {
        let call = (self.keys)(Call::new(self.to_release), key)
            .arg((self.written)(owner))
            .arg(&*(self.channel)(key))
            .releasing();
        self.permits(call, owner)
    }

    /// Releases a lock of `owner`, but leaves it held by `name` for `millis` milliseconds.
    pub(crate) fn leave(
        &self,
        key: &LockKey,
        owner: &OwnerId,
        millis: u64,
        name: &OwnerId,
    ) -> Call {
        (self.keys)(Call::new(self.to_leave), key)
            .arg((self.written)(owner))
            .arg(millis.to_string())
            .arg((self.written)(name))
            .arg(&*(self.channel)(key))
            .releasing()
    }

    /// Prolongs the lease to `millis` milliseconds if it is shorter; with 0, only confirms that
    /// Redis has the lock. Writes the hold count, if there is one.
    pub(crate) fn renew(
        &self,
        key: &LockKey,
        owner: &OwnerId,
        millis: u64,
        count: Option<u32>,
    ) -> Call {
        let call = Call::new(self.to_renew);
        let call = self.owners(call, key);
        let call = call.arg((self.written)(owner)).arg(millis.to_string());
        match self.largest_count {
            Some(largest) => {
                let count = count.map(|count| count.min(largest).to_string());
                call.arg(count.unwrap_or_default())
            }
            None => call,
        }
    }

    /// Gives the lock of the oldest of these names to the newest one, with a lease of at least
    /// `millis` milliseconds. The names between them are those of earlier copies.
    pub(crate) fn adopt(&self, key: &LockKey, owner: &OwnerId, millis: u64) -> Call {
        let call = self.owners(Call::new(self.to_adopt), key);
        let call = call.arg((self.written)(owner)).arg(millis.to_string());
        self.permits(call, owner)
    }

    /// Adds the number of permits to a call about permits.
    fn permits(&self, call: Call, owner: &OwnerId) -> Call {
        match self.family {
            Family::Semaphore => call.arg(owner.permits().to_string()),
            _ => call,
        }
    }

    /// Adds the keys of the owners of one lock to a call.
    fn owners(&self, call: Call, key: &LockKey) -> Call {
        match self.family {
            Family::Semaphore => (self.keys)(call, key),
            _ => call.key(key.key()),
        }
    }

    /// Reads an owner of a lock.
    pub(crate) fn inspect(&self, key: &LockKey) -> Call {
        let (script, argument) = self.to_inspect;
        Call::new(script).key(key.key()).arg(argument)
    }
}

/// A kind is the same as itself only, also if another one has the same name.
impl PartialEq for Kind {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

impl fmt::Debug for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::PLAIN;

    #[test]
    fn a_kind_with_the_same_name_is_another_kind() {
        static TWIN: Kind = Kind { ..PLAIN };
        let same: &Kind = &PLAIN;
        assert!(*same == PLAIN && TWIN != PLAIN);
    }
}
