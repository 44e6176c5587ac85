//! `leasehold completions` and `leasehold man`. Neither needs Redis.

use std::io::Write;
use std::process::{Command, Stdio};

use crate::locks::{client, objects_at};
use crate::program::leasehold_nowhere;
use crate::support::server::Server;
use crate::usage::VARIABLES;

/// What the program prints.
fn printed(args: &[&str]) -> String {
    leasehold_nowhere().args(args).output().expect(0).text()
}

/// What a program says of this input; `None` where it is not installed.
fn said_by(program: &str, args: &[&str], input: &str) -> Option<(bool, String, String)> {
    let mut command = Command::new(program);
    command.args(args).stdin(Stdio::piped());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().ok()?;
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_owned();
    let writer = std::thread::spawn(move || stdin.write_all(input.as_bytes()));
    let ended = child.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, err) = (text(&ended.stdout), text(&ended.stderr));
    Some((ended.status.success(), out, err))
}

#[test]
fn each_shell_has_completions_that_it_can_read() {
    for (shell, check) in [
        ("bash", &["bash", "-n"][..]),
        ("zsh", &["zsh", "-n"]),
        ("fish", &["fish", "--no-execute"]),
        ("elvish", &[]),
        ("powershell", &[]),
    ] {
        let script = printed(&["completions", shell]);
        assert!(script.contains("redlock"), "{shell}");
        let Some((program, args)) = check.split_first() else {
            continue;
        };
        if let Some((good, _, err)) = said_by(program, args, &script) {
            assert!(good && err.is_empty(), "{shell}: {err}");
        }
    }
    let unknown = leasehold_nowhere().args(["completions", "tcsh"]).output();
    unknown.expect_failure(64, &["tcsh"]);
}

#[test]
fn the_page_tells_all_that_there_is() {
    let text = printed(&["man"]).replace("\\-", "-");
    for heading in [
        "NAME",
        "SYNOPSIS",
        "COMMANDS",
        "OPTIONS",
        "\"EXIT STATUS\"",
        "ENVIRONMENT",
        "EXAMPLES",
    ] {
        let count = text.matches(&format!(".SH {heading}\n")).count();
        assert_eq!(count, 1, "{heading}");
    }
    for status in [0, 1, 64, 69, 74, 75, 76, 124, 126, 127] {
        assert!(text.contains(&format!("\\fB{status}\\fR")), "{status}");
    }
    // Whatever the help of a command names.
    for command in "run hold list show break permits watch doctor completions man".split(' ') {
        assert!(text.contains(&format!(".SS {command}\n")), "{command}");
        let help = printed(&[command, "--help"]);
        let options = help
            .split_whitespace()
            .filter(|word| word.starts_with("--"));
        for option in options {
            let option = option.trim_end_matches(|c: char| !c.is_alphanumeric());
            assert!(text.contains(option), "{option} of {command}");
        }
    }
    // The variables, and no others.
    let (_, environment) = text.split_once(".SH ENVIRONMENT").expect("a section");
    let (environment, _) = environment.split_once(".SH EXAMPLES").expect("the next");
    let entries = environment.split("\\fB").skip(1);
    let told = entries.filter_map(|entry| Some(entry.split_once("\\fR")?.0));
    let mut told: Vec<&str> = told.collect();
    let known = VARIABLES.map(|(name, _)| name).into_iter();
    let set = [
        "LEASEHOLD_KEY",
        "LEASEHOLD_KEYS",
        "LEASEHOLD_TOKEN",
        "LEASEHOLD_CREDENTIALS_REMOVED",
    ];
    let mut known: Vec<&str> = known.chain(set).collect();
    told.sort_unstable();
    known.sort_unstable();
    assert_eq!(told, known);
}

/// A page of a terminal or two. The manual has the rest.
#[test]
fn the_help_of_run_and_hold_is_short() {
    for command in ["run", "hold"] {
        for arguments in [[command, "--help"], ["help", command]] {
            let lines = printed(&arguments).lines().count();
            assert!(lines <= 60, "{lines} lines for {command}");
        }
    }
    assert!(printed(&["run", "--help"]).contains("leasehold man"));
    let manual = printed(&["man"]);
    for words in ["a process group of its own", "Ctrl"] {
        assert!(manual.contains(words), "{words}");
    }
}

#[test]
fn the_keys_of_json_are_documented() {
    let server = Server::start();
    let held = client(&server).fenced_lock("order:pay").acquire().unwrap();
    for (command, words) in [
        ("list", "list"),
        ("show", "show order:pay"),
        ("doctor", "doctor"),
    ] {
        // The help of list has them, also for show.
        let help = ["list", command].map(|command| {
            let help = printed(&[command, "--help"]);
            help.split_once("--json").expect("the option").1.to_owned()
        });
        let help = help.concat();
        let of_word = |c: char| c.is_alphanumeric() || c == '_';
        let told: Vec<&str> = help.split(|c| !of_word(c)).collect();
        for object in objects_at(&server, words) {
            for (key, _) in object.as_object().expect("an object") {
                assert!(told.contains(&&**key), "{key} in {help}");
            }
        }
    }
    held.unlock().unwrap();
}

#[test]
fn the_page_can_be_set() {
    let args = ["-man", "-ww", "-Tutf8", "-P", "-cbou"];
    let Some((good, out, err)) = said_by("groff", &args, &printed(&["man"])) else {
        return;
    };
    assert!(good && err.is_empty(), "{err}");
    for line in [
        "leasehold run [OPTIONS] <KEY> -- <COMMAND>...",
        "leasehold list 'order:*' --json",
    ] {
        assert!(out.contains(line), "{out}");
    }
}

#[test]
fn the_options_for_redis_have_a_heading_of_their_own_and_name_their_variables() {
    let help = printed(&["--help"]);
    let (general, redis) = help.split_once("Redis:").expect("a heading");
    for option in ["--quiet", "--verbose"] {
        assert!(general.contains(option), "{help}");
    }
    assert!(redis.contains("--redlock"), "{help}");
    let of_no_option = ["REDIS_URL", "LEASEHOLD_PASSWORD"];
    for (name, _) in VARIABLES {
        let is_named = ["=", "]"].map(|end| redis.contains(&format!("[env: {name}{end}")));
        let is_named = is_named.contains(&true);
        assert_eq!(is_named, !of_no_option.contains(&name), "{name}: {help}");
    }
}
