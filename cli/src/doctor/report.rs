//! The output: one line or one JSON object for each check.

use std::fmt::Write;

use clap::builder::styling::{AnsiColor, Style as Color};
use serde_json::json;

use super::finding::{Line, Verdict};
use crate::output;
use crate::reporter::one_line;

/// The form of the output.
#[derive(Clone, Copy, Debug)]
pub(super) struct Style {
    pub(super) json: bool,
    /// Without the findings that are ok.
    pub(super) quiet: bool,
    pub(super) colors: bool,
}

pub(super) fn text(lines: &[Line], style: Style) -> String {
    let is_shown = |line: &&Line| !style.quiet || line.finding.verdict != Verdict::Ok;
    let shown = || lines.iter().filter(is_shown);
    if style.json {
        return shown().map(object).collect();
    }
    let mut text = String::new();
    let width = |of: fn(&Line) -> &str| shown().map(|line| of(line).chars().count()).max();
    let check_width = width(|line| line.check).unwrap_or(0);
    let several = lines.iter().any(|line| line.server != lines[0].server);
    let server_width = width(|line| &line.server).filter(|_| several);
    for line in shown() {
        let verdict = line.finding.verdict;
        let color = color(verdict, style.colors);
        let word = match verdict {
            Verdict::Failure => "FAILURE".into(),
            verdict => verdict.name(),
        };
        let server = server_width.map(|width| format!("{:<width$}  ", line.server));
        let (server, found) = (server.unwrap_or_default(), one_line(&line.finding.found));
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "{color}{word:<7}{color:#}  {server}{:<check_width$}  {found}",
            line.check
        );
        if let Some(advice) = &line.finding.advice {
            let _ = writeln!(text, "{:9}-> {}", "", one_line(advice));
        }
    }
    text
}

fn color(verdict: Verdict, colors: bool) -> Color {
    match verdict {
        _ if !colors => Color::new(),
        Verdict::Ok => AnsiColor::Green.on_default(),
        Verdict::Warning => AnsiColor::Yellow.on_default(),
        Verdict::Failure => AnsiColor::Red.on_default().bold(),
        Verdict::Unknown => AnsiColor::Magenta.on_default(),
    }
}

fn object(line: &Line) -> String {
    let finding = &line.finding;
    output::json(&json!({
        "server": line.server,
        "check": line.check,
        "verdict": finding.verdict.name(),
        "found": one_line(&finding.found),
        "advice": finding.advice.as_deref().map(one_line),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines() -> Vec<Line> {
        let eviction = Verdict::Failure.advise("allkeys-lru", "set\nnoeviction");
        vec![
            Line::new("a:1", "role", Verdict::Ok.of("master")),
            Line::new("a:1", "eviction", eviction),
            Line::new("b:22", "clock", Verdict::Unknown.of("none")),
        ]
    }

    fn printed(lines: &[Line], json: bool, quiet: bool) -> String {
        let style = Style {
            json,
            quiet,
            colors: false,
        };
        text(lines, style)
    }

    #[test]
    fn columns_are_aligned() {
        assert_eq!(
            printed(&lines(), false, false),
            "ok       a:1   role      master\n\
             FAILURE  a:1   eviction  allkeys-lru\n         -> set noeviction\n\
             unknown  b:22  clock     none\n"
        );
        let one = &lines()[..1];
        assert_eq!(printed(one, false, false), "ok       role  master\n");
    }

    #[test]
    fn the_text_of_a_server_controls_no_terminal() {
        let line = Line::new("a:1", "role", Verdict::Ok.of("\u{202e}live"));
        let text = printed(&[line], true, false);
        assert!(text.contains("\\u202elive"), "{text:?}");
    }
}
