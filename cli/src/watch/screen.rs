//! The terminal while the view has it. It is given back as it was, whatever ends the view.

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
        // From here on it is to be given back.
        let screen = Self(());
        execute!(io::stdout(), EnterAlternateScreen, Hide, DisableLineWrap)?;
        Ok(screen)
    }

    /// One line below the other from the top of a terminal of this size; what was there is gone. At
    /// once: nobody sees half of it.
    pub(super) fn draw(&self, lines: &[String], (_, height): (u16, u16)) -> io::Result<()> {
        let mut picture = Vec::new();
        for (row, line) in (0..).zip(lines) {
            // Cleared before it is written: in a full line the cursor stands on the last character.
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
