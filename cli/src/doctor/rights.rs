//! Which permissions the user needs, and which are missing.

mod kinds;

pub(super) use kinds::kinds;

use redis::{Cmd, Value};

use super::finding::Finding;
use leasehold::admin::{LockKeys, ServerError};
use leasehold::{Hint, Permission};

/// When a permission is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum When {
    Always,
    /// Only for these kinds of locks, see [`kinds`].
    Kinds(&'static [&'static str]),
    /// A database other than 0. The login shows whether it is missing.
    Database,
    Sentinel,
    Cluster,
    /// A cluster with shard channels, which came with Redis 7.
    Shards,
    /// `--min-replicas`.
    Replicas,
    /// Only to look at locks, see [`looking`].
    Looking,
    /// Only to show the process of a holder, see [`holders`].
    Holders,
}

/// A permission, and the command that tests it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Right {
    /// The rule of ACL SETUSER, without the plus.
    pub(super) rule: &'static str,
    pub(super) when: When,
    /// A form of the command that changes nothing: Redis checks permissions before arguments.
    /// `{..}` is one of the [names](Names).
    pub(super) form: &'static str,
}

impl Right {
    const fn of(when: When, rule: &'static str, form: &'static str) -> Self {
        Self { rule, when, form }
    }
}

/// All of them. docs/permissions.md names the same, in the same order.
pub(super) const RIGHTS: &[Right] = {
    use When::{Always, Cluster, Database, Holders, Kinds, Looking, Replicas, Sentinel, Shards};
    use kinds::{
        CONDITIONS_OR_SEMAPHORES, FAIR, FAIR_OR_LEASES, GIVING_UP, LATCHES, LEASES, LINE,
        LINE_CONDITIONS_OR_LEASES, LISTENERS, NUMBERS, READ_WRITE, SCORES, SEMAPHORES, SORTED_SETS,
    };
    &[
        Right::of(
            Always,
            "evalsha",
            "EVALSHA 0000000000000000000000000000000000000000 1 {key}",
        ),
        Right::of(Always, "eval", "EVAL return(1) 1 {key}"),
        Right::of(Always, "publish", "PUBLISH {control} 0"),
        Right::of(Always, "subscribe", "SUBSCRIBE {control}"),
        Right::of(Always, "subscribe", "SUBSCRIBE {channel}"),
        Right::of(Kinds(READ_WRITE), "subscribe", "SUBSCRIBE {read_write}"),
        Right::of(Kinds(SEMAPHORES), "subscribe", "SUBSCRIBE {semaphore}"),
        Right::of(Kinds(LATCHES), "subscribe", "SUBSCRIBE {latch}"),
        Right::of(Always, "unsubscribe", "UNSUBSCRIBE {control}"),
        Right::of(Always, "ping", "PING"),
        Right::of(Always, "time", "TIME"),
        Right::of(Always, "get", "GET {token}"),
        // NX and XX together are a syntax error.
        Right::of(Always, "set", "SET {token} 0 NX XX"),
        Right::of(Always, "exists", "EXISTS {key}"),
        Right::of(Kinds(LINE), "exists", "EXISTS {line}"),
        Right::of(Kinds(FAIR), "exists", "EXISTS {queue}"),
        Right::of(Kinds(FAIR), "exists", "EXISTS {places}"),
        Right::of(Kinds(READ_WRITE), "exists", "EXISTS {read_lease}"),
        Right::of(Kinds(LEASES), "exists", "EXISTS {leases}"),
        Right::of(Always, "del", "DEL {absent}"),
        Right::of(Always, "pttl", "PTTL {key}"),
        // `never` is not a number.
        Right::of(Always, "pexpire", "PEXPIRE {key} never"),
        Right::of(Always, "hexists", "HEXISTS {key} {absent}"),
        Right::of(Always, "hget", "HGET {key} {absent}"),
        // The last field has no value.
        Right::of(Always, "hset", "HSET {key} a b c"),
        Right::of(Always, "hdel", "HDEL {key} {absent}"),
        Right::of(Always, "hlen", "HLEN {key}"),
        Right::of(Always, "hgetall", "HGETALL {key}"),
        Right::of(Kinds(LEASES), "decrby", "DECRBY {key} never"),
        Right::of(Kinds(READ_WRITE), "hscan", "HSCAN {key} 0"),
        Right::of(Kinds(NUMBERS), "incrby", "INCRBY {key} never"),
        Right::of(Kinds(FAIR), "lindex", "LINDEX {key} 0"),
        Right::of(Kinds(FAIR), "llen", "LLEN {key}"),
        Right::of(Kinds(FAIR), "lpop", "LPOP {absent}"),
        Right::of(Kinds(GIVING_UP), "lrem", "LREM {key} 0 {absent}"),
        Right::of(Kinds(LISTENERS), "pubsub|numsub", "PUBSUB NUMSUB"),
        // It cannot append to a string, which expires at once.
        Right::of(
            Kinds(FAIR),
            "rpush",
            "EVAL return(redis.pcall('set',KEYS[1],'','px','1').ok)and(redis.pcall('rpush',KEYS[1],\
             '')) 1 {absent}",
        ),
        Right::of(Kinds(SORTED_SETS), "zadd", "ZADD {key} never {absent}"),
        Right::of(Kinds(FAIR_OR_LEASES), "zcard", "ZCARD {key}"),
        Right::of(Kinds(SEMAPHORES), "zcount", "ZCOUNT {key} 0 0"),
        Right::of(
            Kinds(LINE_CONDITIONS_OR_LEASES),
            "zrange",
            "ZRANGE {key} 0 0",
        ),
        Right::of(
            Kinds(CONDITIONS_OR_SEMAPHORES),
            "zrangebyscore",
            "ZRANGEBYSCORE {key} 0 0",
        ),
        Right::of(Kinds(LINE), "zrank", "ZRANK {key} {absent}"),
        Right::of(Kinds(SORTED_SETS), "zrem", "ZREM {key} {absent}"),
        Right::of(Kinds(SCORES), "zscore", "ZSCORE {key} {absent}"),
        // `none` is not a number.
        Right::of(Database, "select", ""),
        Right::of(Sentinel, "role", "ROLE"),
        Right::of(Cluster, "cluster|slots", "CLUSTER SLOTS"),
        Right::of(Cluster, "pubsub|shardnumsub", "PUBSUB SHARDNUMSUB"),
        Right::of(Cluster, "asking", "ASKING"),
        Right::of(Shards, "spublish", "SPUBLISH {control} 0"),
        Right::of(Shards, "ssubscribe", "SSUBSCRIBE {channel}"),
        Right::of(Shards, "sunsubscribe", "SUNSUBSCRIBE {control}"),
        Right::of(Replicas, "wait", "WAIT 0 1"),
        Right::of(Looking, "scan", "SCAN 0"),
        Right::of(Looking, "getrange", "GETRANGE {key} 0 0"),
        Right::of(Looking, "lrange", "LRANGE {key} 0 0"),
        Right::of(Holders, "client|setname", "CLIENT SETNAME leasehold-doctor"),
        // A list of no connection.
        Right::of(Holders, "client|list", "CLIENT LIST ID 0"),
    ]
};

