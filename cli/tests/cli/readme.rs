//! The lines for cron, systemd and pods in the README and in `docs/` work as they stand, except for
//! the port of Redis and the directory of the program, which are the test's.

use std::fs;
use std::path::Path;
use std::process::{Command, ExitStatus};

use crate::locks::plant;
use crate::program::PATH;
use crate::proxy::repository;
use crate::support::process::signal;
use crate::support::server::Server;
use crate::support::timing::eventually;

const URL: &str = "redis://127.0.0.1:6379";

/// The README and the pages of `docs/`.
pub fn documentation() -> String {
    let docs = fs::read_dir(repository().join("docs"))
        .into_iter()
        .flatten();
    let docs = docs.map(|page| page.expect("a page").path());
    let docs = docs.filter(|page| page.extension().is_some_and(|extension| extension == "md"));
    let pages = docs.chain([repository().join("README.md")]);
    let read = |page| fs::read_to_string(page).expect("a text");
    pages.map(read).collect()
}

/// The block of the documentation that is marked as this kind of file.
fn block(kind: &str) -> String {
    let text = documentation();
    let (_, rest) = text.split_once(&format!("```{kind}\n")).expect("a block");
    rest.split_once("```").expect("its end").0.into()
}

fn directory() -> &'static Path {
    Path::new(PATH).parent().expect("a directory")
}

/// As cron does: the settings are the environment, what follows the five fields is for `sh`.
fn cron_runs(crontab: &str) -> std::process::Output {
    let (mut settings, mut line) = (Vec::new(), None);
    for entry in crontab.lines() {
        match entry.split_once('=') {
            Some((name, value)) if name.chars().all(|c| c.is_ascii_uppercase() || c == '_') => {
                settings.push((name, value.to_owned()));
            }
            _ => line = Some(entry),
        }
    }
    let command = line.expect("a line").splitn(6, ' ').nth(5);
    Command::new("sh")
        .args(["-c", command.expect("a command")])
        .env_clear()
        .envs(settings)
        .output()
        .expect("sh runs")
}

#[test]
fn the_line_for_cron_runs_the_job_once() {
    let server = Server::start();
    let crontab = block("crontab")
        .replace(URL, &server.url())
        .replace("/usr/local/bin", directory().to_str().expect("UTF-8"));
    let first = cron_runs(&crontab);
    assert_eq!(first.status.code(), Some(0), "{first:?}");
    assert!(!first.stdout.is_empty(), "the date");
    let left: i64 = server.ask(redis::cmd("PTTL").arg("report"));
    assert!((1..=60_000).contains(&left), "{left}");
    // The machine whose clock is behind.
    let second = cron_runs(&crontab);
    assert_eq!(second.status.code(), Some(75), "{second:?}");
    assert!(
        second.stdout.is_empty() && second.stderr.is_empty(),
        "no mail: {second:?}"
    );
}

#[test]
fn the_unit_for_systemd_runs_the_job_once() {
    let server = Server::start();
    let unit = block("ini")
        .replace(URL, &server.url())
        .replace("/usr/local/bin", directory().to_str().expect("UTF-8"));
    let setting = |name: &str| {
        let line = unit.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap_or_else(|| panic!("no {name}"))
    };
    let (name, value) = setting("Environment=").split_once('=').expect("a variable");
    let command = |line: &str| {
        let mut words = line.split(' ');
        let mut command = Command::new(words.next().expect("a program"));
        command.args(words).env_clear().env(name, value);
        command
    };
    let line = setting("ExecStart=");
    let start = || command(line).output().expect("it runs");
    let succeeds = |status: ExitStatus| {
        let mut good = setting("SuccessExitStatus=").split(' ').map(str::parse);
        good.any(|good| good.ok() == status.code())
    };
    let done = start();
    assert_eq!(done.status.code(), Some(0), "{done:?}");
    assert!(!done.stdout.is_empty(), "the date");
    let other = "6ba7b810-9dad-11d1-80b4-00c04fd430c8:17";
    server.ask::<()>(redis::cmd("HSET").arg("report").arg(other).arg(1));
    let in_vain = start();
    assert_eq!(in_vain.status.code(), Some(75));
    assert!(succeeds(in_vain.status));
    server.ask::<()>(redis::cmd("DEL").arg("report"));

    // A stop tells the program and no other.
    assert_eq!(setting("KillMode="), "mixed");
    let line = line.replace("/bin/date", "/bin/sleep 100");
    let mut stopped = command(&line).spawn().expect("it runs");
    eventually("the lock", || {
        server.ask(redis::cmd("EXISTS").arg("report"))
    });
    signal(stopped.id(), "TERM");
    let status = stopped.wait().expect("our own child");
    assert!(succeeds(status), "{status}");
    assert!(!server.ask::<bool>(redis::cmd("EXISTS").arg("report")));
}

#[test]
fn the_command_of_a_pod_runs_the_job_once_and_the_other_pods_succeed() {
    let server = Server::start();
    let line = block("yaml");
    let list = line.trim().strip_prefix("command: [leasehold, ");
    let list = list
        .and_then(|list| list.strip_suffix(']'))
        .expect("a list");
    let words: Vec<&str> = list
        .split(", ")
        .map(|word| word.trim_matches('"'))
        .collect();
    let pod = || {
        let mut pod = Command::new(PATH);
        pod.args(&words)
            .env_clear()
            .env("LEASEHOLD_URL", server.url());
        pod.output().expect("it runs")
    };
    for (is_held, prints) in [(false, true), (true, false)] {
        if is_held {
            plant(&server, "report");
        }
        let ended = pod();
        assert_eq!(ended.status.code(), Some(0), "{ended:?}");
        assert_eq!(!ended.stdout.is_empty(), prints, "{ended:?}");
    }
}

/// Where there is a systemd to ask.
#[test]
fn systemd_takes_the_unit() {
    let there = Command::new("systemd-analyze").arg("--version").output();
    if !there.is_ok_and(|output| output.status.success()) {
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("report.service");
    let program = directory.path().join("leasehold");
    fs::copy(PATH, &program).expect("a copy");
    let place = directory.path().to_str().expect("UTF-8");
    fs::write(&file, block("ini").replace("/usr/local/bin", place)).expect("a file");
    let verified = Command::new("systemd-analyze")
        .args(["verify", "--recursive-errors=no"])
        .arg(&file)
        .output()
        .expect("it runs");
    let said = String::from_utf8_lossy(&verified.stderr);
    assert!(!said.contains("report.service"), "{said}");
}
