//! What replies mean, and that docs/permissions.md names the same permissions.

use std::fs;
use std::path::Path;

use super::*;
use crate::tests::{refusal, replies};
use leasehold::LockClient;
use redis::Value;

/// Those of a lock with this name.
fn rights_of(name: &str) -> Vec<Right> {
    let client = LockClient::connect("redis://127.0.0.1:1").unwrap();
    let keys = |name| LockKeys::new(&client, name);
    rights(&keys(name), &keys("leasehold:1"))
}

fn right(lock: &str, rule: &str) -> Right {
    let mut rights = rights_of(lock).into_iter();
    rights.find(|right| right.rule == rule).unwrap()
}

/// How the server replies to the test of a permission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    Allowed,
    NotTheCommand,
    NotTheKey,
    NotTheChannel,
    UnknownCommand,
}

impl Answer {
    fn reply(self) -> Reply {
        Err(refusal(match self {
            Self::Allowed => return Reply::Ok(Value::Nil),
            Self::NotTheCommand => "NOPERM this user has no permissions to run the 'del' command",
            Self::NotTheKey => "NOPERM No permissions to access a key",
            Self::NotTheChannel => "NOPERM No permissions to access a channel",
            Self::UnknownCommand => "ERR unknown command 'DEL', with args beginning with: 'x'",
        }))
    }
}

#[test]
fn refusals_of_all_versions_are_told_apart() {
    let unknown = "the server does not know it";
    for (expected, lines) in [
        ("", &["+OK", "-ERR syntax error"][..]),
        (
            "hset",
            &[
                "-NOPERM this user has no permissions to run the 'del' command",
                "-NOPERM User a channel has no permissions to run the 'cluster|slots' command",
            ],
        ),
        (
            "the key job",
            &[
                "-NOPERM this user has no permissions to access one of the keys used as arguments",
                "-NOPERM No permissions to access a key",
            ],
        ),
        (
            "the channel job",
            &[
                "-NOPERM this user has no permissions to access one of the channels used as \
                 arguments",
                "-NOPERM No permissions to access a channel",
            ],
        ),
        (
            unknown,
            &[
                "-ERR unknown command `DEL`, with args beginning with: `x`",
                "-ERR unknown command 'DEL', with args beginning with: 'x'",
                "-ERR Unknown subcommand or wrong number of arguments for 'SHARDNUMSUB'. Try \
                 PUBSUB HELP.",
                "-ERR unknown subcommand 'SHARDNUMSUB'. Try PUBSUB HELP.",
            ],
        ),
    ] {
        for (line, reply) in lines.iter().zip(replies(lines)) {
            let answer = (right("job", "hset"), reply);
            let lack = Lack::of(&answer).map(|lack| lack.what);
            let unknown = is_unknown(&answer.1).then(|| unknown.to_owned());
            assert_eq!(lack.or(unknown).unwrap_or_default(), expected, "{line}");
        }
    }
}

/// The findings if the test of each permission is allowed, except for these rules, or tests with
/// these names.
fn judged(given: &[(&str, Answer)]) -> Vec<(&'static str, Finding)> {
    let reply = |right: Right| {
        let is_given = |(word, _): &&(&str, Answer)| {
            let place = right.place.as_ref().map_or("", |place| &place.name);
            *word == right.rule || word.contains('{') && *word == place
        };
        let given = given.iter().find(is_given);
        let reply = given.map_or(Answer::Allowed, |(_, answer)| *answer).reply();
        (right, reply)
    };
    let replies: Vec<_> = rights_of("job").into_iter().map(reply).collect();
    findings(&replies)
}

/// The finding of one check, if there is one.
fn of(check: &str, given: &[(&str, Answer)]) -> Option<Finding> {
    let mut findings = judged(given).into_iter();
    findings
        .find(|(name, _)| *name == check)
        .map(|(_, finding)| finding)
}

