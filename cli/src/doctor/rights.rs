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
    let text = error.cause.detail().unwrap_or_default().to_lowercase();
    let is_unknown = text.starts_with("unknown command") || text.starts_with("unknown subcommand");
    match error.hint.as_deref() {
        Some(Hint::Grant(Permission::Key)) => Answer::NotTheKey,
        Some(Hint::Grant(Permission::Channel)) => Answer::NotTheChannel,
        Some(Hint::Grant(_)) => Answer::NotTheCommand,
        _ if is_unknown => Answer::UnknownCommand,
        _ => Answer::Allowed,
    }
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
    fn of(right: &Right, answer: Answer, names: &Names) -> Option<Self> {
        let what = match answer {
            Answer::Allowed | Answer::UnknownCommand => return None,
            Answer::NotTheCommand => "",
            Answer::NotTheKey => "key",
            Answer::NotTheChannel => "channel",
        };
        if what.is_empty() {
            return Some(Self {
                check: right.check(),
                what: right.rule.into(),
                rule: format!("+{}", right.rule),
                purposes: right.purposes.clone(),
            });
        }
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
pub(super) fn findings(answers: &[(Right, Answer)], names: &Names) -> Vec<(&'static str, Finding)> {
    let is = |rule: &str, wanted| {
        let mut of_rule = answers.iter().filter(|(right, _)| right.rule == rule);
        of_rule.any(|(_, answer)| *answer == wanted)
    };
    // The test of one permission is a script, which then says nothing.
    let tries_scripts = !is("eval", Answer::NotTheCommand);
    // A cluster with shard channels counts their listeners alone.
    let has_shards = is("pubsub|shardnumsub", Answer::Allowed);
    let lacks = answers.iter().filter(|(right, _)| match right.rule {
        "rpush" => tries_scripts,
        "pubsub|numsub" => !has_shards,
        _ => true,
    });
    let lacks = lacks.filter_map(|(right, answer)| Lack::of(right, *answer, names));
    let mut lacks: Vec<Lack> = lacks.collect();
    // Commands, then channels, then keys.
    lacks.sort_by_key(|lack| "+&~".find(&lack.rule[..1]));
    let mut findings = vec![(RIGHTS, of_all_locks(&lacks, answers, names))];
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
fn of_all_locks(lacks: &[Lack], answers: &[(Right, Answer)], names: &Names) -> Finding {
    let (mut found, mut advice) = (Vec::new(), Vec::new());
    let key = names.get("{key}").map(|place| &place.rule);
    if lacks.iter().any(|lack| Some(&lack.rule) == key) {
        advice.push("give a lock that the user may use: leasehold doctor KEY".into());
    }
    if let Some((lack, rules)) = summary(lacks, RIGHTS) {
        found.push(lack);
        advice.push(rules);
    }
    let unknown = answers.iter().filter(|(right, answer)| {
        // A cluster without shard channels publishes releases to all its servers.
        let is_of_shards = right.when == "shards" || right.rule == "pubsub|shardnumsub";
        *answer == Answer::UnknownCommand && right.check() == RIGHTS && !is_of_shards
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
