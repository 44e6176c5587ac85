//! The Lua scripts, and calls of them in the bytes that are sent to Redis.

use std::sync::LazyLock;

use redis::Value;

mod source;

use crate::base::key::LockKey;

/// A script in `lua/`. Its header documents its keys, arguments and replies. `source` adds the
/// shared files that it requires.
#[derive(Debug)]
pub(crate) struct Script {
    /// The first arguments of a call by the hash, in the bytes of the protocol of Redis.
    by_hash: Vec<u8>,
    /// The first arguments of a call by the source.
    by_source: Vec<u8>,
}

impl Script {
    pub(crate) fn new(source: &str) -> Self {
        let packed = |arguments: [&str; 2]| {
            let mut packed = Vec::new();
            for argument in arguments {
                pack(&mut packed, argument.as_bytes());
            }
            packed
        };
        Self {
            by_hash: packed(["EVALSHA", &hash_of(source.as_bytes())]),
            by_source: packed(["EVAL", source]),
        }
    }
}

/// The hash under which a server knows a script.
pub(crate) fn hash_of(source: &[u8]) -> String {
    sha1_smol::Sha1::from(source).digest().to_string()
}

macro_rules! scripts {
    ($($name:ident = $file:literal),+ $(,)?) => {
        $(pub(crate) static $name: LazyLock<Script> = LazyLock::new(|| {
            Script::new(&source::joined(include_str!(concat!("../../lua/", $file, ".lua"))))
        });)+

        /// The names and sources of all scripts.
        #[cfg(any(test, feature = "testing"))]
        pub(crate) fn named_sources() -> impl Iterator<Item = (&'static str, String)> {
            let files = [$(($file, include_str!(concat!("../../lua/", $file, ".lua")))),+];
            files.into_iter().map(|(name, text)| (name, source::joined(text)))
        }
    };
}

scripts! {
    ACQUIRE = "acquire",
    RELEASE = "release",
    LEAVE = "leave",
    LINE_LEAVE = "line_leave",
    RENEW = "renew",
    FAIR_ACQUIRE = "fair_acquire",
    FAIR_RELEASE = "fair_release",
    FAIR_KEEP = "fair_keep",
    FAIR_LEAVE = "fair_leave",
    INSPECT = "inspect",
    FORCE_UNLOCK = "force_unlock",
    READ_ACQUIRE = "read_acquire",
    READ_WRITE_RELEASE = "read_write_release",
    READ_RENEW = "read_renew",
    WRITE_ACQUIRE = "write_acquire",
    READ_WRITE_INSPECT = "read_write_inspect",
    TAKE_PERMITS = "take_permits",
    DRAIN_PERMITS = "drain_permits",
    ADD_PERMITS = "add_permits",
    GIVE_BACK_PERMITS = "give_back_permits",
    CANCEL_REQUEST = "cancel_request",
    COUNT_DOWN = "count_down",
    SET_NUMBER = "set_number",
    READ_NUMBER = "read_number",
    CONDITION_WAIT = "condition_wait",
    CONDITION_RENEW = "condition_renew",
    CONDITION_NOTIFY = "condition_notify",
    CONDITION_END = "condition_end",
    PERMIT_ACQUIRE = "permit_acquire",
    PERMIT_RELEASE = "permit_release",
    PERMIT_RENEW = "permit_renew",
    PERMIT_TOTAL = "permit_total",
    PERMIT_COUNT = "permit_count",
}

/// How a release is published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Publish {
    /// To all servers of a cluster (`PUBLISH`).
    ToAll,
    /// To the servers of one shard (`SPUBLISH`), if the cluster supports it.
    ToShard,
}

impl Publish {
    pub(crate) fn command(self) -> &'static str {
        match self {
            Self::ToAll => "publish",
            Self::ToShard => "spublish",
        }
    }

    /// The command as an argument, in the bytes of the protocol of Redis.
    fn packed(self) -> &'static [u8] {
        match self {
            Self::ToAll => b"$7\r\npublish\r\n",
            Self::ToShard => b"$8\r\nspublish\r\n",
        }
    }
}

