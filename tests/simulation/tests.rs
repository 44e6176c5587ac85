//! The program `simulate`: a seed is a run, and a broken promise is found.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

/// A scenario that ends soon.
const SMALL: [&str; 3] = ["--storms=1", "--steps=20000", "--processes=2"];

/// Clocks that are slower than leases allow for: holds end later than their leases.
const BROKEN: &str = "--slow=90";

/// Runs the program, which cargo has built before this test.
fn simulate<'a>(arguments: impl IntoIterator<Item = &'a str>) -> Output {
    let test = std::env::current_exe().unwrap();
    let folder = test.ancestors().nth(2).unwrap();
    let program = folder.join("examples").join("simulate");
    let run = Command::new(&program).args(arguments).output();
    run.unwrap_or_else(|error| panic!("{}: {error}", program.display()))
}

fn text(run: &Output) -> String {
    String::from_utf8(run.stdout.clone()).unwrap()
}

/// The lines that begin so, without their begin.
fn after<'a>(text: &'a str, begin: &str) -> Vec<&'a str> {
    text.lines()
        .filter_map(|line| line.strip_prefix(begin))
        .collect()
}

#[test]
fn the_same_seed_gives_the_same_log() {
    let folder = tempfile::tempdir().unwrap();
    let logs = ["first", "second"].map(|name| folder.path().join(name));
    for kind in [
        "reentrant",
        "fenced",
        "fair",
        "read-write",
        "permits=2",
        "semaphore=4",
    ] {
        let kind = format!("--kind={kind}");
        let [first, second] = logs.each_ref().map(|log| {
            let run = ["--scenario=7", &kind, "--log", log.to_str().unwrap()];
            let run = simulate(run.into_iter().chain(SMALL));
            assert!(run.status.success(), "{}", text(&run));
            (text(&run), fs::read(log).unwrap())
        });
        assert!(first.1.len() > 10_000, "{kind}: {first:?}");
        // Too long for `assert_eq`.
        assert!(first == second, "{kind}: {} and {}", first.0, second.0);
    }
}

#[test]
fn runs_without_a_violation_succeed() {
    let run = simulate(["0", "7"].into_iter().chain(SMALL));
    let text = text(&run);
    assert!(run.status.success(), "{text}");
    assert!(text.starts_with("seed 7\n"), "{text}");
    assert!(text.ends_with(" acquisitions, 0 violations\n"), "{text}");
}

#[test]
fn a_broken_promise_is_found_and_its_command_repeats_it() {
    let run = simulate(["0", "7", "--no-shrink", "--kind=reentrant", BROKEN]);
    let text = text(&run);
    assert_eq!(run.status.code(), Some(1), "{text}");
    assert!(text.starts_with("seed 7\n"), "{text}");
    assert!(
        text.contains("records around the first violation:\n"),
        "{text}"
    );
    let found = after(&text, "VIOLATION ");
    assert!(!found.is_empty(), "{text}");

    let command = after(&text, "again: scripts/simulate ");
    assert_eq!(command.len(), 1, "{text}");
    let words: Vec<&str> = command[0].split(' ').collect();
    let at = words.iter().position(|word| *word == "--log").unwrap();
    assert!(Path::new(words[at + 1]).starts_with("target"), "{text}");
    let words = [&words[..at], &words[at + 2..]].concat();
    let again = simulate(words);
    assert_eq!(again.status.code(), Some(1), "{text}");
    assert_eq!(after(&self::text(&again), "VIOLATION "), found);
}

#[test]
fn a_broken_promise_has_a_shorter_run() {
    let few_faults = "--without=pause-for-a-while,kill-worker,delete,restart-server";
    let run = simulate([
        "0",
        "7",
        "--kind=reentrant",
        "--threads=2",
        few_faults,
        BROKEN,
    ]);
    let text = text(&run);
    assert_eq!(run.status.code(), Some(1), "{text}");
    let (_, shorter) = text.split_once("\nshorter:\n").unwrap();
    let command = after(shorter, "again: scripts/simulate ");
    assert!(command[0].contains("--steps="), "{text}");
}
