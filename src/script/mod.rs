//! The Lua scripts, and calls of them in the bytes that are sent to Redis.

use std::ops::Range;
use std::sync::LazyLock;

use redis::Value;

mod source;

use crate::base::LockKey;

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
        let packed = |command: &str, argument: &str| {
            let mut packed = Vec::new();
            pack(&mut packed, command.as_bytes());
            pack(&mut packed, argument.as_bytes());
            packed
        };
        let hash = sha1_smol::Sha1::from(source).digest().to_string();
        Self {
            by_hash: packed("EVALSHA", &hash),
            by_source: packed("EVAL", source),
        }
    }
}

macro_rules! scripts {
    ($($name:ident = $file:literal),+ $(,)?) => {
        $(pub(crate) static $name: LazyLock<Script> = LazyLock::new(|| {
            Script::new(&source::joined(include_str!(concat!("../../lua/", $file, ".lua"))))
        });)+

        /// The names and sources of all scripts.
        #[cfg(any(test, feature = "testing"))]
        pub(crate) fn named_sources() -> impl IntoIterator<Item = (&'static str, String)> {
            [$(($file, source::joined(include_str!(concat!("../../lua/", $file, ".lua"))))),+]
        }
    };
}

scripts! {
    ACQUIRE = "acquire",
    RELEASE = "release",
    LEAVE = "leave",
    LINE_LEAVE = "line_leave",
    LINE_LOOK = "line_look",
    RENEW = "renew",
    ADOPT = "adopt",
    FAIR_ACQUIRE = "fair_acquire",
    FAIR_RELEASE = "fair_release",
    FAIR_KEEP = "fair_keep",
    FAIR_LEAVE = "fair_leave",
    INSPECT = "inspect",
    FORCE_UNLOCK = "force_unlock",
    READ_WRITE_ACQUIRE = "read_write_acquire",
    READ_WRITE_RELEASE = "read_write_release",
    TAKE_PERMITS = "take_permits",
    CHANGE_NUMBER = "change_number",
    UNDO_REQUEST = "undo_request",
    READ_NUMBER = "read_number",
    CONDITION_WAIT = "condition_wait",
    CONDITION_RENEW = "condition_renew",
    CONDITION_NOTIFY = "condition_notify",
    CONDITION_END = "condition_end",
    PERMIT_ACQUIRE = "permit_acquire",
    PERMIT_RELEASE = "permit_release",
    PERMIT_RENEW = "permit_renew",
    PERMIT_ADOPT = "permit_adopt",
    PERMIT_TOTAL = "permit_total",
    PERMIT_COUNT = "permit_count",
    QUERY = "query",
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
}

/// One call of a script, or another command. The last argument of each script is the command that
/// publishes at the server to which the call is sent.
#[derive(Clone, Debug, Default)]
pub(crate) struct Call {
    /// `None` for a command that calls no script. Then `packed` is the command.
    script: Option<&'static Script>,
    /// A second copy of the call could do harm.
    is_once: bool,
    /// The call acquires locks, which replicas may have to confirm.
    is_acquiring: bool,
    /// Set if the call releases locks: true for a reply after which threads that listen at another
    /// server must be woken.
    releases: Option<fn(&Value) -> bool>,
    keys: usize,
    args: usize,
    /// The keys and then the arguments, in the bytes of the protocol of Redis.
    packed: Vec<u8>,
    /// Where the arguments begin.
    args_at: usize,
}

/// The most arguments of a request that every server takes. ElastiCache Serverless has this limit.
const MOST_ARGUMENTS: usize = 3_999;