#[test]
fn what_is_missing_is_named_by_its_check() {
    use Answer::{NotTheChannel, NotTheCommand, NotTheKey, UnknownCommand};
    for (given, check, found, advice) in [
        (
            &[
                ("subscribe", NotTheCommand),
                ("del", NotTheCommand),
                ("publish", NotTheChannel),
            ][..],
            RIGHTS,
            "the user may not use subscribe, del, the channel redisson_lock__channel:{leasehold:1}",
            "ACL SETUSER <user> +subscribe +del &redisson_lock__channel:*",
        ),
        (
            &[("hset", NotTheKey)],
            RIGHTS,
            "the user may not use the key job",
            "give a lock that the user may use: leasehold doctor KEY, or ACL SETUSER <user> ~job",
        ),
        (
            &[("eval", UnknownCommand), ("spublish", UnknownCommand)],
            RIGHTS,
            "the server does not know eval",
            "give these commands their names back (rename-command)",
        ),
        (
            &[("get", NotTheKey)],
            "fencing",
            "the user may not use the key redisson_lock_token:{job}: no fenced locks",
            "ACL SETUSER <user> ~redisson_lock_token:*",
        ),
        (
            &[
                ("redisson_countdownlatch__channel__{job}", NotTheChannel),
                ("redisson_lock_queue:{job}", NotTheKey),
                ("llen", NotTheCommand),
            ],
            "kinds",
            "the user may not use llen, the channel redisson_countdownlatch__channel__{job}, the \
             key redisson_lock_queue:{job}: no fair locks, no latches",
            "ACL SETUSER <user> +llen &redisson_countdownlatch__channel__* ~redisson_lock_queue:*",
        ),
        (
            &[("eval", NotTheKey), ("rpush", NotTheCommand)],
            "kinds",
            "the user may not use rpush: no fair locks",
            "ACL SETUSER <user> +rpush",
        ),
        (
            &[("scan", NotTheCommand), ("get", NotTheCommand)],
            "looking",
            "the user may not use scan: no list and watch; locks do not need it",
            "ACL SETUSER <user> +scan",
        ),
    ] {
        let finding = of(check, given).unwrap();
        assert_eq!(finding.found, found);
        assert_eq!(finding.advice.as_deref(), Some(advice));
    }
}

#[test]
fn what_locks_do_not_need_is_no_failure() {
    for (rule, answer) in [
        // DEL uses a key that does not exist.
        ("del", Answer::NotTheKey),
        ("get", Answer::NotTheKey),
        ("scan", Answer::NotTheCommand),
        ("scan", Answer::UnknownCommand),
        ("pubsub|numsub", Answer::NotTheCommand),
        ("pubsub|shardnumsub", Answer::UnknownCommand),
    ] {
        assert_eq!(of(RIGHTS, &[(rule, answer)]).unwrap().verdict, Ok, "{rule}");
    }
    assert_eq!(judged(&[]).len(), 1);
    // It is reported for all locks.
    assert_eq!(of("kinds", &[("subscribe", Answer::NotTheCommand)]), None);
}

#[test]
fn a_cluster_with_shard_channels_counts_only_their_listeners() {
    for (of_shards, is_missing) in [
        (Answer::Allowed, false),
        (Answer::UnknownCommand, true),
        (Answer::NotTheCommand, true),
    ] {
        let given = [
            ("pubsub|numsub", Answer::NotTheCommand),
            ("pubsub|shardnumsub", of_shards),
        ];
        assert_eq!(of("kinds", &given).is_some(), is_missing, "{of_shards:?}");
    }
}

/// The words of docs/permissions.md are the rights of the table, neither more nor fewer.
#[test]
fn the_documentation_names_the_same() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let page = fs::read_to_string(root.join("docs/permissions.md")).unwrap();
    let line = page
        .lines()
        .find(|line| line.starts_with("ACL SETUSER"))
        .unwrap();
    let rules = |text: &str| -> Vec<String> {
        text.split(|c: char| c.is_whitespace() || "`;,.".contains(c))
            .filter_map(|word| word.strip_prefix('+'))
            // The sentinels' own user is another.
            .filter(|rule| !rule.starts_with("sentinel|"))
            .map(Into::into)
            .collect()
    };
    let ours = |always: bool| {
        let is_always = |right: &Right| matches!(right.when, "always" | "kinds") == always;
        let rights = rights_of("job").into_iter().filter(is_always);
        let mut ours: Vec<&str> = rights.map(|right| right.rule).collect();
        ours.dedup();
        ours
    };
    assert_eq!(rules(line), ours(true));
    let (_, beside) = page.split_once("A database other than 0").unwrap();
    assert_eq!(rules(beside), ours(false));
}
