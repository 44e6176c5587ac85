//! Which permissions the user needs, and which are missing.

use std::collections::HashMap;

use redis::Cmd;

use super::finding::Finding;
use super::finding::Verdict::{Failure, Note, Ok, Warning};
use crate::args::RedisArgs;
use crate::probe::Reply;
use leasehold::admin::LockKeys;
use leasehold::{Hint, Permission};

/// A permission, and the command that tests it: a line of `rights.txt`.
#[derive(Debug)]
pub(super) struct Right {
    when: &'static str,
    /// The rule of ACL SETUSER, without the plus.
    rule: &'static str,
    pub(super) command: Cmd,
    /// The first name in the command.
    place: Option<Place>,
    /// The kinds of locks, or the parts of this command, that need it; empty for all locks.
    purposes: Vec<&'static str>,
}

/// A name in the tests of permissions.
#[derive(Clone, Debug)]
struct Place {
    name: String,
    /// The rule of ACL SETUSER that permits it; empty for a name that any user may be refused.
    rule: String,
    /// The kinds of locks that need it; empty for all locks.
    kinds: Vec<&'static str>,
}

/// The four cells of each line of `rights.txt`, those of places or those of permissions.
fn lines(of_places: bool) -> impl Iterator<Item = [&'static str; 4]> {
    let lines = include_str!("rights.txt").lines();
    let lines = lines.filter(|line| !line.starts_with('#'));
    let wanted = lines.filter(move |line| line.starts_with("place") == of_places);
    wanted.map(|line| {
        let mut cells = line.split(';').map(str::trim);
        std::array::from_fn(|_| cells.next().unwrap_or_default())
    })
}

fn listed(cell: &str) -> Vec<&str> {
    cell.split(", ").filter(|part| !part.is_empty()).collect()
}

/// All permissions, with tests for the names of this lock. docs/permissions.md names the same, in
/// the same order. `control`: the names of a lock that does not exist. Its channel is that of a
/// client itself.
pub(super) fn rights(lock: &LockKeys, control: &LockKeys) -> Vec<Right> {
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
    let place = |[_, word, rule, kinds]: [&'static str; 4]| Place {
        name: name(word).clone(),
        rule: rule.replace("{key}", &lock.key),
        kinds: listed(kinds),
    };
    let places: HashMap<_, _> = lines(true).map(|line| (line[1], place(line))).collect();
    let right = |[when, rule, test, purposes]: [&'static str; 4]| {
        let mut command = Cmd::new();
        for word in test.split(' ') {
            command.arg(places.get(word).map_or(word, |place| &place.name));
        }
        Right {
            when,
            rule,
            command,
            place: test.split(' ').find_map(|word| places.get(word)).cloned(),
            purposes: listed(purposes),
        }
    };
    lines(false).map(right).collect()
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

/// The permission that the reply to a test reports as missing. It may also be an error for another
/// reason.
fn missing(reply: &Reply) -> Option<&Permission> {
    match reply.as_ref().err()?.hint.as_deref()? {
        Hint::Grant(missing) => Some(missing),
        _ => None,
    }
}

/// True if the server does not know the command.
fn is_unknown(reply: &Reply) -> bool {
    let detail = reply.as_ref().err().and_then(|error| error.cause.detail());
    let text = detail.unwrap_or_default().to_lowercase();
    text.starts_with("unknown command") || text.starts_with("unknown subcommand")
}

/// The check of the permissions that all locks need.
pub(super) const RIGHTS: &str = "rights";

/// What is missing.
struct Lack<'a> {
    check: &'static str,
    what: String,
    /// The rule of ACL SETUSER that permits it.
    rule: String,
    purposes: &'a [&'static str],
}

impl<'a> Lack<'a> {
    fn of((right, reply): &'a (Right, Reply)) -> Option<Self> {
        let what = match missing(reply)? {
            Permission::Key => "key",
            Permission::Channel => "channel",
            _ => {
                return Some(Self {
                    check: right.check(),
                    what: right.rule.into(),
                    rule: format!("+{}", right.rule),
                    purposes: &right.purposes,
                });
            }
        };
        let place = right
            .place
            .as_ref()
            .filter(|place| !place.rule.is_empty())?;
        Some(Self {
            check: match &place.kinds[..] {
                [] => RIGHTS,
                ["fenced locks"] => "fencing",
                _ => "kinds",
            },
            what: format!("the {what} {}", place.name),
            rule: place.rule.clone(),
            purposes: &place.kinds,
        })
    }
}

/// The findings about permissions, by the names of their checks. Only the first one is always
/// there.
pub(super) fn findings(replies: &[(Right, Reply)]) -> Vec<(&'static str, Finding)> {
    let of_rule = |rule| replies.iter().find(move |(right, _)| right.rule == rule);
    // The test of one permission is a script. It says nothing if the user may not call EVAL.
    let may_call = |(_, reply): &_| matches!(missing(reply), None | Some(Permission::Key));
    let tries_scripts = of_rule("eval").is_none_or(may_call);
    // A cluster with shard channels counts their listeners alone.
    let has_shards = of_rule("pubsub|shardnumsub")
        .is_some_and(|count| Lack::of(count).is_none() && !is_unknown(&count.1));
    let relevant = replies.iter().filter(|(right, _)| match right.rule {
        "rpush" => tries_scripts,
        "pubsub|numsub" => !has_shards,
        _ => true,
    });
    let mut lacks: Vec<Lack> = relevant.filter_map(Lack::of).collect();
    // Commands, then channels, then keys.
    lacks.sort_by_key(|lack| "+&~".find(&lack.rule[..1]));
    let mut findings = vec![(RIGHTS, of_all_locks(&lacks, replies))];
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
fn of_all_locks(lacks: &[Lack<'_>], replies: &[(Right, Reply)]) -> Finding {
    let (mut found, mut advice) = (Vec::new(), Vec::new());
    // Of the keys, all locks need only that of the lock itself.
    let is_key = |lack: &Lack<'_>| lack.check == RIGHTS && lack.rule.starts_with('~');
    if lacks.iter().any(is_key) {
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
fn summary(lacks: &[Lack<'_>], check: &str) -> Option<(String, String)> {
    let of_check = || lacks.iter().filter(|lack| lack.check == check);
    of_check().next()?;
    let mut found = String::from("the user may not use ");
    found += &unique(of_check().map(|lack| &*lack.what), ", ");
    let purposes = of_check().flat_map(|lack| lack.purposes.iter().copied());
    let purposes = unique(purposes, ", no ");
    if !purposes.is_empty() {
        found += &format!(": no {purposes}");
    }
    let rules = unique(of_check().map(|lack| &*lack.rule), " ");
    Some((found, format!("ACL SETUSER <user> {rules}")))
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
