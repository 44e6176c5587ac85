//! What to do about arguments that are invalid, in one line.

use clap::Command;
use clap::error::{ContextKind, ErrorKind};

use super::outcome::{Failure, NO_COMMAND};
use super::stderr;

/// For a user who writes no command.
const OVERVIEW: &str = include_str!("overview.txt");

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

/// The text of clap, without its usage, which also has options of the environment.
fn explanation(error: &clap::Error, mut all: Command) -> String {
    let text = error.render().to_string();
    let paragraphs = text.trim_start_matches("error: ").split("\n\n");
    let is_own = |part: &&str| !part.starts_with("Usage:") && !part.starts_with("For more ");
    let lines = |part: &str| part.lines().map(str::trim).collect::<Vec<_>>().join(" ");
    let mut explanation = paragraphs
        .filter(is_own)
        .map(lines)
        .collect::<Vec<_>>()
        .join("; ");
    if error.kind() == ErrorKind::InvalidUtf8 {
        explanation += "; only the names in list, show, break and watch can be any bytes";
    }
    if matches!(
        error.kind(),
        ErrorKind::InvalidValue | ErrorKind::ValueValidation
    ) {
        return explanation;
    }
    let of_clap = error
        .get(ContextKind::Usage)
        .map(ToString::to_string)
        .unwrap_or_default();
    let name = of_clap.split(' ').nth(2).unwrap_or_default();
    all.build();
    let command = match all.find_subcommand_mut(name) {
        Some(command) => command,
        None => &mut all,
    };
    let usage = command.render_usage().to_string();
    let given = error.get(ContextKind::InvalidArg).map(ToString::to_string);
    let of_flock = OF_FLOCK
        .iter()
        .find(|(option, _)| given.as_deref() == Some(option));
    if let (Some((option, here)), "run" | "hold") = (of_flock, name) {
        explanation += &format!("; {option} of flock is {here} here");
    }
    let usage = usage.trim_start_matches("Usage: ");
    let help = match command.get_bin_name() {
        Some(name) => name.replacen(' ', " help ", 1),
        None => "leasehold help".into(),
    };
    explanation + &format!("; write {usage}; see `{help}`")
}
