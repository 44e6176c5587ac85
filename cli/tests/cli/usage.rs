//! Arguments that make no sense.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use crate::program::{leasehold, leasehold_nowhere};
use crate::support::deployment::{ClusterDeployment, Independent, SentinelDeployment};
use crate::support::server::Server;

/// An overview for a user who has not read the help.
#[test]
fn without_a_command_the_most_used_ones_are_listed() {
    for arguments in [&[][..], &["--quiet"]] {
        let output = leasehold_nowhere().args(arguments).output().expect(2);
        assert_eq!(output.text(), "");
        for line in [
            "leasehold run KEY -- COMMAND  ",
            "leasehold list  ",
            "leasehold show KEY  ",
            "leasehold doctor  ",
            "leasehold help ",
        ] {
            assert!(output.err.contains(line), "{output:?}");
        }
        let is_short = |line: &str| line.len() <= 100;
        assert!(output.err.lines().all(is_short), "{output:?}");
    }
}

/// The mistakes of the first hour: each message says what to write instead.
#[test]
fn a_mistake_is_explained_in_one_line() {
    let run = "write leasehold run [OPTIONS] <KEY> -- <COMMAND>";
    for (arguments, words) in [
        ("-n", &["'-n'", "`leasehold help`"][..]),
        (
            "run -s order -- date",
            &["'-s'", "write --kind read;", "`leasehold help run`"],
        ),
        ("hold --shared order", &["'--shared'", "--kind read"]),
        ("run --nonblock order -- date", &["--no-wait"]),
        ("run --try order -- date", &["write --no-wait;"]),
        ("run --ttl=600 order -- date", &["write --lease DURATION;"]),
        ("run --kind fenced order -- date", &["--fenced"]),
        (
            "run --timeout 30m order -- date",
            &["--timeout", "one reply of Redis", "--wait"],
        ),
        ("run --timeout 5 order -- date", &["unit", "--wait"]),
        ("run order -c date -- date", &["'--command <TEXT>'"]),
        (
            "list --jsno",
            &["'--jsno'", "'--json'", "`leasehold help list`"],
        ),
        (
            "run -x order date",
            &["write nothing, or --kind write", run],
        ),
        ("run order date", &["'date'", run]),
        ("run order", &["<COMMAND>...", run]),
        ("show", &["<KEY>", "write leasehold show [OPTIONS] <KEY>"]),
        ("show a b", &["'b'", "leasehold show [OPTIONS] <KEY>"]),
        ("lst", &["'lst'", "'list'", "`leasehold help`"]),
        ("lock", &["'lock'", "write leasehold [OPTIONS] <COMMAND>"]),
        (
            "run --lease soon order -- date",
            &["soon", "--lease", "30s"],
        ),
        ("show $'a", &["$'", r"\xNN"]),
    ] {
        // Settings in the environment are not part of what to write.
        let program = leasehold("redis://127.0.0.1:1").args(arguments.split(' '));
        let output = program.output().expect_failure(64, words);
        for word in ["error:", "--url", "Usage:"] {
            assert!(!output.err.contains(word), "{output:?}");
        }
    }
}

#[test]
fn a_server_that_is_absent_is_named_with_the_option_for_another() {
    let output = leasehold("redis://127.0.0.1:1").arg("list").output();
    output.expect_failure(69, &["127.0.0.1:1", "refused", "--url", "LEASEHOLD_URL"]);
    let server = Server::start();
    let output = leasehold(&server.url()).args(["show", "order"]).output();
    let words = ["no client holds order", &server.address(), "leasehold list"];
    output.expect_failure(1, &words);
}

#[test]
fn only_one_deployment_can_be_meant() {
    let url = "redis://127.0.0.1:1,redis://127.0.0.1:2,redis://127.0.0.1:3";
    for (arguments, environment, words) in [
        ("--cluster --redlock", &[][..], "exclude"),
        ("--cluster --sentinel m", &[], "exclude"),
        ("--redlock", &[("LEASEHOLD_CLUSTER", "1")], "exclude"),
        (
            "--quiet",
            &[("LEASEHOLD_SENTINEL", "m"), ("LEASEHOLD_REDLOCK", "yes")],
            "exclude",
        ),
        ("--quiet", &[], "several URLs need"),
    ] {
        let mut program = leasehold(url).args(["list", "--timeout", "100ms"]);
        for (name, value) in environment {
            program = program.env(name, value);
        }
        let output = program.args(arguments.split(' ')).output();
        output.expect_failure(64, &["--cluster", words]);
    }
}

/// `run` could acquire no lock there, so the other commands fail, too.
#[test]
fn a_majority_is_one_of_an_odd_number_of_servers() {
    let servers = Independent::start(4);
    let urls = servers.urls();
    let twice = [&urls[..2], &urls[..1]].concat();
    for (urls, words) in [
        (&urls[..1], "three"),
        (&urls[..2], "three"),
        (&urls[..4], "odd"),
        (&twice[..], "more than once"),
    ] {
        for command in ["doctor", "list", "show k", "break -y k"] {
            let program = leasehold(&urls.join(",")).arg("--redlock");
            let output = program.args(command.split(' ')).output();
            output.expect_failure(64, &["--redlock", words]);
        }
    }
}

