//! The terminal while the view uses it, and the lines of the view.

use std::io::{self, Write};

use crossterm::cursor::{Hide, MoveTo, Show};
use crossterm::terminal::{
    Clear, ClearType, DisableLineWrap, EnableLineWrap, EnterAlternateScreen, LeaveAlternateScreen,
    disable_raw_mode, enable_raw_mode,
};
use crossterm::{execute, queue};

use crate::args::WatchArgs;
use crate::scan::Scan;
use crate::table::{self, Style};

/// The lines of a table that are not locks: the header between two lines, and the last line.
const AROUND: usize = 4;

/// Dropping it restores the terminal.
#[derive(Debug)]
pub(super) struct Screen(());

impl Screen {
    pub(super) fn enter() -> io::Result<Self> {
        enable_raw_mode()?;
        // From here on the terminal must be restored.
        let screen = Self(());
        execute!(io::stdout(), EnterAlternateScreen, Hide, DisableLineWrap)?;
        Ok(screen)
    }

    /// Replaces the content of a terminal of this size by these lines. Writes them at once, so that
    /// no half of a view is visible.
    pub(super) fn draw(&self, lines: &[String], (_, height): (u16, u16)) -> io::Result<()> {
        let mut picture = Vec::new();
        for (row, line) in (0..).zip(lines) {
            // Clears before writing: after a full line the cursor is on the last character.
            queue!(picture, MoveTo(0, row), Clear(ClearType::CurrentLine))?;
            picture.extend(line.as_bytes());
        }
        let rest = u16::try_from(lines.len()).unwrap_or(u16::MAX);
        queue!(picture, MoveTo(0, rest))?;
        if rest < height {
            queue!(picture, Clear(ClearType::FromCursorDown))?;
        }
        let mut out = io::stdout().lock();
        out.write_all(&picture)?;
        out.flush()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // The terminal may be gone.
        let _ = execute!(io::stdout(), EnableLineWrap, Show, LeaveAlternateScreen);
        let _ = disable_raw_mode();
    }
}

/// At most `height` lines. If not all locks fit, the last line says how many are missing.
pub(super) fn lines(watch: &WatchArgs, scan: &Scan, (width, height): (u16, u16)) -> Vec<String> {
    let rows = &scan.rows[..];
    // A lock on several servers counts once. Its rows are adjacent.
    let count = rows.chunk_by(|a, b| a.name == b.name).count();
    let plural = if count == 1 { "" } else { "s" };
    let is_complete = scan.failures.is_empty();
    let least = if is_complete { "" } else { "at least " };
    let pattern = &watch.pattern;
    let every = humantime::format_duration(watch.every);
    let mut lines = vec![format!(
        "{least}{count} lock{plural} matching {pattern:?}, every {every}; q quits"
    )];
    lines.extend(scan.failures.first().map(ToString::to_string));
    let height = usize::from(height);
    let room = height.saturating_sub(lines.len() + AROUND);
    // The last line of the room is for the number of locks that are missing.
    let shown = if rows.len() <= room {
        rows.len()
    } else {
        room.saturating_sub(1)
    };
    // Each line must have the width of the terminal, so it contains no color codes.
    let style = Style {
        width: Some(width),
        flat: true,
        colors: false,
    };
    let table = table::text(&rows[..shown], scan.names_servers(), style);
    lines.extend(table.lines().map(str::to_owned));
    if shown < rows.len() {
        lines.push(format!("and {} more", rows.len() - shown));
    }
    lines.truncate(height);
    lines
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::outcome::Failure;
    use crate::row::Row;
    use crate::row::tests::row;

    fn rows(count: usize) -> Vec<Row> {
        let row = |number| row(&format!("order:{number}"), 1);
        (0..count).map(row).collect()
    }

    fn lines(rows: &[Row], failures: Vec<Failure>, size: (u16, u16)) -> Vec<String> {
        let watch = WatchArgs {
            pattern: "order:*".into(),
            every: Duration::from_secs(1),
        };
        let scan = Scan {
            rows: rows.to_vec(),
            servers: 1,
            failures,
        };
        super::lines(&watch, &scan, size)
    }

    #[test]
    fn all_locks_are_shown_if_they_fit() {
        let found = lines(&rows(3), vec![], (100, 8));
        assert_eq!(found[0], "3 locks matching \"order:*\", every 1s; q quits");
        assert_eq!(found.len(), 8, "{found:#?}");
        assert!(found[6].contains("order:2"), "{found:#?}");
    }

    #[test]
    fn a_lock_on_several_servers_counts_once() {
        let mut rows = rows(2);
        rows.insert(1, rows[0].clone());
        let found = lines(&rows, vec![], (100, 24));
        assert_eq!(found[0], "2 locks matching \"order:*\", every 1s; q quits");
    }

    #[test]
    fn what_does_not_fit_is_counted() {
        let found = lines(&rows(4), vec![], (100, 8));
        assert_eq!(found.len(), 8, "{found:#?}");
        assert!(found[5].contains("order:1"), "{found:#?}");
        assert_eq!(found[7], "and 2 more");
    }

    #[test]
    fn no_size_is_too_small() {
        for height in 0..20 {
            for width in [1, 10, 200] {
                for count in [0, 1, 2, 100] {
                    let found = lines(&rows(count), vec![Failure::usage("gone")], (width, height));
                    assert!(found.len() <= usize::from(height), "{found:#?}");
                }
            }
        }
    }
}
