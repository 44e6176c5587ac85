//! Which permissions the user needs, and which are missing.

use redis::{Cmd, Value};

use super::finding::Finding;
use super::finding::Verdict::{Failure, Note, Ok, Warning};
use crate::args::RedisArgs;
use leasehold::admin::{LockKeys, ServerError};
use leasehold::{Hint, Permission};

/// A permission, and the command that tests it: a line of `rights.txt`.
#[derive(Debug)]
pub(super) struct Right {
    when: &'static str,
    /// The rule of ACL SETUSER, without the plus.
    rule: &'static str,
    test: &'static str,
    /// The kinds of locks, or the parts of this command, that need it; empty for all locks.
    purposes: Vec<&'static str>,
}

/// The four cells of each line of `rights.txt`.
fn lines() -> impl Iterator<Item = [&'static str; 4]> {
    let lines = include_str!("rights.txt").lines();
    lines.filter(|line| !line.starts_with('#')).map(|line| {
        let mut cells = line.split(';').map(str::trim);
        std::array::from_fn(|_| cells.next().unwrap_or_default())
    })
}

fn listed(cell: &str) -> Vec<&str> {
    cell.split(", ").filter(|part| !part.is_empty()).collect()
}

/// All permissions. docs/permissions.md names the same, in the same order.
pub(super) fn rights() -> impl Iterator<Item = Right> {
    let rights = lines().filter(|[when, ..]| *when != "place");
    rights.map(|[when, rule, test, purposes]| Right {
        when,
        rule,
        test,
        purposes: listed(purposes),
    })
}

/// A name in the tests of permissions.
#[derive(Clone, Debug)]
struct Place {
    /// As it is written in the tests.
    word: &'static str,
    name: String,
    /// The rule of ACL SETUSER that permits it.
    rule: String,
    /// The kinds of locks that need it; empty for all locks.
    kinds: Vec<&'static str>,
}

/// The names that a client uses.
#[derive(Clone, Debug)]
pub(super) struct Names(Vec<Place>);

impl Names {
    /// `control`: the names of a lock that does not exist. Its channel is that of a client itself.
    pub(super) fn of(lock: &LockKeys, control: &LockKeys) -> Self {
        let read_lease = lock.read_lease("leasehold:1", 1);
        let name = |word| match word {
            "{control}" => &control.channel,
            "{channel}" => &lock.channel,
            "{key}" => &lock.key,
            "{token}" => &lock.last_token,
            "{line}" => &lock.line,
            "{queue}" => &lock.queue,
            "{places}" => &lock.places,
            "{read_lease}" => &read_lease,
            "{leases}" => &lock.leases,
            "{read_write}" => &lock.read_write_channel,
            "{semaphore}" => &lock.semaphore_channel,
            "{latch}" => &lock.latch_channel,
            _ => &control.key,
        };
        let places = lines().filter(|[when, ..]| *when == "place");
        let place = |[_, word, rule, kinds]: [&'static str; 4]| Place {
            word,
            name: name(word).clone(),
            rule: rule.replace("{key}", &lock.key),
            kinds: listed(kinds),
        };
        Self(places.map(place).collect())
    }

    fn get(&self, word: &str) -> Option<&Place> {
        self.0.iter().find(|place| place.word == word)
    }
}

impl Right {
    /// True if these options need the permission, and it can be tested.
    pub(super) fn is_needed(&self, redis: &RedisArgs) -> bool {
        match self.when {
            "database" => false,
            "sentinel" => redis.sentinel.is_some(),
            "cluster" | "shards" => redis.cluster,
            "replicas" => redis.min_replicas.is_some(),
            _ => true,
        }
    }

    pub(super) fn command(&self, names: &Names) -> Cmd {
        let mut command = Cmd::new();
        for word in self.test.split(' ') {
            command.arg(names.get(word).map_or(word, |place| &place.name));
        }
        command
    }

    /// True if the test needs its own connection, on which the next reply may be a message.
    pub(super) fn subscribes(&self) -> bool {
        matches!(self.rule, "subscribe" | "ssubscribe")
    }

    /// The check that reports the permission.
    fn check(&self) -> &'static str {
        match self.when {
            "kinds" | "looking" | "holders" => self.when,
            _ => RIGHTS,
        }
    }
}

/// The reply to the test of a permission. It may also be an error for another reason.
type Reply = Result<Value, ServerError>;

/// True if the server does not know the command.
fn is_unknown(reply: &Reply) -> bool {
    let detail = reply.as_ref().err().and_then(|error| error.cause.detail());
    let text = detail.unwrap_or_default().to_lowercase();
    text.starts_with("unknown command") || text.starts_with("unknown subcommand")
}

/// The check of the permissions that all locks need.
pub(super) const RIGHTS: &str = "rights";

/// What is missing.
struct Lack {
    check: &'static str,
    what: String,
    /// The rule of ACL SETUSER that permits it.
    rule: String,
    purposes: Vec<&'static str>,
}

