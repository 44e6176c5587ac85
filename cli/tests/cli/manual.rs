//! `leasehold completions` and `leasehold man`. Neither needs Redis.

use std::io::Write;
use std::process::{Command, Stdio};

use crate::locks::{client, objects, with_long_timeout};
use crate::program::leasehold_nowhere;
use crate::support::server::Server;

fn completions(shell: &str) -> Vec<u8> {
    let output = leasehold_nowhere().args(["completions", shell]).output();
    output.expect(0).out
}

/// What a program says of this input; `None` where it is not installed.
fn said_by(program: &str, args: &[&str], input: &[u8]) -> Option<(bool, String, String)> {
    let mut command = Command::new(program);
    command.args(args).stdin(Stdio::piped());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().ok()?;
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_vec();
    let writer = std::thread::spawn(move || stdin.write_all(&input));
    let ended = child.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, err) = (text(&ended.stdout), text(&ended.stderr));
    Some((ended.status.success(), out, err))
}

#[test]
fn bash_completes_commands_and_options() {
    let mut script = completions("bash");
    for words in [
        "leasehold li",
        "leasehold list --js",
        "leasehold completions ba",
    ] {
        let words: Vec<&str> = words.split(' ').collect();
        let (line, last) = (words.join(" "), words.len() - 1);
        let current = words[last];
        let before = words[last - 1];
        script.extend(
            format!(
                "\nCOMP_WORDS=({line}); COMP_CWORD={last}; COMP_LINE='{line}'; COMP_POINT=${{#COMP_LINE}}\n\
                 _leasehold leasehold '{current}' '{before}'; echo \"${{COMPREPLY[@]}}\"\n"
            )
            .into_bytes(),
        );
    }
    let (good, out, err) = said_by("bash", &["--norc"], &script).expect("bash is installed");
    assert!(good, "{err}");
    let replies: Vec<&str> = out.lines().collect();
    assert_eq!(replies, ["list", "--json", "bash"], "{out}\n{err}");
    let (good, _, err) = said_by("bash", &["-n"], &completions("bash")).unwrap();
    assert!(good && err.is_empty(), "{err}");
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
        let script = completions(shell);
        assert!(
            String::from_utf8_lossy(&script).contains("redlock"),
            "{shell}"
        );
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
    let page = leasehold_nowhere().arg("man").output().expect(0).text();
    let text = page.replace("\\-", "-");
    for heading in [
        "NAME",
        "SYNOPSIS",
        "COMMANDS",
        "OPTIONS",
        "\"EXIT STATUS\"",
        "ENVIRONMENT",
        "EXAMPLES",
    ] {
        assert_eq!(
            text.matches(&format!(".SH {heading}\n")).count(),
            1,
            "{heading}"
        );
    }
    for status in [0, 1, 64, 69, 74, 75, 76, 126, 127] {
        assert!(text.contains(&format!("\\fB{status}\\fR")), "{status}");
    }
    // Whatever the help of a command names.
    for command in [
        "run",
        "hold",
        "list",
        "show",
        "break",
        "watch",
        "doctor",
        "completions",
        "man",
    ] {
        assert!(text.contains(&format!(".SS {command}\n")), "{command}");
        let help = leasehold_nowhere()
            .args([command, "--help"])
            .output()
            .expect(0)
            .text();
        for word in help
            .split_whitespace()
            .filter(|word| word.starts_with("--"))
        {
            let word = word.trim_end_matches(|c: char| !c.is_alphanumeric());
            assert!(text.contains(word), "{word} of {command}");
        }
    }
    let of_options = crate::usage::VARIABLES.map(|(name, _)| name);
    for name in of_options
        .iter()
        .chain(&["LEASEHOLD_KEY", "LEASEHOLD_TOKEN"])
    {
        assert!(text.contains(&format!("\\fB{name}\\fR")), "{name}");
    }
}

#[test]
fn the_keys_of_json_are_documented() {
    let server = Server::start();
    let held = client(&server).fenced_lock("order:pay").acquire().unwrap();
    for arguments in [&["list"][..], &["show", "order:pay"], &["doctor"]] {
        // The help of list has them, also for show.
        let help = ["list", arguments[0]].map(|command| {
            let help = leasehold_nowhere().args([command, "--help"]).output();
            let help = help.expect(0).text();
            help.split_once("--json").expect("the option").1.to_owned()
        });
        let help = help.concat();
        let told = |word: &str| {
            help.split(|c: char| !(c.is_alphanumeric() || c == '_'))
                .any(|w| w == word)
        };
        let printed = with_long_timeout(&server.url())
            .args(arguments)
            .arg("--json")
            .output();
        for object in objects(&printed) {
            for (key, _) in object.as_object().expect("an object") {
                assert!(told(key), "{key} in {help}");
            }
        }
    }
    held.unlock().unwrap();
}

#[test]
fn the_page_can_be_set() {
    let page = leasehold_nowhere().arg("man").output().expect(0).out;
    let args = ["-man", "-ww", "-Tutf8", "-P", "-cbou"];
    let Some((good, out, err)) = said_by("groff", &args, &page) else {
        return;
    };
    assert!(good && err.is_empty(), "{err}");
    assert!(
        out.contains("leasehold run [OPTIONS] <KEY> -- <COMMAND>..."),
        "{out}"
    );
    assert!(out.contains("leasehold list 'order:*' --json"), "{out}");
}

#[test]
fn the_options_for_redis_have_a_heading_of_their_own() {
    let help = leasehold_nowhere().arg("--help").output().expect(0).text();
    let (general, redis) = help.split_once("Redis:").expect("a heading");
    assert!(
        general.contains("--quiet") && general.contains("--verbose"),
        "{help}"
    );
    assert!(redis.contains("--redlock"), "{help}");
}
