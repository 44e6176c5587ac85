//! The Lua scripts, their calls, and the meaning of their replies.

use std::sync::LazyLock;
use std::time::Duration;

use redis::{Cmd, ErrorKind, RedisError, RedisResult, Value};

use crate::base::key::LockKey;
use crate::base::owner::OwnerId;
use crate::error::LostReason;

/// A script in `lua/`. Its header documents its keys, arguments and replies.
#[derive(Debug)]
pub(crate) struct Script {
    source: &'static str,
    sha: String,
}

impl Script {
    fn new(source: &'static str) -> Self {
        Self {
            sha: sha1_smol::Sha1::from(source).digest().to_string(),
            source,
        }
    }
}

macro_rules! scripts {
    ($($name:ident = $file:literal),+ $(,)?) => {
        $(static $name: LazyLock<Script> =
            LazyLock::new(|| Script::new(include_str!(concat!("../lua/", $file))));)+
    };
}

scripts! {
    ACQUIRE = "acquire.lua",
    RECOUNT = "recount.lua",
    RELEASE = "release.lua",
    LEAVE = "leave.lua",
    RENEW = "renew.lua",
    INSPECT = "inspect.lua",
    FORCE_UNLOCK = "force_unlock.lua",
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

/// One call of a script.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    script: &'static Script,
    /// A second copy of the call has no further effect.
    repeatable: bool,
    /// The call acquires a lock, so replicas may have to confirm it.
    acquires: bool,
    /// The call publishes a release. Its last argument is the command that publishes at the server
    /// to which it is sent.
    publishes: bool,
    keys: Vec<Box<[u8]>>,
    args: Vec<Box<[u8]>>,
}

impl Call {
    fn new(script: &'static Script) -> Self {
        Self {
            script,
            repeatable: true,
            acquires: false,
            publishes: false,
            keys: Vec::with_capacity(2),
            args: Vec::with_capacity(3),
        }
    }

    fn key(mut self, key: &str) -> Self {
        self.keys.push(key.as_bytes().into());
        self
    }

    fn arg(mut self, arg: impl AsRef<[u8]>) -> Self {
        self.args.push(arg.as_ref().into());
        self
    }

    pub(crate) fn is_repeatable(&self) -> bool {
        self.repeatable
    }

    /// True if the call acquired a lock, according to this reply.
    pub(crate) fn has_taken(&self, reply: &Value) -> bool {
        self.acquires && !matches!(reply, Value::Int(_))
    }

    /// True if the call released a lock, according to this reply.
    pub(crate) fn has_released(&self, reply: &Value) -> bool {
        self.publishes && *reply == Value::Int(1)
    }

    /// Makes the call publish the release of the lock.
    fn publishing_to(self, key: &LockKey) -> Self {
        Self {
            publishes: true,
            ..self.arg(&**key.channel())
        }
    }

    /// The command that calls the script by its hash. The server must know the script.
    pub(crate) fn by_hash(&self, publish: Publish) -> Vec<u8> {
        self.packed("EVALSHA", &self.script.sha, publish)
    }

    /// The command that calls the script by its source. The server then knows the script.
    pub(crate) fn by_source(&self, publish: Publish) -> Vec<u8> {
        self.packed("EVAL", self.script.source, publish)
    }

    fn packed(&self, command: &str, script: &str, publish: Publish) -> Vec<u8> {
        let mut cmd = Cmd::new();
        cmd.arg(command).arg(script).arg(self.keys.len());
        for part in self.keys.iter().chain(&self.args) {
            cmd.arg(&part[..]);
        }
        if self.publishes {
            cmd.arg(publish.command());
        }
        cmd.get_packed_command()
    }
}

/// The result of one attempt to acquire a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AcquireReply {
    /// Acquired, with a fencing token if one was requested.
    Taken(Option<u64>),
    /// Another client or thread holds it, for this many milliseconds; `None` if the lease never
    /// ends.
    Held(Option<u64>),
}

/// How long Redis keeps the last fencing token of an unused lock. Without a limit one key would
/// stay for every name that was ever used, as with Redisson. When the key is gone, the next token
/// is derived from the server's clock. So tokens can decrease only if that clock is set back by
/// more than this.
const TOKEN_KEPT: Duration = Duration::from_secs(7 * 24 * 3600);

/// Acquires a lock for `millis` milliseconds.
pub(crate) fn acquire(key: &LockKey, owner: &OwnerId, millis: u64) -> Call {
    let call = Call::new(&ACQUIRE)
        .key(key.key())
        .arg(owner.as_str())
        .arg(millis.to_string());
    Call {
        acquires: true,
        ..call
    }
}

/// Acquires a lock for `millis` milliseconds, and requests a fencing token.
pub(crate) fn acquire_fenced(key: &LockKey, owner: &OwnerId, millis: u64) -> Call {
    acquire(key, owner, millis)
        .key(&key.last_token())
        .arg(TOKEN_KEPT.as_millis().to_string())
}

/// The reply to [`acquire`].
pub(crate) fn acquire_reply(reply: &Value) -> RedisResult<AcquireReply> {
    match reply {
        Value::Nil => Ok(AcquireReply::Taken(None)),
        Value::Int(millis) => Ok(AcquireReply::Held(u64::try_from(*millis).ok())),
        other => Err(unexpected(other)),
    }
}

/// The reply to [`acquire_fenced`].
pub(crate) fn fenced_acquire_reply(reply: &Value) -> RedisResult<AcquireReply> {
    match reply {
        Value::Array(parts) => match parts[..] {
            [Value::Int(token)] if token > 0 => Ok(AcquireReply::Taken(Some(token.unsigned_abs()))),
            _ => Err(unexpected(reply)),
        },
        Value::Int(millis) => Ok(AcquireReply::Held(u64::try_from(*millis).ok())),
        other => Err(unexpected(other)),
    }
}