/// One call of a script, or another command.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    /// `None` for a command that calls no script. Then `packed` is the command.
    script: Option<&'static Script>,
    /// A second copy of the call has no further effect.
    repeatable: bool,
    /// Set if the call acquires locks, which replicas may have to confirm: true for a reply after
    /// which the caller holds them.
    grants: Option<fn(&Value) -> bool>,
    /// Set if the call publishes. Its last argument is the command that publishes at the server to
    /// which it is sent. True for a reply after which threads that listen at another server must
    /// be woken.
    publishes: Option<fn(&Value) -> bool>,
    keys: usize,
    args: usize,
    /// The keys and then the arguments, in the bytes of the protocol of Redis.
    packed: Vec<u8>,
    /// Where the arguments begin.
    args_at: usize,
}

/// Appends an argument of a command.
fn pack(packed: &mut Vec<u8>, argument: &[u8]) {
    pack_number(packed, b'$', argument.len());
    packed.extend_from_slice(argument);
    packed.extend_from_slice(b"\r\n");
}

fn pack_number(packed: &mut Vec<u8>, mark: u8, number: usize) {
    // Nearly every number is short. Fixed lengths are faster to append.
    if number < 100 {
        let (tens, ones) = (b'0' + (number / 10) as u8, b'0' + (number % 10) as u8);
        return match tens {
            b'0' => packed.extend_from_slice(&[mark, ones, b'\r', b'\n']),
            _ => packed.extend_from_slice(&[mark, tens, ones, b'\r', b'\n']),
        };
    }
    packed.push(mark);
    packed.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
    packed.extend_from_slice(b"\r\n");
}

impl Call {
    pub(crate) fn new(script: &'static Script) -> Self {
        Self {
            script: Some(script),
            repeatable: true,
            grants: None,
            publishes: None,
            keys: 0,
            args: 0,
            // Enough for one lock with a name of usual length.
            packed: Vec::with_capacity(256),
            args_at: 0,
        }
    }

    /// A command that calls no script, and whose second copy has no further effect.
    pub(crate) fn of_command(command: &redis::Cmd) -> Self {
        Self {
            script: None,
            repeatable: true,
            grants: None,
            publishes: None,
            keys: 0,
            args: 0,
            packed: command.get_packed_command(),
            args_at: 0,
        }
    }

    #[inline]
    pub(crate) fn key(mut self, key: &str) -> Self {
        self.keys += 1;
        let before = self.packed.len();
        pack(&mut self.packed, key.as_bytes());
        let length = self.packed.len() - before;
        if self.args_at < before {
            // Before the arguments.
            self.packed[self.args_at..].rotate_right(length);
        }
        self.args_at += length;
        self
    }

    #[inline]
    pub(crate) fn arg(mut self, arg: impl AsRef<[u8]>) -> Self {
        self.args += 1;
        pack(&mut self.packed, arg.as_ref());
        self
    }

    /// Adds 1 as an argument, or 0.
    pub(crate) fn flag(self, is_set: bool) -> Self {
        self.arg(if is_set { "1" } else { "0" })
    }

    /// Marks a call that acquires locks. `grants` is true for the reply that grants them.
    pub(crate) fn acquiring(self, grants: fn(&Value) -> bool) -> Self {
        Self {
            grants: Some(grants),
            ..self
        }
    }

    /// Marks a call that publishes releases. Its last argument is the command that publishes. A
    /// positive reply, or one among several, is a release.
    pub(crate) fn publishing(self) -> Self {
        self.publishing_if(|reply| {
            let is_release = |reply: &Value| matches!(reply, Value::Int(1..));
            match reply {
                Value::Array(replies) => replies.iter().any(is_release),
                reply => is_release(reply),
            }
        })
    }

    /// Marks a call that publishes. Its last argument is the command that publishes. `is_release`
    /// is true for the reply after which all threads that listen must be woken.
    pub(crate) fn publishing_if(self, is_release: fn(&Value) -> bool) -> Self {
        Self {
            publishes: Some(is_release),
            ..self
        }
    }

