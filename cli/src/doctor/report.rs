//! The output: one line or one JSON object for each check.

use std::fmt::{self, Write};

use clap::builder::styling::{self as anstyle, AnsiColor};

use super::finding::{Finding, Verdict};
use crate::json;
use crate::reporter::one_line;

/// A finding about a server.
pub(super) struct Line {
    pub(super) server: String,
    pub(super) finding: Finding,
}

/// The form of the output.
#[derive(Clone, Copy, Debug)]
pub(super) struct Style {
    pub(super) json: bool,
    /// Without the findings that are ok or notes.
    pub(super) quiet: bool,
    pub(super) colors: bool,
}

pub(super) fn text(lines: &[Line], style: Style) -> String {
    let is_good = |line: &&Line| matches!(line.finding.verdict, Verdict::Ok | Verdict::Note);
    let mut shown: Vec<&Line> = lines.iter().collect();
    if style.quiet {
        shown.retain(|line| !is_good(line));
    }
    if style.json {
        return shown.into_iter().map(object).collect();
    }
    let several = lines.iter().any(|line| line.server != lines[0].server);
    let width = |of: fn(&Line) -> &str| shown.iter().map(|line| of(line).chars().count()).max();
    let server = width(|line| &line.server).filter(|_| several);
    let check = width(|line| line.finding.check).unwrap_or(0);
    let mut text = String::new();
    for line in shown {
        // Writing to a string cannot fail.
        let _ = write_line(&mut text, line, server, check, style.colors);
    }
    if !style.quiet {
        text.push_str(&sum(lines));
    }
    text
}

fn write_line(
    out: &mut String,
    line: &Line,
    server: Option<usize>,
    check: usize,
    colors: bool,
) -> fmt::Result {
    let Finding {
        check: name,
        verdict,
        found,
        advice,
    } = &line.finding;
    let style = if colors {
        color(*verdict)
    } else {
        anstyle::Style::new()
    };
    write!(out, "{style}{:<7}{style:#}  ", verdict.word())?;
    if let Some(width) = server {
        write!(out, "{:<width$}  ", line.server)?;
    }
    writeln!(out, "{name:<check$}  {}", one_line(found))?;
    if let Some(advice) = advice {
        writeln!(out, "{:9}-> {}", "", one_line(advice))?;
    }
    Ok(())
}

fn color(verdict: Verdict) -> anstyle::Style {
    match verdict {
        Verdict::Ok => AnsiColor::Green.on_default(),
        Verdict::Note => AnsiColor::Cyan.on_default(),
        Verdict::Warning => AnsiColor::Yellow.on_default(),
        Verdict::Failure => AnsiColor::Red.on_default().bold(),
        Verdict::Unknown => AnsiColor::Magenta.on_default(),
    }
}

fn object(line: &Line) -> String {
    let advice = line.finding.advice.as_deref().map(one_line);
    let mut object = serde_json::Map::new();
    object.insert("server".into(), line.server.as_str().into());
    object.insert("check".into(), line.finding.check.into());
    object.insert("verdict".into(), line.finding.verdict.name().into());
    object.insert("found".into(), one_line(&line.finding.found).into());
    object.insert("advice".into(), advice.into());
    json::line(object)
}

fn sum(lines: &[Line]) -> String {
    let count = |verdict| {
        lines
            .iter()
            .filter(|line| line.finding.verdict == verdict)
            .count()
    };
    let parts: Vec<String> = [
        (Verdict::Failure, "failed"),
        (Verdict::Warning, "with warnings"),
        (Verdict::Unknown, "unknown"),
    ]
    .into_iter()
    .filter(|(verdict, _)| count(*verdict) > 0)
    .map(|(verdict, word)| format!("{} {word}", count(verdict)))
    .collect();
    let checks = match lines.len() {
        1 => "1 check".into(),
        count => format!("{count} checks"),
    };
    if parts.is_empty() {
        return format!("{checks}, all good\n");
    }
    format!("{checks}: {}\n", parts.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines() -> Vec<Line> {
        let line = |server: &str, finding| Line {
            server: server.into(),
            finding,
        };
        vec![
            line("a:1", Finding::ok("version", "Redis 7.0.15")),
            line(
                "a:1",
                Finding::failure("eviction", "allkeys-lru", "set\nnoeviction"),
            ),
            line("b:22", Finding::note("replicas", "none")),
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
            "ok       a:1   version   Redis 7.0.15\n\
             FAILURE  a:1   eviction  allkeys-lru\n         -> set noeviction\n\
             note     b:22  replicas  none\n\
             3 checks: 1 failed\n"
        );
        let one = &lines()[..1];
        assert_eq!(
            printed(one, false, false),
            "ok       version  Redis 7.0.15\n1 check, all good\n"
        );
    }

    #[test]
    fn colors_change_no_character() {
        let style = Style {
            json: false,
            quiet: false,
            colors: true,
        };
        let colored = text(&lines(), style);
        assert!(
            colored.contains("\x1b[1m\x1b[31mFAILURE\x1b[0m"),
            "{colored:?}"
        );
        let plain = anstream::adapter::strip_str(&colored).to_string();
        assert_eq!(plain, printed(&lines(), false, false));
    }

    #[test]
    fn quiet_leaves_out_what_is_good() {
        let text = printed(&lines(), false, true);
        assert!(
            text.starts_with("FAILURE") && text.lines().count() == 2,
            "{text}"
        );
        assert_eq!(printed(&lines()[..1], false, true), "");
    }

    #[test]
    fn json_is_one_object_on_each_line() {
        let text = printed(&lines(), true, false);
        let objects: Vec<serde_json::Value> = text
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert_eq!(objects.len(), 3);
        assert_eq!(objects[1]["verdict"], "failure");
        assert_eq!(objects[1]["advice"], "set noeviction");
        assert!(objects[0]["advice"].is_null());
    }

    #[test]
    fn the_text_of_a_server_controls_no_terminal() {
        let line = Line {
            server: "a:1".into(),
            finding: Finding::note("version", "\u{202e}live"),
        };
        let text = printed(&[line], true, false);
        assert!(text.contains("\\u202elive"), "{text:?}");
    }
}
