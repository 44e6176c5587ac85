//! `leasehold completions` and `leasehold man`, from the definition of the arguments.

use std::io::{self, Write};
use std::process::ExitCode;

use clap::{Command, CommandFactory};
use clap_mangen::Man;

use super::args::{Args, CompletionsArgs};
use super::outcome::{Failure, MEANINGS, OUTPUT, Result};
use super::output;

/// Variables of the environment that belong to no option.
const ENVIRONMENT: [(&str, &str); 4] = [
    (
        "REDIS_URL",
        "The URL of Redis, if --url and LEASEHOLD_URL are missing.",
    ),
    (
        "LEASEHOLD_PASSWORD",
        "The password at the servers that have the locks, if the URL has none; behind sentinels \
         always.",
    ),
    (
        "LEASEHOLD_KEY",
        "Set for the command of run: the name of the lock.",
    ),
    (
        "LEASEHOLD_TOKEN",
        "Set for the command of run --fenced: the fencing token.",
    ),
];

const EXAMPLES: [(&str, &str); 8] = [
    (
        "At most one nightly report on many machines; the others give up at once",
        "leasehold run --no-wait report:nightly -- /usr/local/bin/report",
    ),
    (
        "One deployment after the other, each for ten minutes at most",
        "leasehold run --wait 1h --max-hold 10m deploy -- ./deploy.sh production",
    ),
    (
        "Keep the nightly report from running until Ctrl-D is typed",
        "leasehold hold report:nightly",
    ),
    (
        "The locks of orders, as JSON",
        "leasehold list 'order:*' --json",
    ),
    ("A live view of them", "leasehold watch 'order:*'"),
    (
        "Free a lock without asking",
        "leasehold break --yes order:4711",
    ),
    (
        "Three reports at a time, in place of the number until now",
        "leasehold permits report 3",
    ),
    (
        "Locks of a cluster",
        "leasehold --cluster --url redis://n1:6379,redis://n2:6379 list",
    ),
];

pub(super) fn completions(wanted: &CompletionsArgs) -> Result<ExitCode> {
    let mut text = Vec::new();
    let mut command = Args::command();
    let name = command.get_name().to_owned();
    clap_complete::generate(wanted.shell, &mut command, name, &mut text);
    output::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

pub(super) fn man() -> Result<ExitCode> {
    let page = page().map_err(|error| Failure::new(OUTPUT, error))?;
    output::print(&page)?;
    Ok(ExitCode::SUCCESS)
}

fn page() -> io::Result<Vec<u8>> {
    let man = Man::new(Args::command()).manual("Locks on Redis");
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    let usage = usage(Args::command());
    writeln!(page, ".SH SYNOPSIS\n{usage}")?;
    man.render_description_section(&mut page)?;
    writeln!(page, ".SH COMMANDS")?;
    for command in Args::command().get_subcommands() {
        page.extend(of_command(command.clone())?.into_bytes());
    }
    man.render_options_section(&mut page)?;
    writeln!(page, ".SH \"EXIT STATUS\"")?;
    for (status, meaning) in MEANINGS {
        entry(&mut page, &status.to_string(), meaning)?;
    }
    let signalled =
        "Signal n ended the command of run, or the wait of run; hold: signal n ended it.";
    entry(&mut page, "128 + n", signalled)?;
    writeln!(page, ".SH ENVIRONMENT")?;
    for argument in Args::command().get_arguments() {
        if let (Some(name), Some(option)) = (argument.get_env(), argument.get_long()) {
            let meaning = format!("As --{option}.");
            entry(&mut page, &name.to_string_lossy(), &meaning)?;
        }
    }
    for (name, meaning) in ENVIRONMENT {
        entry(&mut page, name, meaning)?;
    }
    writeln!(page, ".SH EXAMPLES")?;
    for (what, line) in EXAMPLES {
        writeln!(page, ".PP\n{}:", escaped(what))?;
        writeln!(page, ".PP\n.RS 4\n.nf\n{}\n.fi\n.RE", escaped(line))?;
    }
    Ok(page)
}

/// The section of one command, without the options that all commands have.
fn of_command(command: Command) -> io::Result<String> {
    let name = command.get_name().to_owned();
    let command = command
        .bin_name(format!("leasehold {name}"))
        .disable_help_flag(true);
    let has_arguments = command.get_arguments().next().is_some();
    let mut text = Vec::new();
    writeln!(text, ".SS {}\n{}", escaped(&name), usage(command.clone()))?;
    let man = Man::new(command);
    man.render_description_section(&mut text)?;
    if has_arguments {
        man.render_options_section(&mut text)?;
    }
    let text = String::from_utf8_lossy(&text);
    Ok(text
        .replace(".SH DESCRIPTION\n", ".PP\n")
        .replace(".SH OPTIONS\n", ""))
}

/// The usage of a command.
fn usage(mut command: Command) -> String {
    let text = command.render_usage().to_string();
    escaped(text.trim_start_matches("Usage: "))
}

/// A term and its meaning.
fn entry(page: &mut Vec<u8>, word: &str, meaning: &str) -> io::Result<()> {
    writeln!(page, ".TP\n\\fB{}\\fR\n{}", escaped(word), escaped(meaning))
}

/// Escapes a line for `troff`, so that hyphens, quotes and a dot at the start stay what they are.
fn escaped(line: &str) -> String {
    let text = line
        .replace('\\', "\\e")
        .replace('-', "\\-")
        .replace('\'', "\\(aq");
    if text.starts_with('.') {
        format!("\\&{text}")
    } else {
        text
    }
}