/// The names that a client uses.
#[derive(Clone, Debug)]
pub(super) struct Names {
    /// The key of the lock.
    pub(super) key: String,
    pub(super) channel: String,
    /// The key of the last fencing token.
    pub(super) token: String,
    /// The channel of the client itself.
    pub(super) control: String,
    /// A key, and a field of a lock, that does not exist.
    pub(super) absent: String,
    /// Keys and channels of other kinds of locks with this name.
    pub(super) of_kinds: Vec<(&'static str, String)>,
}

impl Names {
    pub(super) fn of(lock: LockKeys, control: LockKeys) -> Self {
        Self {
            of_kinds: kinds::names(&lock),
            key: lock.key,
            channel: lock.channel,
            token: lock.last_token,
            control: control.channel,
            absent: control.key,
        }
    }
}

impl Right {
    pub(super) fn command(&self, names: &Names) -> Cmd {
        let mut command = Cmd::new();
        for word in self.form.split(' ') {
            command.arg(match word {
                "{key}" => &names.key,
                "{channel}" => &names.channel,
                "{token}" => &names.token,
                "{control}" => &names.control,
                "{absent}" => &names.absent,
                word => {
                    let mut of_kinds = names.of_kinds.iter();
                    let name = of_kinds.find(|(place, _)| *place == word);
                    name.map_or(word, |(_, name)| name)
                }
            });
        }
        command
    }

    /// True if the test needs its own connection, on which the next reply may be a message.
    pub(super) fn subscribes(&self) -> bool {
        matches!(self.rule, "subscribe" | "ssubscribe")
    }

    /// True if all locks need it.
    fn is_for_locks(&self) -> bool {
        !self.is_to_look() && !matches!(self.when, When::Kinds(_) | When::Holders)
    }

    fn is_to_look(&self) -> bool {
        matches!(self.when, When::Looking)
    }

    fn is_of_tokens(&self) -> bool {
        self.form.contains("{token}")
    }

    /// The channel in its form, or else that of the lock.
    fn channel<'a>(&self, names: &'a Names) -> &'a str {
        if self.form.contains("{control}") {
            &names.control
        } else {
            &names.channel
        }
    }

    /// True if the test uses a key of the lock.
    fn names_the_lock(&self) -> bool {
        self.form.split(' ').nth(1) != Some("{absent}")
    }
}

/// How the server replied to the test of a permission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// The user may use the command. It may have failed for another reason.
    Allowed,
    NotTheCommand,
    NotTheKey,
    NotTheChannel,
    /// The server does not know the command.
    UnknownCommand,
}

/// A reply, or the error of a reply.
pub(super) fn answer(reply: &Result<Value, ServerError>) -> Answer {
    let Err(error) = reply else {
        return Answer::Allowed;
    };
    if let Some(Hint::Grant(permission)) = error.hint.as_deref() {
        return match permission {
            Permission::Key => Answer::NotTheKey,
            Permission::Channel => Answer::NotTheChannel,
            _ => Answer::NotTheCommand,
        };
    }
    let text = error.cause.detail().unwrap_or_default().to_lowercase();
    if text.starts_with("unknown command") || text.starts_with("unknown subcommand") {
        return Answer::UnknownCommand;
    }
    Answer::Allowed
}

