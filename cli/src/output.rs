//! Standard output. It is no failure if its reader has ended, as in `leasehold list | head -1`.

use std::io::{self, IsTerminal, Write};

use anstream::AutoStream;
use clap::ColorChoice;
use serde_json::Value;

use super::outcome::{Failure, OUTPUT, Result};

/// Writes the whole text; false if the reader of a pipe has ended.
pub(super) fn print(text: &[u8]) -> Result<bool> {
    let mut out = io::stdout().lock();
    match out.write_all(text).and_then(|()| out.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(Failure::new(OUTPUT, format!("standard output: {error}"))),
    }
}

/// Columns and lines of the terminal; 80 and 24 if it does not report them.
pub(super) fn size() -> (u16, u16) {
    let size = crossterm::terminal::size().ok();
    size.filter(|&(width, height)| width > 0 && height > 0)
        .unwrap_or((80, 24))
}

/// True if text on standard output may have colors. `auto` follows the terminal, NO_COLOR,
/// CLICOLOR, CLICOLOR_FORCE and TERM.
pub(super) fn has_colors(choice: ColorChoice) -> bool {
    match choice {
        ColorChoice::Always => true,
        ColorChoice::Never => false,
        ColorChoice::Auto => AutoStream::choice(&io::stdout()) != anstream::ColorChoice::Never,
    }
}

/// True if standard output is a terminal.
pub(super) fn is_terminal() -> bool {
    io::stdout().is_terminal()
}

/// An object on one line, without characters that could control a terminal.
pub(super) fn json(object: &Value) -> String {
    let escaped = |c: char| {
        // JSON requires this only for control characters below the space.
        if c.escape_debug().len() == 1 || matches!(c, '"' | '\\' | '\'') {
            return c.to_string();
        }
        let mut units = [0; 2];
        let units = c.encode_utf16(&mut units).iter();
        units.map(|unit| format!("\\u{unit:04x}")).collect()
    };
    let text = object.to_string();
    text.chars().map(escaped).chain(["\n".into()]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_line_controls_no_terminal_and_decodes_to_the_same_object() {
        for name in [
            "order:pay",
            "\x1b[2J\n",
            "\u{9b}2J\x7f",
            "\u{202e}\"\\'",
            "\u{e0001}ß☃",
        ] {
            let object = json!({"name": name});
            let line = json(&object);
            let inert = |c: char| !c.is_control() && c != '\u{202e}' && c != '\u{e0001}';
            assert!(line.trim_end().chars().all(inert), "{line:?}");
            let read: Value = serde_json::from_str(&line).unwrap();
            assert_eq!(read, object);
        }
    }
}
