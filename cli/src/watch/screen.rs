//! The terminal while the view uses it. Dropping the screen restores the terminal.

use std::io::{self, Write};

use crossterm::cursor::{Hide, MoveTo, Show};
use crossterm::terminal::{
    Clear, ClearType, DisableLineWrap, EnableLineWrap, EnterAlternateScreen, LeaveAlternateScreen,
    disable_raw_mode, enable_raw_mode,
};
use crossterm::{execute, queue};

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
