//! What replies mean, and that docs/permissions.md names the same permissions.

use std::fs;
use std::path::Path;

use super::*;
use crate::doctor::finding::Verdict;
use crate::replies::replies;
use leasehold::LockClient;

fn names() -> Names {
    let client = LockClient::connect("redis://127.0.0.1:1").unwrap();
    let names = |name| LockKeys::new(&client, name);
    Names::of(names("job"), names("leasehold:1"))
}

#[test]
fn refusals_of_all_versions_are_told_apart() {
    let expected = [
        ("+OK", Answer::Allowed),
        ("-ERR syntax error", Answer::Allowed),
        ("-WRONGTYPE Operation against a key", Answer::Allowed),
        ("-MOVED 7 127.0.0.1:7001", Answer::Allowed),
        ("-READONLY You can't write", Answer::Allowed),
        (
            "-NOPERM this user has no permissions to run the 'del' command or its subcommand",
            Answer::NotTheCommand,
        ),
        (
            "-NOPERM this user has no permissions to run the 'del' command",
            Answer::NotTheCommand,
        ),
        (
            "-NOPERM User a channel has no permissions to run the 'cluster|slots' command",
            Answer::NotTheCommand,
        ),
        (
            "-NOPERM this user has no permissions to access one of the keys used as arguments",
            Answer::NotTheKey,
        ),
        ("-NOPERM No permissions to access a key", Answer::NotTheKey),
        (
            "-NOPERM this user has no permissions to access one of the channels used as arguments",
            Answer::NotTheChannel,
        ),
        (
            "-NOPERM No permissions to access a channel",
            Answer::NotTheChannel,
        ),
        (
            "-ERR unknown command `DEL`, with args beginning with: `x`",
            Answer::UnknownCommand,
        ),
        (
            "-ERR unknown command 'DEL', with args beginning with: 'x'",
            Answer::UnknownCommand,
        ),
        (
            "-ERR Unknown subcommand or wrong number of arguments for 'SHARDNUMSUB'. Try PUBSUB \
             HELP.",
            Answer::UnknownCommand,
        ),
        (
            "-ERR unknown subcommand 'SHARDNUMSUB'. Try PUBSUB HELP.",
            Answer::UnknownCommand,
        ),
    ];
    let replies = replies(&expected.map(|(line, _)| line));
    for ((line, expected), reply) in expected.iter().zip(replies) {
        assert_eq!(answer(&reply), *expected, "{line}");
    }
}

/// The finding if the test of each permission is allowed, except for these.
fn judged(given: &[(&str, Answer)]) -> Finding {
    let answers: Vec<_> = RIGHTS
        .iter()
        .map(|right| {
            let given = given.iter().find(|(rule, _)| *rule == right.rule);
            (right, given.map_or(Answer::Allowed, |(_, answer)| *answer))
        })
        .collect();
    verdict(&answers, &names())
}

#[test]
fn all_that_is_missing_is_named_at_once() {
    assert_eq!(judged(&[]).verdict, Verdict::Ok);
    let found = judged(&[
        ("subscribe", Answer::NotTheCommand),
        ("del", Answer::NotTheCommand),
        ("publish", Answer::NotTheChannel),
    ]);
    assert_eq!(found.verdict, Verdict::Failure);
    assert!(
        found.found.contains("subscribe, del, the channel"),
        "{found:?}"
    );
    assert_eq!(
        found.advice.unwrap(),
        "ACL SETUSER <user> +subscribe +del &redisson_lock__channel:*"
    );
}

#[test]
fn a_forbidden_key_is_reported_with_the_advice_to_give_another_name() {
    let found = judged(&[("hset", Answer::NotTheKey)]);
    let advice = found.advice.unwrap();
    assert!(advice.contains("leasehold doctor KEY"), "{advice}");
    assert!(advice.contains("~job"), "{advice}");
    // DEL uses a key that does not exist.
    assert_eq!(judged(&[("del", Answer::NotTheKey)]).verdict, Verdict::Ok);
}

#[test]
fn tokens_matter_to_fenced_locks_only() {
    let get = RIGHTS.iter().find(|right| right.rule == "get").unwrap();
    let answers = [(get, Answer::NotTheKey)];
    assert_eq!(verdict(&answers, &names()).verdict, Verdict::Ok);
    assert_eq!(
        fencing(&answers, &names()).unwrap().verdict,
        Verdict::Warning
    );
    assert_eq!(fencing(&[(get, Answer::NotTheCommand)], &names()), None);
}

