//! What to do about arguments that are invalid, in one line.

use clap::Command;
use clap::error::{ContextKind, ErrorKind};

use super::outcome::{Failure, NO_COMMAND};
use super::reporter::one_line;
use super::stderr;

/// For a user who writes no command.
const OVERVIEW: &str = include_str!("overview.txt");

/// Options of flock(1) and of other lock commands, and what to write for `run` and `hold`.
const OF_OTHERS: [(&[&str], &str); 4] = [
    (&["-s", "--shared"], "--kind read"),
    (
        &["-x", "--exclusive"],
        "nothing, or --kind write if others share the lock by --kind read",
    ),
    (&["--nonblock", "--nb", "--try"], "--no-wait"),
    (&["--ttl"], "--lease DURATION"),
];

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
    let own =
        paragraphs.filter(|part| !part.starts_with("Usage:") && !part.starts_with("For more "));
    let own: Vec<String> = own.map(one_line).collect();
    let mut explanation = own.join("; ");
    if let ErrorKind::InvalidValue | ErrorKind::ValueValidation = error.kind() {
        return explanation;
    }
    let context = |kind| error.get(kind).map(ToString::to_string).unwrap_or_default();
    let of_clap = context(ContextKind::Usage);
    let name = of_clap.split(' ').nth(2).unwrap_or_default();
    all.build();
    let command = match all.find_subcommand_mut(name) {
        Some(command) => command,
        None => &mut all,
    };
    let given = context(ContextKind::InvalidArg);
    let of_others = |(options, _): &&(&[&str], _)| options.contains(&&*given);
    let known = OF_OTHERS.iter().find(of_others);
    if let (Some((_, here)), "run" | "hold", Some(what)) = (known, name, own.first()) {
        // What the parser suggests only looks similar.
        explanation = format!("{what}; for {given} write {here}");
    }
    let usage = command.render_usage().to_string();
    let usage = usage.trim_start_matches("Usage: ");
    let help = command
        .get_bin_name()
        .map(|name| name.replacen(' ', " help ", 1));
    let help = help.unwrap_or_else(|| "leasehold help".into());
    format!("{explanation}; write {usage}; see `{help}`")
}