/// Sets the hold count, and extends the lease to `millis` milliseconds if it is shorter. If the
/// owner has several names, the hold gets the newest one.
pub(crate) fn recount(key: &LockKey, owner: &OwnerId, count: u32, millis: u64) -> Call {
    let call = Call::new(&RECOUNT)
        .key(key.key())
        .arg(owner.as_str())
        .arg(count.to_string())
        .arg(millis.to_string());
    if owner.is_uncertain() {
        call.arg(owner.split().0.as_str())
    } else {
        call.arg("")
    }
}

/// Releases a lock, and publishes that.
pub(crate) fn release(key: &LockKey, owner: &OwnerId) -> Call {
    Call::new(&RELEASE)
        .key(key.key())
        .arg(owner.as_str())
        .publishing_to(key)
}

/// Releases a lock of `owner`, but leaves it held by `name` for `millis` milliseconds.
pub(crate) fn leave(key: &LockKey, owner: &OwnerId, millis: u64, name: &OwnerId) -> Call {
    Call::new(&LEAVE)
        .key(key.key())
        .arg(owner.as_str())
        .arg(millis.to_string())
        .arg(name.as_str())
        .publishing_to(key)
}

/// A hold count to write, for an owner with several names.
#[derive(Clone, Debug)]
pub(crate) struct Count {
    pub(crate) key: LockKey,
    pub(crate) owner: OwnerId,
    pub(crate) count: u32,
}

impl Count {
    pub(crate) fn call(&self) -> Call {
        recount(&self.key, &self.owner, self.count, 0)
    }
}

/// Redis' reply about a hold of this client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The lock was held, and the request was executed.
    Done,
    Lost(LostReason),
}

pub(crate) fn verdict(reply: &Value) -> RedisResult<Verdict> {
    match reply {
        Value::Int(1) => Ok(Verdict::Done),
        Value::Int(0) => Ok(Verdict::Lost(LostReason::Deleted)),
        Value::Int(-1) => Ok(Verdict::Lost(LostReason::Taken)),
        other => Err(unexpected(other)),
    }
}

/// One lock to renew, and its lease in milliseconds.
#[derive(Clone, Debug)]
pub(crate) struct Renewal {
    pub(crate) key: LockKey,
    pub(crate) owner: OwnerId,
    pub(crate) millis: u64,
}

/// Renews several locks in one call.
pub(crate) fn renew<'a>(renewals: impl IntoIterator<Item = &'a Renewal>) -> Call {
    renewals
        .into_iter()
        .fold(Call::new(&RENEW), |call, renewal| {
            call.key(renewal.key.key())
                .arg(renewal.owner.as_str())
                .arg(renewal.millis.to_string())
        })
}

/// The verdict about the only lock of a call.
pub(crate) fn only_verdict(reply: &Value) -> RedisResult<Verdict> {
    verdicts(reply, 1).map(|verdicts| verdicts[0])
}

/// The verdicts about the `count` locks of a call.
pub(crate) fn verdicts(reply: &Value, count: usize) -> RedisResult<Vec<Verdict>> {
    match reply {
        Value::Array(replies) if replies.len() == count => replies.iter().map(verdict).collect(),
        other => Err(unexpected(other)),
    }
}

/// The holder of a lock, according to Redis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Inspected {
    /// `None` if the lease never ends.
    pub(crate) millis_left: Option<u64>,
    pub(crate) owner: String,
    pub(crate) hold_count: u32,
}

impl Inspected {
    /// The time left of the lease; [`Duration::MAX`] if it never ends.
    pub(crate) fn left(&self) -> Duration {
        self.millis_left
            .map_or(Duration::MAX, Duration::from_millis)
    }
}

pub(crate) fn inspect(key: &LockKey) -> Call {
    Call::new(&INSPECT).key(key.key())
}

pub(crate) fn inspected(reply: Value) -> RedisResult<Option<Inspected>> {
    let found: Option<(i64, String, u32)> = redis::from_redis_value(reply)?;
    Ok(found.map(|(pttl, owner, hold_count)| Inspected {
        millis_left: u64::try_from(pttl).ok(),
        owner,
        hold_count,
    }))
}

/// Describes the value of another type, and its key, from the error of a script (`WRONGTYPE lock: a
/// list`) or of a command in a script.
pub(crate) fn found(key: &LockKey, error: &RedisError) -> String {
    match error.detail().and_then(|detail| detail.split_once(": ")) {
        Some(("lock", what)) => format!("{what} in the key {:?}", key.key()),
        Some(("token", what)) => format!("{what} in the token key {:?}", key.last_token()),
        _ => format!("a value that is not a hash in the key {:?}", key.key()),
    }
}

/// Releases a lock of any owner. Not repeatable: a second copy could release the lock of the next
/// holder.
pub(crate) fn force_unlock(key: &LockKey) -> Call {
    Call {
        repeatable: false,
        ..Call::new(&FORCE_UNLOCK).key(key.key()).publishing_to(key)
    }
}

/// True if [`force_unlock`] released a lock.
pub(crate) fn forced(reply: &Value) -> RedisResult<bool> {
    verdict(reply).map(|verdict| verdict == Verdict::Done)
}

fn unexpected(reply: &Value) -> RedisError {
    RedisError::from((
        ErrorKind::UnexpectedReturnType,
        "unexpected reply from a lock script",
        format!("{reply:?}"),
    ))
}

#[cfg(test)]
mod tests;