#[test]
fn what_some_kinds_lack_is_a_warning_that_names_them() {
    let find = |rule, form: &str| {
        let all = RIGHTS.iter();
        let mut of_rule = all.filter(|right| right.rule == rule);
        of_rule.find(|right| right.form.contains(form)).unwrap()
    };
    let eval = (find("eval", "EVAL"), Answer::Allowed);
    let given = [
        eval,
        (find("subscribe", "{latch}"), Answer::NotTheChannel),
        (find("exists", "{queue}"), Answer::NotTheKey),
        (find("llen", "{key}"), Answer::NotTheCommand),
        (find("zcount", "{key}"), Answer::NotTheKey),
    ];
    assert_eq!(verdict(&given, &names()).verdict, Verdict::Ok);
    let found = kinds(&given, &names()).unwrap();
    assert_eq!(
        found.found,
        "the user may not use the channel redisson_countdownlatch__channel__{job}, the key \
         redisson_lock_queue:{job}, llen: no latches, no fair locks"
    );
    assert_eq!(
        found.advice.unwrap(),
        "ACL SETUSER <user> &redisson_countdownlatch__channel__* ~redisson_lock_queue:* +llen"
    );
    assert_eq!(kinds(&[eval], &names()), None);
    // It is reported for all locks.
    let subscribe = (find("subscribe", "{latch}"), Answer::NotTheCommand);
    assert_eq!(kinds(&[eval, subscribe], &names()), None);
}

#[test]
fn a_cluster_with_shard_channels_counts_only_their_listeners() {
    let find = |rule| RIGHTS.iter().find(|right| right.rule == rule).unwrap();
    let missing = |in_cluster: &[Answer]| {
        let of_shards = in_cluster
            .iter()
            .map(|answer| (find("pubsub|shardnumsub"), *answer));
        let mut answers = vec![
            (find("eval"), Answer::Allowed),
            (find("pubsub|numsub"), Answer::NotTheCommand),
        ];
        answers.extend(of_shards);
        kinds(&answers, &names()).is_some()
    };
    assert!(!missing(&[Answer::Allowed]));
    assert!(missing(&[]));
    assert!(missing(&[Answer::UnknownCommand]));
    assert!(missing(&[Answer::NotTheCommand]));
}

#[test]
fn locks_need_no_permission_to_look() {
    let given = [
        ("scan", Answer::NotTheCommand),
        ("pubsub|numsub", Answer::NotTheCommand),
    ];
    assert_eq!(judged(&given).verdict, Verdict::Ok);
    assert_eq!(
        judged(&[("scan", Answer::UnknownCommand)]).verdict,
        Verdict::Ok
    );
    let scan = RIGHTS.iter().find(|right| right.rule == "scan").unwrap();
    assert_eq!(looking(&[(scan, Answer::Allowed)]), None);
    let found = looking(&[(scan, Answer::NotTheCommand)]).unwrap();
    assert_eq!(found.verdict, Verdict::Warning);
    assert_eq!(found.advice.unwrap(), "ACL SETUSER <user> +scan");
}

#[test]
fn an_unknown_command_is_a_failure_if_it_is_needed() {
    let found = judged(&[
        ("eval", Answer::UnknownCommand),
        ("spublish", Answer::UnknownCommand),
    ]);
    assert!(found.found.ends_with("does not know eval"), "{found:?}");
    assert_eq!(
        judged(&[("pubsub|shardnumsub", Answer::UnknownCommand)]).verdict,
        Verdict::Ok
    );
}

#[test]
fn names_are_put_in_their_places() {
    let hdel = RIGHTS.iter().find(|right| right.rule == "hdel").unwrap();
    let names = Names {
        key: "a {key} b".into(),
        ..names()
    };
    let packed = hdel.command(&names).get_packed_command();
    let text = String::from_utf8(packed).unwrap();
    assert!(
        text.starts_with("*3\r\n$4\r\nHDEL\r\n$9\r\na {key} b\r\n"),
        "{text}"
    );
}

/// The words of docs/permissions.md are the rights of the constant, neither more nor fewer.
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
            .map(Into::into)
            .collect()
    };
    let ours = |always: bool| {
        let rights = RIGHTS
            .iter()
            .filter(|right| matches!(right.when, When::Always | When::Kinds(_)) == always);
        let mut ours: Vec<&str> = rights.map(|right| right.rule).collect();
        ours.dedup();
        ours
    };
    assert_eq!(rules(line), ours(true));
    let (_, beside) = page.split_once("A database other than 0").unwrap();
    // The sentinels' own user is another.
    let beside: Vec<_> = rules(beside)
        .into_iter()
        .filter(|rule| !rule.starts_with("sentinel|"))
        .collect();
    assert_eq!(beside, ours(false));
}
