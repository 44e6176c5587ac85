//! Permissions that only some kinds of locks need.

use super::{Answer, Right, When};
use crate::doctor::finding::Finding;
use leasehold::admin::LockKeys;

const FAIR_LOCKS: &str = "fair locks";
const LINES: &str = "lines of waiting clients (each release wakes all of them)";
const TURNS: &str = "turns of clients that wait for several names";
const READ_WRITE_LOCKS: &str = "read-write locks";
const CONDITIONS: &str = "conditions";
const LEASED: &str = "semaphores with leases";

pub(super) const LINE: &[&str] = &[LINES];
pub(super) const FAIR: &[&str] = &[FAIR_LOCKS];
pub(super) const READ_WRITE: &[&str] = &[READ_WRITE_LOCKS];
pub(super) const GIVING_UP: &[&str] = &["early end of a given-up place in a fair queue"];
pub(super) const LISTENERS: &[&str] = &[
    "early end of a dead client's place in a fair queue",
    "listeners in show",
];
pub(super) const SEMAPHORES: &[&str] = &["semaphores", LEASED];
pub(super) const LATCHES: &[&str] = &["latches"];
pub(super) const LEASES: &[&str] = &[LEASED];
pub(super) const NUMBERS: &[&str] = &["semaphores", LEASED, "latches"];
pub(super) const CONDITIONS_OR_SEMAPHORES: &[&str] = &[CONDITIONS, "semaphores", LEASED];
pub(super) const LINE_CONDITIONS_OR_LEASES: &[&str] = &[CONDITIONS, LEASED, LINES];
pub(super) const FAIR_OR_LEASES: &[&str] = &[FAIR_LOCKS, LEASED];
pub(super) const SCORES: &[&str] = &[FAIR_LOCKS, CONDITIONS, "semaphores", LEASED, TURNS];
pub(super) const SORTED_SETS: &[&str] = &[FAIR_LOCKS, CONDITIONS, LEASED, LINES];

/// The rules of ACL SETUSER for the keys and channels beside a lock, by their places in the forms.
const RULES: [(&str, &str); 8] = [
    ("{line}", "~leasehold_line:*"),
    ("{queue}", "~redisson_lock_queue:*"),
    ("{places}", "~redisson_lock_timeout:*"),
    ("{read_lease}", "~*:rwlock_timeout:*"),
    ("{leases}", "~*:timeout"),
    ("{read_write}", "&redisson_rwlock:*"),
    ("{semaphore}", "&redisson_sc:*"),
    ("{latch}", "&redisson_countdownlatch__channel__*"),
];

/// The names for the places in the forms.
pub(super) fn names(lock: &LockKeys) -> Vec<(&'static str, String)> {
    let names = [
        lock.line.clone(),
        lock.queue.clone(),
        lock.places.clone(),
        lock.read_lease("leasehold:1", 1),
        lock.leases.clone(),
        lock.read_write_channel.clone(),
        lock.semaphore_channel.clone(),
        lock.latch_channel.clone(),
    ];
    let places = RULES.iter().map(|(place, _)| *place);
    places.zip(names).collect()
}

/// What is missing for a kind of locks: how it is called, and its rule.
fn lack(right: &Right, answer: Answer, names: &super::Names) -> Option<(String, String)> {
    let rule = || {
        let place = right.form.split(' ').nth(1)?;
        let (_, rule) = RULES.iter().find(|(known, _)| *known == place)?;
        let (_, name) = names.of_kinds.iter().find(|(known, _)| *known == place)?;
        Some((*rule, name))
    };
    match answer {
        // All locks need the command.
        Answer::NotTheCommand if rule().is_some() => None,
        Answer::NotTheCommand => Some((right.rule.into(), format!("+{}", right.rule))),
        Answer::NotTheKey => rule().map(|(rule, name)| (format!("the key {name}"), rule.into())),
        Answer::NotTheChannel => {
            rule().map(|(rule, name)| (format!("the channel {name}"), rule.into()))
        }
        Answer::Allowed | Answer::UnknownCommand => None,
    }
}

/// The permissions that some kinds of locks lack; `None` if they are all there.
pub(crate) fn kinds(answers: &[(&Right, Answer)], names: &super::Names) -> Option<Finding> {
    // The test of one permission is a script.
    let tries_scripts = |(right, answer): &(&Right, Answer)| {
        right.rule == "eval" && *answer != Answer::NotTheCommand
    };
    if !answers.iter().any(tries_scripts) {
        return None;
    }
    // Only a cluster is asked. One with shard channels counts their listeners alone.
    let has_shards = answers
        .iter()
        .any(|(right, answer)| right.rule == "pubsub|shardnumsub" && *answer == Answer::Allowed);
    let (mut without, mut lacks, mut rules) = (Vec::new(), Vec::new(), Vec::new());
    for (right, answer) in answers {
        let When::Kinds(kinds) = right.when else {
            continue;
        };
        if has_shards && right.rule == "pubsub|numsub" {
            continue;
        }
        if let Some((lack, rule)) = lack(right, *answer, names) {
            let new = kinds.iter().filter(|kind| !without.contains(*kind));
            without.extend(new.copied().collect::<Vec<_>>());
            lacks.push(lack);
            rules.push(rule);
        }
    }
    (!lacks.is_empty()).then(|| {
        Finding::warning(
            "kinds",
            format!(
                "the user may not use {}: no {}",
                lacks.join(", "),
                without.join(", no ")
            ),
            format!("ACL SETUSER <user> {}", rules.join(" ")),
        )
    })
}
