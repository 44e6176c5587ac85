//! Locks as a table.

use comfy_table::{ContentArrangement, Table, presets};

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
    let rows: Vec<Vec<String>> = rows
        .iter()
        .map(|row| cells(row, row.shown_owner().into(), with_server))
        .collect();
    let mut widths = [0; HEADER.len()];
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.chars().count().max(*width);
        }
    }
    let mut text = String::new();
    for row in &rows {
        let padded = row.iter().zip(widths);
        let line: Vec<String> = padded
            .map(|(cell, width)| format!("{cell:width$}"))
            .collect();
        text.push_str(line.join("  ").trim_end());
        text.push('\n');
    }
    text
}

/// For a terminal of this width. A process that is known replaces its owner id. `flat`: one line for each lock, cut to the width.
pub(super) fn pretty(rows: &[Row], with_server: bool, width: u16, flat: bool) -> String {
    let mut table = Table::new();
    let columns = if with_server {
        HEADER.len()
    } else {
        HEADER.len() - 1
    };
    table
        .load_preset(presets::UTF8_FULL_CONDENSED)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_width(width)
        .set_truncation_indicator("…")
        .set_header(&HEADER[..columns]);
    for row in rows {
        let mut line = comfy_table::Row::from(cells(row, row.shown_holder(), with_server));
        if flat {
            line.max_height(1);
        }
        table.add_row(line);
    }
    format!("{table}\n")
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
        let lines = |flat| pretty(&rows, false, 80, flat).lines().count();
        // The header, with a line above and below, and the end.
        assert!(lines(true) < lines(false));
        assert!(
            pretty(&rows, false, 80, true)
                .lines()
                .all(|line| line.chars().count() <= 80)
        );
    }
}
