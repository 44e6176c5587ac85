//! Locks as a table.

use comfy_table::{Attribute, Cell, Color, ContentArrangement, Table, presets};

use super::kinds::Kind;
use super::row::Row;

const HEADER: [&str; 6] = ["NAME", "KIND", "OWNER", "COUNT", "TTL", "SERVER"];

/// The form of a table. By default, that for a pipe: one line for each lock.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Style {
    /// The width of the terminal. For a pipe there is none, and no header.
    pub(super) width: Option<u16>,
    /// One line for each lock, cut to the width.
    pub(super) flat: bool,
    pub(super) colors: bool,
}

/// The locks as text; empty if there are none.
pub(super) fn text(rows: &[Row], with_server: bool, style: Style) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let mut table = Table::new();
    if style.colors {
        table.enforce_styling();
        // Otherwise NO_COLOR in the environment would override --color.
        crossterm::style::force_color_output(true);
    } else {
        table.force_no_tty();
    }
    let columns = &HEADER[..HEADER.len() - usize::from(!with_server)];
    if let Some(width) = style.width {
        table
            .load_preset(presets::UTF8_FULL_CONDENSED)
            .set_content_arrangement(ContentArrangement::Dynamic)
            .set_width(width)
            .set_truncation_indicator("…");
        let bold = |name| Cell::new(name).add_attribute(Attribute::Bold);
        table.set_header(columns.iter().map(bold));
    } else {
        table.load_preset(presets::NOTHING);
    }
    for row in rows {
        let cells = columns.iter().map(|column| cell(row, column, style));
        let mut line = comfy_table::Row::from(cells.collect::<Vec<Cell>>());
        if style.flat {
            line.max_height(1);
        }
        table.add_row(line);
    }
    if style.width.is_none() {
        let columns = table.column_iter_mut();
        columns.for_each(|column| _ = column.set_padding((0, 2)));
    }
    table.trim_fmt() + "\n"
}

/// A cell in its color. On a terminal, a process that is known replaces its owner id. A lock that
/// never expires deserves attention.
fn cell(row: &Row, column: &str, style: Style) -> Cell {
    let never_ends = row.time_to_live.is_none() && !matches!(row.kind, Kind::Number(_));
    match column {
        "NAME" => Cell::new(row.shown_name()).add_attribute(Attribute::Bold),
        "KIND" => Cell::new(row.shown_kind()).fg(Color::DarkCyan),
        "OWNER" if style.width.is_some() => Cell::new(row.shown_holder()),
        "OWNER" => Cell::new(row.shown_owner()),
        "COUNT" => Cell::new(row.shown_count()),
        "TTL" if never_ends => Cell::new(row.shown_time()).fg(Color::DarkYellow),
        "TTL" => Cell::new(row.shown_time()),
        _ => Cell::new(&row.server),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::tests::row;

    fn drawn(rows: &[Row], flat: bool, colors: bool) -> String {
        let width = Some(80);
        let style = Style {
            width,
            flat,
            colors,
        };
        text(rows, true, style)
    }

    #[test]
    fn columns_are_aligned_in_a_pipe() {
        let rows = [row("a", 1), row("größe", 100)];
        let text = text(&rows, true, Style::default());
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].contains("reentrant"), "{text}");
        let owner = |line: &str| {
            let (before, _) = line.split_once("6ba7").unwrap();
            before.chars().count()
        };
        assert_eq!(owner(lines[0]), owner(lines[1]), "{text}");
        assert!(
            lines.iter().all(|line| line.ends_with("30.0s  h:1")),
            "{text}"
        );
        assert_eq!(super::text(&[], true, Style::default()), "");
    }

    #[test]
    fn colors_change_no_character_of_a_table() {
        let mut rows = [row("a", 1), row(&"long".repeat(30), 2)];
        rows[1].time_to_live = None;
        let colored = drawn(&rows, false, true);
        assert!(colored.contains("\x1b["), "{colored}");
        let plain = anstream::adapter::strip_str(&colored).to_string();
        assert_eq!(plain, drawn(&rows, false, false));
    }
}
