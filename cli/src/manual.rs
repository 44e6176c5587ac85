//! `leasehold completions` and `leasehold man`, from the definition of the arguments.

use std::io::{self, Write};

use clap::Command;
use clap_mangen::Man;

use super::args::{Args, CompletionsArgs};
use super::outcome::{Failure, OUTPUT, Result};
use super::output;

/// The exit statuses, the variables of the environment, and examples.
const REST: &str = include_str!("manual.roff");

pub(super) fn completions(wanted: &CompletionsArgs) -> Result<()> {
    let mut text = Vec::new();
    let mut command = Args::definition();
    let name = command.get_name().to_owned();
    clap_complete::generate(wanted.shell, &mut command, name, &mut text);
    output::print(&text).map(drop)
}

pub(super) fn man() -> Result<()> {
    let page = page().map_err(|error| Failure::new(OUTPUT, error))?;
    output::print(&page).map(drop)
}

fn page() -> io::Result<Vec<u8>> {
    let man = Man::new(Args::definition()).manual("Locks on Redis");
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    let usage = usage(Args::definition());
    writeln!(page, ".SH SYNOPSIS\n{usage}")?;
    man.render_description_section(&mut page)?;
    writeln!(page, ".SH COMMANDS")?;
    for command in Args::definition().get_subcommands() {
        page.extend(of_command(command.clone())?.into_bytes());
    }
    man.render_options_section(&mut page)?;
    page.extend(REST.bytes());
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

/// Escapes a line for `troff`, so that hyphens stay what they are.
fn escaped(line: &str) -> String {
    line.replace('-', "\\-")
}
