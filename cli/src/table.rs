//! Locks as a table.

use comfy_table::{Attribute, Cell, Color, ContentArrangement, Table, presets};

use super::kinds::Kind;
use super::row::Row;

const HEADER: [&str; 6] = ["NAME", "KIND", "OWNER", "COUNT", "TTL", "SERVER"];

fn cells(row: &Row, owner: String, with_server: bool) -> Vec<String> {
    let mut cells = vec![
        row.shown_name(),
        row.shown_kind().into(),
        owner,
        row.shown_count(),
        row.shown_time(),
    ];
    if with_server {
        cells.push(row.server.as_ref().into());
    }
    cells
}

/// For a pipe: one line for each lock, without a header.
pub(super) fn plain(rows: &[Row], with_server: bool) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).force_no_tty();
    table.add_rows(
        rows.iter()
            .map(|row| cells(row, row.shown_owner().into(), with_server)),
    );
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    table.trim_fmt() + "\n"
}

/// The form of a table for a terminal.
#[derive(Clone, Copy, Debug)]
pub(super) struct Style {
    /// One line for each lock, cut to the width.
    pub(super) flat: bool,
    pub(super) colors: bool,
}

/// For a terminal of this width. A process that is known replaces its owner id.
pub(super) fn pretty(rows: &[Row], with_server: bool, width: u16, style: Style) -> String {
    let mut table = Table::new();
    let columns = HEADER.len() - usize::from(!with_server);
    table
        .load_preset(presets::UTF8_FULL_CONDENSED)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_width(width)
        .set_truncation_indicator("…");
    if style.colors {
        table.enforce_styling();
        // Otherwise NO_COLOR in the environment would override --color.
        crossterm::style::force_color_output(true);
        let bold = |name| Cell::new(name).add_attribute(Attribute::Bold);
        table.set_header(HEADER[..columns].iter().map(bold));
    } else {
        table.force_no_tty().set_header(&HEADER[..columns]);
    }
    for row in rows {
        let cells = cells(row, row.shown_holder(), with_server);
        let cells = cells.into_iter().zip(HEADER);
        let cells = cells.map(|(text, column)| cell(text, column, row));
        let mut line = comfy_table::Row::from(cells.collect::<Vec<Cell>>());
        if style.flat {
            line.max_height(1);
        }
        table.add_row(line);
    }
    format!("{table}\n")
}

/// A cell in its color. A lock that never expires deserves attention.
fn cell(text: String, column: &str, row: &Row) -> Cell {
    let cell = Cell::new(text);
    let never_ends = row.time_to_live.is_none() && !matches!(row.kind, Kind::Number(_));
    match column {
        "NAME" => cell.add_attribute(Attribute::Bold),
        "KIND" => cell.fg(Color::DarkCyan),
        "TTL" if never_ends => cell.fg(Color::DarkYellow),
        _ => cell,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::tests::row;

    #[test]
    fn columns_are_aligned_in_a_pipe() {
        let rows = [row("a", 1), row("größe", 100)];
        let text = plain(&rows, true);
        let lines: Vec<&str> = text.lines().collect();
        let at = |line: &str| {
            line.chars()
                .position(|c| c == 'r' && line.contains("reentrant"))
        };
        assert!(at(lines[0]).is_some());
        let owner = |line: &str| {
            let (before, _) = line.split_once("6ba7").unwrap();
            before.chars().count()
        };
        assert_eq!(owner(lines[0]), owner(lines[1]), "{text}");
        assert!(
            lines.iter().all(|line| line.ends_with("30.0s  h:1")),
            "{text}"
        );
        assert_eq!(plain(&[], true), "");
    }

    #[test]
    fn a_flat_table_has_a_line_for_each_lock() {
        let rows = [row(&"long".repeat(50), 1), row("b", 1)];
        let style = |flat| Style {
            flat,
            colors: false,
        };
        let lines = |flat| pretty(&rows, false, 80, style(flat)).lines().count();
        // The header, with a line above and below, and the end.
        assert!(lines(true) < lines(false));
        assert!(
            pretty(&rows, false, 80, style(true))
                .lines()
                .all(|line| line.chars().count() <= 80)
        );
    }

    #[test]
    fn colors_change_no_character_of_a_table() {
        let mut rows = [row("a", 1), row(&"long".repeat(30), 2)];
        rows[1].time_to_live = None;
        let drawn = |colors| {
            let style = Style {
                flat: false,
                colors,
            };
            pretty(&rows, true, 80, style)
        };
        let colored = drawn(true);
        assert!(colored.contains("\x1b["), "{colored}");
        assert_eq!(
            anstream::adapter::strip_str(&colored).to_string(),
            drawn(false)
        );
    }
}