const CHECK: &str = "rights";

/// All permissions that locks need and do not have.
pub(super) fn verdict(answers: &[(&Right, Answer)], names: &Names) -> Finding {
    let of = |answer: Answer| {
        let lack =
            move |(right, given): &&(&Right, Answer)| *given == answer && right.is_for_locks();
        answers.iter().filter(lack)
    };
    let mut refused: Vec<&str> = of(Answer::NotTheCommand)
        .map(|(right, _)| right.rule)
        .collect();
    refused.dedup();
    // A cluster without shard channels publishes releases to all its servers.
    let unknown = of(Answer::UnknownCommand).filter(|(right, _)| {
        !matches!(right.rule, "pubsub|shardnumsub") && right.when != When::Shards
    });
    let unknown: Vec<&str> = unknown.map(|(right, _)| right.rule).collect();
    let mut channels: Vec<&str> = of(Answer::NotTheChannel)
        .map(|(right, _)| right.channel(names))
        .collect();
    channels.sort_unstable();
    channels.dedup();
    let no_key =
        of(Answer::NotTheKey).any(|(right, _)| right.names_the_lock() && !right.is_of_tokens());

    let mut lacks: Vec<String> = refused.iter().map(|&rule| rule.into()).collect();
    let mut rules: Vec<String> = refused.iter().map(|rule| format!("+{rule}")).collect();
    let mut found = Vec::new();
    let mut advice = Vec::new();
    if !channels.is_empty() {
        lacks.extend(
            channels
                .iter()
                .map(|channel| format!("the channel {channel}")),
        );
        rules.push("&redisson_lock__channel:*".into());
    }
    if no_key {
        lacks.push(format!("the key {}", names.key));
        rules.push(format!("~{}", names.key));
        advice.push("give a lock that the user may use: leasehold doctor KEY".into());
    }
    if !lacks.is_empty() {
        found.push(format!("the user may not use {}", lacks.join(", ")));
        advice.push(format!("ACL SETUSER <user> {}", rules.join(" ")));
    }
    if !unknown.is_empty() {
        found.push(format!("the server does not know {}", unknown.join(", ")));
        advice.push("give these commands their names back (rename-command)".into());
    }
    if found.is_empty() {
        return Finding::ok(CHECK, "all permissions that locks need");
    }
    Finding::failure(CHECK, found.join("; "), advice.join(", or "))
}

/// The permission for the keys of fencing tokens, which only fenced locks need; `None` if it is
/// there.
pub(super) fn fencing(answers: &[(&Right, Answer)], names: &Names) -> Option<Finding> {
    let mut of_tokens = answers.iter().filter(|(right, _)| right.is_of_tokens());
    of_tokens
        .any(|(_, answer)| *answer == Answer::NotTheKey)
        .then(|| {
            Finding::warning(
                "fencing",
                format!(
                    "the user may not use the key {}: no fenced locks",
                    names.token
                ),
                "ACL SETUSER <user> ~redisson_lock_token:*",
            )
        })
}

/// The permissions for looking at locks; `None` if they are there.
pub(super) fn looking(answers: &[(&Right, Answer)]) -> Option<Finding> {
    let refused = |(right, answer): &&(&Right, Answer)| {
        right.is_to_look() && *answer == Answer::NotTheCommand
    };
    let lacks = answers.iter().filter(refused);
    let rules: Vec<&str> = lacks.map(|(right, _)| right.rule).collect();
    let what_for = |rule: &&str| match *rule {
        "scan" => "scan, which list and watch need",
        "lrange" => "lrange, which shows who waits for a fair lock",
        _ => "getrange, which list --all needs",
    };
    let what_for: Vec<&str> = rules.iter().map(what_for).collect();
    (!rules.is_empty()).then(|| {
        Finding::warning(
            "looking",
            format!(
                "the user may not use {}; locks do not need it",
                what_for.join(", nor ")
            ),
            format!("ACL SETUSER <user> +{}", rules.join(" +")),
        )
    })
}

/// The permissions to find the process of a holder; `None` if the user has them.
pub(super) fn holders(answers: &[(&Right, Answer)]) -> Option<Finding> {
    let is_refused =
        |right: &Right, answer| right.when == When::Holders && answer == Answer::NotTheCommand;
    let refused = answers
        .iter()
        .filter(|(right, answer)| is_refused(right, *answer));
    let rules: Vec<&str> = refused.map(|(right, _)| right.rule).collect();
    (!rules.is_empty()).then(|| {
        Finding::note(
            "holders",
            format!(
                "the user may not use {}, so list, show, break and run cannot show the process of \
                 a holder; locks do not need it (ACL SETUSER <user> +{})",
                rules.join(", "),
                rules.join(" +")
            ),
        )
    })
}

#[cfg(test)]
mod tests;
