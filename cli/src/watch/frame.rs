//! The lines of the view, which fit into the terminal.

use std::time::Duration;

use crate::outcome::Failure;
use crate::row::Row;
use crate::table::{self, Style};

/// Each line must have the width of the terminal, so it contains no color codes.
const STYLE: Style = Style {
    flat: true,
    colors: false,
};

/// The lines of a table that are not locks: the header between two lines, and the last line.
const AROUND: usize = 4;

/// The content of the view.
#[derive(Debug)]
pub(super) struct Picture<'a> {
    pub(super) pattern: &'a str,
    pub(super) every: Duration,
    pub(super) rows: &'a [Row],
    pub(super) with_server: bool,
    /// Why some servers did not reply.
    pub(super) failures: &'a [Failure],
}

impl Picture<'_> {
    /// At most `height` lines. If not all locks fit, the last line says how many are missing.
    pub(super) fn lines(&self, (width, height): (u16, u16)) -> Vec<String> {
        let Self { pattern, rows, .. } = self;
        // A lock on several servers counts once. Its rows are adjacent.
        let names = rows.chunk_by(|a, b| a.name == b.name).count();
        let held = match names {
            1 => "1 lock".into(),
            count => format!("{count} locks"),
        };
        let least = if self.failures.is_empty() {
            ""
        } else {
            "at least "
        };
        let every = humantime::format_duration(self.every);
        let mut lines = vec![format!(
            "{least}{held} matching {pattern:?}, every {every}; q quits"
        )];
        lines.extend(self.failures.first().map(ToString::to_string));
        let height = usize::from(height);
        let room = height.saturating_sub(lines.len() + AROUND);
        let shown = if rows.len() > room {
            room.saturating_sub(1)
        } else {
            rows.len()
        };
        if shown > 0 {
            let table = table::pretty(&rows[..shown], self.with_server, width, STYLE);
            lines.extend(table.lines().map(str::to_owned));
        }
        if shown < rows.len() {
            lines.push(format!("and {} more", rows.len() - shown));
        }
        lines.truncate(height);
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::tests::row;

    fn rows(count: usize) -> Vec<Row> {
        let row = |number| row(&format!("order:{number}"), 1);
        (0..count).map(row).collect()
    }

    fn lines(rows: &[Row], failures: &[Failure], size: (u16, u16)) -> Vec<String> {
        let picture = Picture {
            pattern: "order:*",
            every: Duration::from_secs(1),
            rows,
            with_server: false,
            failures,
        };
        picture.lines(size)
    }

    #[test]
    fn all_locks_are_shown_if_they_fit() {
        let found = lines(&rows(3), &[], (100, 8));
        assert_eq!(found[0], "3 locks matching \"order:*\", every 1s; q quits");
        assert_eq!(found.len(), 8, "{found:#?}");
        assert!(found[6].contains("order:2"), "{found:#?}");
    }

    #[test]
    fn a_lock_on_several_servers_counts_once() {
        let mut rows = rows(2);
        rows.insert(1, rows[0].clone());
        let found = lines(&rows, &[], (100, 24));
        assert_eq!(found[0], "2 locks matching \"order:*\", every 1s; q quits");
    }

    #[test]
    fn what_does_not_fit_is_counted() {
        let found = lines(&rows(4), &[], (100, 8));
        assert_eq!(found.len(), 8, "{found:#?}");
        assert!(found[5].contains("order:1"), "{found:#?}");
        assert_eq!(found[7], "and 2 more");
    }

    #[test]
    fn no_size_is_too_small() {
        let failures = [Failure::usage("gone")];
        for height in 0..20 {
            for width in [1, 10, 200] {
                for count in [0, 1, 2, 100] {
                    let found = lines(&rows(count), &failures, (width, height));
                    assert!(found.len() <= usize::from(height), "{found:#?}");
                }
            }
        }
    }

    #[test]
    fn a_server_that_cannot_be_reached_has_one_line() {
        let failures = [Failure::usage("Redis at h:1\nis\x1b[2J gone")];
        let found = lines(&rows(1), &failures, (100, 24));
        assert_eq!(
            found[0],
            "at least 1 lock matching \"order:*\", every 1s; q quits"
        );
        assert_eq!(found[1], "Redis at h:1 is?[2J gone");
    }
}