    /// Marks a call whose second copy could do harm.
    pub(crate) fn not_repeatable(self) -> Self {
        Self {
            repeatable: false,
            ..self
        }
    }

    pub(crate) fn is_repeatable(&self) -> bool {
        self.repeatable
    }

    /// True if the call acquires locks.
    pub(crate) fn is_acquiring(&self) -> bool {
        self.grants.is_some()
    }

    /// True if the call acquired locks, according to this reply.
    pub(crate) fn has_taken(&self, reply: &Value) -> bool {
        self.grants.is_some_and(|grants| grants(reply))
    }

    /// True if the call released what threads wait for, according to this reply.
    pub(crate) fn has_released(&self, reply: &Value) -> bool {
        self.publishes.is_some_and(|is_release| is_release(reply))
    }

    /// True if this call and `other` can be one call, with the keys and arguments of both.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        self.order() == other.order()
    }

    /// Sorts calls so that those that are alike are neighbours.
    pub(crate) fn order(&self) -> usize {
        let script = self.script.map(std::ptr::from_ref);
        script.map_or(0, <*const Script>::addr)
    }

    /// One call with the keys and arguments of all of these, which are alike; `None` without one.
    pub(crate) fn joined(calls: impl IntoIterator<Item = Self>) -> Option<Self> {
        calls.into_iter().reduce(|joined, call| joined.join(&call))
    }

    /// Adds the keys and arguments of `other`.
    pub(crate) fn join(mut self, other: &Self) -> Self {
        let args = self.packed.split_off(self.args_at);
        let (other_keys, other_args) = other.packed.split_at(other.args_at);
        for more in [other_keys, &args, other_args] {
            self.packed.extend_from_slice(more);
        }
        self.keys += other.keys;
        self.args += other.args;
        self.args_at += other.args_at;
        self
    }

    /// Appends the command that calls the script by its hash. The server must know the script.
    pub(crate) fn pack_by_hash(&self, publish: Publish, packed: &mut Vec<u8>) {
        self.pack(|script| &script.by_hash, publish, packed);
    }

    /// Appends the command that calls the script by its source. The server then knows the script.
    pub(crate) fn pack_by_source(&self, publish: Publish, packed: &mut Vec<u8>) {
        self.pack(|script| &script.by_source, publish, packed);
    }

    fn pack(&self, form: fn(&Script) -> &[u8], publish: Publish, packed: &mut Vec<u8>) {
        let Some(script) = self.script.map(form) else {
            packed.extend_from_slice(&self.packed);
            return;
        };
        let count = 3 + self.keys + self.args + usize::from(self.publishes.is_some());
        packed.reserve(self.packed.len() + script.len() + 64);
        pack_number(packed, b'*', count);
        packed.extend_from_slice(script);
        if let Ok(keys @ 0..10) = u8::try_from(self.keys) {
            packed.extend_from_slice(&[b'$', b'1', b'\r', b'\n', b'0' + keys, b'\r', b'\n']);
        } else {
            pack(packed, itoa::Buffer::new().format(self.keys).as_bytes());
        }
        packed.extend_from_slice(&self.packed);
        if self.publishes.is_some() {
            packed.extend_from_slice(publish.packed());
        }
    }
}

/// Reads the owner of a lock of any kind.
pub(crate) fn inspect_any(key: &LockKey) -> Call {
    Call::new(&INSPECT).key(key.key()).arg("any")
}

/// Ends the wait of the client that has this place in the line of a lock: always, or only if the
/// client was called and has not answered.
pub(crate) fn leave_line(key: &LockKey, place: &str, only_if_called: bool) -> Call {
    Call::new(&LINE_LEAVE)
        .key(key.key())
        .arg(place)
        .flag(only_if_called)
        // It releases nothing.
        .publishing_if(|_| false)
}

/// Releases a lock of any owner. Not repeatable: a second copy could release the lock of the next
/// holder.
pub(crate) fn force_unlock(key: &LockKey) -> Call {
    Call::new(&FORCE_UNLOCK)
        .key(key.key())
        .arg(&**key.channel())
        .publishing()
        .not_repeatable()
}

#[cfg(test)]
mod tests;