/// The arguments of the call of a script besides its keys and its own arguments.
const OWN_ARGUMENTS: usize = 4;

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
            // Enough for one lock with a name of usual length.
            packed: Vec::with_capacity(256),
            ..Self::default()
        }
    }

    /// A command that calls no script, and whose second copy has no further effect.
    pub(crate) fn of_command(command: &redis::Cmd) -> Self {
        Self {
            packed: command.get_packed_command(),
            ..Self::default()
        }
    }

    /// Adds a key. All keys are added before the arguments.
    #[inline]
    pub(crate) fn key(self, key: &str) -> Self {
        self.key_in_bytes(key.as_bytes())
    }

    #[inline]
    pub(crate) fn key_in_bytes(mut self, key: &[u8]) -> Self {
        debug_assert_eq!(self.args, 0, "a key after an argument");
        self.keys += 1;
        pack(&mut self.packed, key);
        self.args_at = self.packed.len();
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

    /// Marks a call that acquires locks.
    pub(crate) fn acquiring(mut self) -> Self {
        self.is_acquiring = true;
        self
    }

    /// Marks a call that releases locks. A positive reply, or one among several, is a release.
    pub(crate) fn releasing(self) -> Self {
        fn is_release(reply: &Value) -> bool {
            match reply {
                Value::Array(replies) => replies.iter().any(is_release),
                reply => matches!(reply, Value::Int(1..)),
            }
        }
        self.releasing_if(is_release)
    }

    /// Marks a call that releases locks. `is_release` is true for the reply after which all threads
    /// that listen must be woken.
    pub(crate) fn releasing_if(mut self, is_release: fn(&Value) -> bool) -> Self {
        self.releases = Some(is_release);
        self
    }

    /// Marks a call whose second copy could do harm.
    pub(crate) fn not_repeatable(mut self) -> Self {
        self.is_once = true;
        self
    }

    pub(crate) fn is_repeatable(&self) -> bool {
        !self.is_once
    }

    /// True if the call acquires locks.
    pub(crate) fn is_acquiring(&self) -> bool {
        self.is_acquiring
    }

    /// True if the call acquired locks, according to this reply.
    pub(crate) fn has_taken(&self, reply: &Value) -> bool {
        self.is_acquiring && granted(reply).is_some()
    }

    /// True if the call released what threads wait for, according to this reply.
    pub(crate) fn has_released(&self, reply: &Value) -> bool {
        self.releases.is_some_and(|is_release| is_release(reply))
    }

    /// True if this call and `other` can be one call, with the keys and arguments of both.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        self.order() == other.order()
    }

    /// The same number for calls that are alike, and only for those.
    pub(crate) fn order(&self) -> usize {
        self.script
            .map_or(0, |script| std::ptr::from_ref(script).addr())
    }

    /// The number of arguments, with the command.
    fn length(&self) -> usize {
        OWN_ARGUMENTS + self.keys + self.args
    }

    /// True if some servers refuse the call, because it has too many arguments.
    pub(crate) fn is_too_long(&self) -> bool {
        self.length() > MOST_ARGUMENTS
    }

    /// How many calls like this one can be one call that every server takes.
    pub(crate) fn most_joined(&self) -> usize {
        let each = (self.keys + self.args).max(1);
        ((MOST_ARGUMENTS - OWN_ARGUMENTS) / each).max(1)
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

    /// Appends the command: the call of the script by its source, or by its hash, which the server
    /// must know.
    pub(crate) fn pack(&self, by_source: bool, publish: Publish, packed: &mut Vec<u8>) {
        let Some(script) = self.script else {
            packed.extend_from_slice(&self.packed);
            return;
        };
        let script = if by_source {
            &script.by_source
        } else {
            &script.by_hash
        };
        packed.reserve(self.packed.len() + script.len() + 64);
        pack_number(packed, b'*', self.length());
        packed.extend_from_slice(script);
        match u8::try_from(self.keys) {
            Ok(keys @ 0..10) => {
                packed.extend_from_slice(&[b'$', b'1', b'\r', b'\n', b'0' + keys, b'\r', b'\n']);
            }
            _ => pack(packed, itoa::Buffer::new().format(self.keys).as_bytes()),
        }
        packed.extend_from_slice(&self.packed);
        pack(packed, publish.command().as_bytes());
    }
}

/// The fencing tokens, if there are any, of a reply that grants what a call was to acquire. `None`
/// for another reply.
pub(crate) fn granted(reply: &Value) -> Option<Range<u64>> {
    match reply {
        Value::Nil | Value::Int(1..) => Some(0..0),
        Value::Array(parts) => match parts[..] {
            [Value::Int(first @ 1..), Value::Int(count @ 1..)] => {
                let first = first.unsigned_abs();
                Some(first..first + count.unsigned_abs())
            }
            _ => None,
        },
        _ => None,
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
        .flag(key.family().has_permits())
}

/// How a client looks after the line of a lock.
pub(crate) struct Look<'a> {
    /// The place of the client, if one of its threads waits.
    pub(crate) place: Option<&'a str>,
    /// The last look may have found a call without an answer.
    pub(crate) follows_call: bool,
    /// The thread also listens to the channel for releases.
    pub(crate) listens: bool,
    /// What the thread waits for has a lease.
    pub(crate) has_lease: bool,
}

/// Looks after the line of a lock.
pub(crate) fn look_at_line(key: &LockKey, look: &Look<'_>) -> Call {
    let permits = match (key.family().has_permits(), look.has_lease) {
        (false, _) => "0",
        (true, false) => "1",
        (true, true) => "2",
    };
    Call::new(&LINE_LOOK)
        .key(key.key())
        .arg(look.place.unwrap_or_default())
        .flag(look.follows_call)
        .arg(permits)
        .flag(look.listens)
}

/// Releases a lock of any owner. Not repeatable: a second copy could release the lock of the next
/// holder.
pub(crate) fn force_unlock(key: &LockKey) -> Call {
    Call::new(&FORCE_UNLOCK)
        .key(key.key())
        .arg(&**key.channel())
        .releasing()
        .not_repeatable()
}

#[cfg(test)]
mod tests;
#[cfg(test)]
pub(crate) use tests::constant;
