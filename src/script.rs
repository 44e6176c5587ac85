//! The Lua scripts, how they are called, and what their replies mean.

use std::sync::LazyLock;
use std::time::Duration;

use redis::{Cmd, ErrorKind, RedisError, RedisResult, Value};

use crate::base::key::LockKey;
use crate::base::owner::OwnerId;
use crate::error::LostReason;

/// A script of `lua/`, whose header says what its keys, arguments and replies are.
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

/// How a release is announced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Publish {
    /// To every server.
    ToAll,
    /// To the servers of one shard, where a cluster knows how.
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
    /// Sending it twice does its work once.
    repeatable: bool,
    /// What it grants may be worth nothing before replicas have it.
    acquires: bool,
    /// Its last argument is how the server that it is sent to announces a release.
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

    /// Whether it has just taken a lock, by this reply.
    pub(crate) fn has_taken(&self, reply: &Value) -> bool {
        self.acquires && !matches!(reply, Value::Int(_))
    }

    /// Whether it has just released a lock, by this reply.
    pub(crate) fn has_released(&self, reply: &Value) -> bool {
        self.publishes && *reply == Value::Int(1)
    }

    /// Announces the release of the lock.
    fn publishing_to(self, key: &LockKey) -> Self {
        Self {
            publishes: true,
            ..self.arg(&**key.channel())
        }
    }

    /// By its hash, as long as the server knows the script.
    pub(crate) fn by_hash(&self, publish: Publish) -> Vec<u8> {
        self.packed("EVALSHA", &self.script.sha, publish)
    }

    /// By its source, which also makes the server know it.
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

/// What one attempt at a lock found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Attempt {
    /// With a fencing token, if it was asked for.
    Taken(Option<u64>),
    /// Somebody else holds it, for so many milliseconds more; `None`: it never expires.
    Held(Option<u64>),
}

/// How long Redis keeps the last fencing token of a lock that nobody takes any more. Without a bound
/// one key stays for every name that was ever used, as Redisson's do. Once the key is gone, tokens
/// rise on from the server's clock, so they would fall only if that were set back by more than this.
const TOKEN_KEPT: Duration = Duration::from_secs(7 * 24 * 3600);

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

/// As [`acquire`], and asks for a fencing token.
pub(crate) fn acquire_fenced(key: &LockKey, owner: &OwnerId, millis: u64) -> Call {
    acquire(key, owner, millis)
        .key(&key.last_token())
        .arg(TOKEN_KEPT.as_millis().to_string())
}

pub(crate) fn attempt(reply: &Value) -> RedisResult<Attempt> {
    match reply {
        Value::Nil => Ok(Attempt::Taken(None)),
        Value::Int(millis) => Ok(Attempt::Held(u64::try_from(*millis).ok())),
        other => Err(unexpected(other)),
    }
}

pub(crate) fn attempt_fenced(reply: &Value) -> RedisResult<Attempt> {
    match reply {
        Value::Array(parts) => match parts[..] {
            [Value::Int(token)] if token > 0 => Ok(Attempt::Taken(Some(token.unsigned_abs()))),
            _ => Err(unexpected(reply)),
        },
        Value::Int(millis) => Ok(Attempt::Held(u64::try_from(*millis).ok())),
        other => Err(unexpected(other)),
    }
}

/// An owner of several names has the newest from then on.
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

pub(crate) fn release(key: &LockKey, owner: &OwnerId) -> Call {
    Call::new(&RELEASE)
        .key(key.key())
        .arg(owner.as_str())
        .publishing_to(key)
}

/// As [`release`], but the lock stays for so many milliseconds more, under a name of its own.
pub(crate) fn leave(key: &LockKey, owner: &OwnerId, millis: u64, name: &OwnerId) -> Call {
    Call::new(&LEAVE)
        .key(key.key())
        .arg(owner.as_str())
        .arg(millis.to_string())
        .arg(name.as_str())
        .publishing_to(key)
}

/// A hold count to be written, for an owner of several names.
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

/// What Redis says of a hold that was believed to stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It stood, and what was asked is done.
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

/// One lock of a renewal.
#[derive(Clone, Debug)]
pub(crate) struct Renewal {
    pub(crate) key: LockKey,
    pub(crate) owner: OwnerId,
    pub(crate) millis: u64,
}

pub(crate) fn renew<'a>(renewals: impl IntoIterator<Item = &'a Renewal>) -> Call {
    renewals
        .into_iter()
        .fold(Call::new(&RENEW), |call, renewal| {
            call.key(renewal.key.key())
                .arg(renewal.owner.as_str())
                .arg(renewal.millis.to_string())
        })
}

/// The verdict on the one lock of a call.
pub(crate) fn only_verdict(reply: &Value) -> RedisResult<Verdict> {
    verdicts(reply, 1).map(|verdicts| verdicts[0])
}

/// One verdict for each of the `count` locks asked for.
pub(crate) fn verdicts(reply: &Value, count: usize) -> RedisResult<Vec<Verdict>> {
    match reply {
        Value::Array(replies) if replies.len() == count => replies.iter().map(verdict).collect(),
        other => Err(unexpected(other)),
    }
}

/// Who holds a lock, as Redis tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Inspected {
    /// `None`: it never expires.
    pub(crate) millis_left: Option<u64>,
    pub(crate) owner: String,
    pub(crate) hold_count: u32,
}

impl Inspected {
    /// What is left of the lease, as the trait `Lock` tells it.
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

/// What a key of the lock holds that it should not, and which key, by the error of a script
/// (`WRONGTYPE lock: a list`) or of a command in one.
pub(crate) fn found(key: &LockKey, error: &RedisError) -> String {
    match error.detail().and_then(|detail| detail.split_once(": ")) {
        Some(("lock", what)) => format!("{what} in the key {:?}", key.key()),
        Some(("token", what)) => format!("{what} in the token key {:?}", key.last_token()),
        _ => format!("a value that is not a hash in the key {:?}", key.key()),
    }
}

/// Not repeatable: the second copy would break the hold of whoever came after the first.
pub(crate) fn force_unlock(key: &LockKey) -> Call {
    Call {
        repeatable: false,
        ..Call::new(&FORCE_UNLOCK).key(key.key()).publishing_to(key)
    }
}

/// Whether there was a hold to break.
pub(crate) fn forced(reply: &Value) -> RedisResult<bool> {
    verdict(reply).map(|verdict| verdict == Verdict::Done)
}

fn unexpected(reply: &Value) -> RedisError {
    RedisError::from((
        ErrorKind::UnexpectedReturnType,
        "a lock script gave a reply of another form than it is written to",
        format!("{reply:?}"),
    ))
}

#[cfg(test)]
mod tests;