#[test]
fn the_environment_can_deny() {
    let server = Server::start();
    for value in ["0", "no", "false"] {
        let denied = ["LEASEHOLD_CLUSTER", "LEASEHOLD_REDLOCK"];
        let list = leasehold(&server.url()).arg("list");
        let list = denied.iter().fold(list, |list, name| list.env(name, value));
        list.output().expect_all(0, "", "");
    }
}

/// The variables that the manual names, and what is a mistake there.
pub const VARIABLES: [(&str, &str); 13] = [
    ("LEASEHOLD_URL", "http://nowhere"),
    ("REDIS_URL", "http://nowhere"),
    ("LEASEHOLD_SENTINEL", "unknown"),
    ("LEASEHOLD_CLUSTER", "yes"),
    ("LEASEHOLD_REDLOCK", "yes"),
    ("LEASEHOLD_MIN_REPLICAS", "many"),
    ("LEASEHOLD_USER", "unknown"),
    ("LEASEHOLD_PASSWORD", "wrong"),
    ("LEASEHOLD_PASSWORD_FILE", "/nowhere"),
    ("LEASEHOLD_CACERT", "/nowhere"),
    ("LEASEHOLD_CERT", "/nowhere"),
    ("LEASEHOLD_CERT_KEY", "/nowhere"),
    ("LEASEHOLD_TIMEOUT", "soon"),
];

#[test]
fn what_the_environment_sets_to_nothing_is_not_set() {
    let server = Server::start();
    for (name, mistake) in VARIABLES {
        // Whichever names the server, the other is tried.
        let mut urls = ["LEASEHOLD_URL", "REDIS_URL"].into_iter();
        let url = urls.find(|url| *url != name).unwrap();
        let with = |value| {
            let program = leasehold_nowhere().env(url, server.url());
            program.env(name, value).args(["list", "--json"]).output()
        };
        with("").expect_all(0, "", "");
        // REDIS_URL is not asked for once there is another.
        if name != "REDIS_URL" {
            assert_ne!(with(mistake).code(), Some(0), "{name}");
        }
        // The commands that ask no Redis do not mind.
        for arguments in [&["man"][..], &["completions", "bash"]] {
            let program = leasehold_nowhere().env(name, mistake).args(arguments);
            assert!(!program.output().expect(0).out.is_empty(), "{name}");
        }
    }
    let all = VARIABLES
        .iter()
        .fold(leasehold_nowhere(), |all, (name, _)| all.env(name, ""));
    let listed = all.env("REDIS_URL", server.url()).arg("list").output();
    listed.expect_all(0, "", "");
}

/// Else the lock would be on the Redis that is asked by default.
#[test]
fn a_variable_that_cannot_be_read_is_not_taken_for_nothing() {
    let value = OsStr::from_bytes(b"redis://\xff");
    for name in ["REDIS_URL", "LEASEHOLD_PASSWORD"] {
        let output = leasehold("").env(name, value).arg("list").output();
        output.expect_failure(64, &[name, "UTF-8"]);
    }
}

/// Of a script with a variable that is not set, say: it is not to lead to another Redis.
#[test]
fn what_is_said_to_be_empty_is_a_mistake() {
    let server = Server::start();
    for option in ["--url", "--sentinel", "--user"] {
        for arguments in [[option, "", "list"], ["list", option, ""]] {
            let output = leasehold(&server.url()).args(arguments).output();
            output.expect_failure(64, &[option, "empty"]);
        }
    }
}

#[test]
fn an_argument_that_is_not_text_is_reported_in_one_line() {
    let bad = OsStr::from_bytes(b"\xff");
    for arguments in [["--bogus"], ["list"]] {
        let output = leasehold_nowhere().args(arguments).arg(bad).arg("--what");
        output.output().expect_failure(64, &["leasehold: "]);
    }
}

/// Users of the command cannot follow advice about the library.
#[test]
fn advice_is_given_in_options() {
    let server = Server::start();
    let cluster = ClusterDeployment::shared();
    let sentinel = SentinelDeployment::start_with_password("secret");
    let sentinels = sentinel.sentinel_urls();
    let elsewhere = cluster.another_primary(cluster.slot_of("order:pay"));
    let wrong = |of: &str| format!("redis://:wrong@{}", of.rsplit(['@', '/']).next().unwrap());
    let secure = format!("rediss://{}#insecure", server.address());
    let by_sentinel = &*format!("list --sentinel {}", sentinel.master_name());
    let log_in = "--user and LEASEHOLD_PASSWORD";
    for (url, arguments, words) in [
        (elsewhere.url(), "show order:pay", "use --cluster"),
        (sentinels[0].clone(), "list", "--sentinel MASTER"),
        (wrong(&sentinels[0]), by_sentinel, log_in),
        (sentinels.join(","), by_sentinel, log_in),
        (server.url(), "list --cluster", "leave out --cluster"),
        (server.url(), "list --timeout 0s", "--timeout"),
        (server.url(), "list --timeout 2h", "--timeout"),
        (server.url(), "list --min-replicas 0", "--min-replicas is 0"),
        (server.url(), "doctor --cluster", "leave out --cluster"),
        (secure, "list", "authority"),
    ] {
        let output = leasehold(&url).args(arguments.split(' ')).output();
        let said = output.text() + &output.err;
        assert!(said.contains(words), "{arguments}: {said}");
        for api in ["LockClient", "builder", "_timeout", "_certificate"] {
            assert!(!said.contains(api), "{arguments}: {said}");
        }
    }
}
