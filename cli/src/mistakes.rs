//! What to do about arguments that are invalid, in one line.

use clap::Command;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use super::outcome::{Failure, NO_COMMAND};
use super::stderr;

/// For a user who writes no command.
const OVERVIEW: &str = "\
leasehold: a command is missing. These are the most used:

  leasehold run KEY -- COMMAND   run a command while it holds the lock KEY
  leasehold list                 list the locks that are held
  leasehold show KEY             show who holds a lock, and who waits for it
  leasehold doctor               check Redis for problems with locks

leasehold help lists all commands and options. Redis is redis://127.0.0.1:6379, unless --url,
LEASEHOLD_URL or REDIS_URL names another.
";

/// Options of flock(1), and the same of `run` and `hold`.
const OF_FLOCK: [(&str, &str); 2] = [("-n", "--no-wait"), ("-w", "--wait DURATION")];

/// Prints the help, the version or the overview, and exits. Returns any other error. `all` is the
/// definition of the arguments.
pub(super) fn failure(error: &clap::Error, all: Command) -> Failure {
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => error.exit(),
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand | ErrorKind::MissingSubcommand => {
            stderr::write(OVERVIEW.into());
            stderr::finish();
            std::process::exit(NO_COMMAND.into())
        }
        _ => Failure::usage(explanation(error, all)),
    }
}

fn explanation(error: &clap::Error, all: Command) -> String {
    let usage = text(error, ContextKind::Usage).unwrap_or_default();
    let command = usage.split(' ').nth(2).unwrap_or_default();
    let command = Some(command).filter(|word| !word.starts_with(['[', '<']));
    let command = command.unwrap_or_default();
    let help = match command {
        "" => "`leasehold help`".to_owned(),
        command => format!("`leasehold help {command}`"),
    };
    let given = text(error, ContextKind::InvalidArg).unwrap_or_default();
    let without_dashes = !std::env::args_os().any(|arg| arg == "--");
    match error.kind() {
        ErrorKind::UnknownArgument if command == "run" && without_dashes => {
            let (unknown, example) = if given.starts_with('-') {
                let instead = instead(error, command, &given);
                (format!("there is no option {given}{instead}; "), "COMMAND")
            } else {
                (String::new(), &*given)
            };
            format!(
                "{unknown}the command and its arguments come after `--`, as in leasehold run KEY \
                 -- {example}"
            )
        }
        ErrorKind::UnknownArgument if given.starts_with('-') => format!(
            "there is no option {given}{}; {help} lists all options",
            instead(error, command, &given)
        ),
        ErrorKind::UnknownArgument => {
            let usage = usage_of(command, all);
            format!("the argument {given:?} is one too many; write {usage}")
        }
        ErrorKind::InvalidSubcommand => {
            let given = text(error, ContextKind::InvalidSubcommand).unwrap_or_default();
            let similar = text(error, ContextKind::SuggestedSubcommand);
            let similar = similar.map(|similar| format!("; the most similar is {similar}"));
            let run =
                (!without_dashes).then_some("; to run a command, write leasehold run KEY -- ..");
            format!(
                "there is no command {given}{}{}; `leasehold help` lists all commands",
                similar.unwrap_or_default(),
                run.unwrap_or_default()
            )
        }
        ErrorKind::MissingRequiredArgument => {
            format!("{given} is missing; write {}", usage_of(command, all))
        }
        ErrorKind::InvalidUtf8 => {
            "an argument is not UTF-8; only the names in list, show, break and watch can be any \
             bytes"
                .into()
        }
        _ => first_part(error),
    }
}

/// How the command is written. The usage in an error also has options of the environment.
fn usage_of(command: &str, mut all: Command) -> String {
    all.build();
    let usage = match all.find_subcommand_mut(command) {
        Some(command) => command.render_usage(),
        None => all.render_usage(),
    };
    usage.to_string().trim_start_matches("Usage: ").to_owned()
}

/// The option that the user may mean instead.
fn instead(error: &clap::Error, command: &str, given: &str) -> String {
    let mut of_flock = OF_FLOCK.iter();
    let of_flock =
        of_flock.find(|(option, _)| *option == given && ["run", "hold"].contains(&command));
    match (of_flock, text(error, ContextKind::SuggestedArg)) {
        (Some((_, option)), _) => format!("; {given} of flock is {option} here"),
        (None, Some(option)) => format!("; the most similar is {option}"),
        (None, None) => String::new(),
    }
}

/// A part of the error as text.
fn text(error: &clap::Error, part: ContextKind) -> Option<String> {
    match error.get(part)? {
        ContextValue::String(text) => Some(text.clone()),
        ContextValue::Strings(texts) => Some(texts.join(" ")),
        ContextValue::StyledStr(text) => Some(text.to_string()),
        _ => None,
    }
}

/// The first part of the text of clap, without usage and hints.
fn first_part(error: &clap::Error) -> String {
    let text = error.render().to_string();
    let is_hint = |line: &&str| line.starts_with("Usage:") || line.starts_with("For more ");
    let lines = text.lines().take_while(|line| !is_hint(line));
    let text: Vec<&str> = lines.map(str::trim).collect();
    text.join(" ").trim_start_matches("error: ").into()
}