impl Lack {
    fn of(right: &Right, reply: &Reply, names: &Names) -> Option<Self> {
        let what = match reply.as_ref().err()?.hint.as_deref()? {
            Hint::Grant(Permission::Key) => "key",
            Hint::Grant(Permission::Channel) => "channel",
            Hint::Grant(_) => {
                return Some(Self {
                    check: right.check(),
                    what: right.rule.into(),
                    rule: format!("+{}", right.rule),
                    purposes: right.purposes.clone(),
                });
            }
            _ => return None,
        };
        let place = right.test.split(' ').find_map(|word| names.get(word))?;
        let check = match &place.kinds[..] {
            [] => RIGHTS,
            ["fenced locks"] => "fencing",
            _ => "kinds",
        };
        (!place.rule.is_empty()).then(|| Self {
            check,
            what: format!("the {what} {}", place.name),
            rule: place.rule.clone(),
            purposes: place.kinds.clone(),
        })
    }
}

/// The findings about permissions, by the names of their checks. Only the first one is always
/// there.
pub(super) fn findings(replies: &[(Right, Reply)], names: &Names) -> Vec<(&'static str, Finding)> {
    let lacks = |(right, reply): &(Right, Reply)| Lack::of(right, reply, names);
    let of_rule = |rule| replies.iter().find(move |(right, _)| right.rule == rule);
    // The test of one permission is a script. It says nothing if the user may not call EVAL.
    let may_call = |(_, reply): &(Right, Reply)| {
        let hint = reply.as_ref().err().and_then(|error| error.hint.as_deref());
        !matches!(hint, Some(Hint::Grant(missing)) if *missing != Permission::Key)
    };
    let tries_scripts = of_rule("eval").is_none_or(may_call);
    // A cluster with shard channels counts their listeners alone.
    let has_shards = of_rule("pubsub|shardnumsub")
        .is_some_and(|count| lacks(count).is_none() && !is_unknown(&count.1));
    let relevant = replies.iter().filter(|(right, _)| match right.rule {
        "rpush" => tries_scripts,
        "pubsub|numsub" => !has_shards,
        _ => true,
    });
    let mut lacks: Vec<Lack> = relevant.filter_map(lacks).collect();
    // Commands, then channels, then keys.
    lacks.sort_by_key(|lack| "+&~".find(&lack.rule[..1]));
    let mut findings = vec![(RIGHTS, of_all_locks(&lacks, replies, names))];
    for (check, verdict, remark) in [
        ("fencing", Warning, ""),
        ("kinds", Warning, ""),
        ("looking", Warning, "; locks do not need it"),
        ("holders", Note, "; locks do not need it"),
    ] {
        let finding = summary(&lacks, check);
        let finding = finding.map(|(found, rules)| verdict.advise(found + remark, rules));
        findings.extend(finding.map(|finding| (check, finding)));
    }
    findings
}

/// The finding about the permissions that all locks need.
fn of_all_locks(lacks: &[Lack], replies: &[(Right, Reply)], names: &Names) -> Finding {
    let (mut found, mut advice) = (Vec::new(), Vec::new());
    let key = names.get("{key}").map(|place| &place.rule);
    if lacks.iter().any(|lack| Some(&lack.rule) == key) {
        advice.push("give a lock that the user may use: leasehold doctor KEY".into());
    }
    if let Some((lack, rules)) = summary(lacks, RIGHTS) {
        found.push(lack);
        advice.push(rules);
    }
    let unknown = replies.iter().filter(|(right, reply)| {
        // A cluster without shard channels publishes releases to all its servers.
        let is_of_shards = right.when == "shards" || right.rule == "pubsub|shardnumsub";
        is_unknown(reply) && right.check() == RIGHTS && !is_of_shards
    });
    let unknown: Vec<&str> = unknown.map(|(right, _)| right.rule).collect();
    if !unknown.is_empty() {
        found.push(format!("the server does not know {}", unknown.join(", ")));
        advice.push("give these commands their names back (rename-command)".into());
    }
    if found.is_empty() {
        return Ok.of("all permissions that locks need");
    }
    Failure.advise(found.join("; "), advice.join(", or "))
}

/// What the user may not use and for what, and how to permit it; `None` if a check found nothing.
fn summary(lacks: &[Lack], check: &str) -> Option<(String, String)> {
    let of_check = || lacks.iter().filter(|lack| lack.check == check);
    of_check().next()?;
    let what = unique(of_check().map(|lack| &*lack.what), ", ");
    let rules = unique(of_check().map(|lack| &*lack.rule), " ");
    let purposes = unique(
        of_check().flat_map(|lack| lack.purposes.iter().copied()),
        ", no ",
    );
    let purposes = Some(purposes).filter(|purposes| !purposes.is_empty());
    let purposes = purposes.map(|purposes| format!(": no {purposes}"));
    Some((
        format!(
            "the user may not use {what}{}",
            purposes.unwrap_or_default()
        ),
        format!("ACL SETUSER <user> {rules}"),
    ))
}

/// All of these once, in their order.
fn unique<'a>(all: impl Iterator<Item = &'a str>, separator: &str) -> String {
    let mut unique: Vec<&str> = Vec::new();
    for one in all {
        if !unique.contains(&one) {
            unique.push(one);
        }
    }
    unique.join(separator)
}

#[cfg(test)]
mod tests;
