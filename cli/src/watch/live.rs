//! The view on a terminal: redrawn whenever something was seen, or the terminal has another size.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::process::ExitCode;

use signal_hook::consts::SIGHUP;

use super::frame::Picture;
use super::scanner::Scanner;
use super::screen::Screen;
use super::signals::{Signals, end_by};
use super::{unheard, wait};
use crate::args::WatchArgs;
use crate::clock::Moment;
use crate::outcome::Result;
use crate::output;
use crate::scan::Scan;
use leasehold::LockClient;

/// What a terminal in raw mode sends for Ctrl-C.
const CTRL_C: u8 = 3;

/// What ends the view.
enum End {
    Wanted,
    Signal(i32),
}

pub(super) fn run(clients: Vec<LockClient>, watch: &WatchArgs, first: Scan) -> Result<ExitCode> {
    let mut signals = Signals::catch().map_err(unheard)?;
    let pattern = watch.pattern.clone();
    let look = move |stopped: &dyn Fn() -> bool| Scan::run(&clients, &pattern, stopped);
    let mut scanner = Scanner::start(look).map_err(unheard)?;
    let screen = Screen::enter().map_err(unheard)?;
    let end = view(watch, first, &screen, &mut signals, &mut scanner);
    scanner.stop();
    // Before anything is told, so that it is to be seen.
    drop(screen);
    // A server that is silent may keep the scanner for as long as it may take for an answer.
    signals.let_go();
    if let End::Signal(signal) = end.map_err(unheard)? {
        end_by(signal).map_err(unheard)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn view(
    watch: &WatchArgs,
    mut seen: Scan,
    screen: &Screen,
    signals: &mut Signals,
    scanner: &mut Scanner,
) -> io::Result<End> {
    // Past the buffer of standard input, of which nobody could tell whether something is left in
    // it.
    let mut keys = File::from(io::stdin().as_fd().try_clone_to_owned()?);
    let mut next = Moment::now().after(watch.every);
    loop {
        let picture = Picture {
            pattern: &watch.pattern,
            every: watch.every,
            rows: &seen.rows,
            with_server: seen.names_servers(),
            failures: &seen.failures,
        };
        let size = output::size();
        screen.draw(&picture.lines(size), size)?;
        let sources = [keys.as_fd(), signals.as_fd(), scanner.as_fd()];
        let ready = wait::readable(&sources, next)?;
        if let Some(signal) = signals.ending() {
            return Ok(End::Signal(signal));
        }
        if ready[0] {
            let mut pressed = [0; 64];
            let length = keys.read(&mut pressed).unwrap_or(0);
            if length == 0 {
                // As the system tells those who do not read: the terminal is gone.
                return Ok(End::Signal(SIGHUP));
            }
            if pressed[..length]
                .iter()
                .any(|key| matches!(key, b'q' | b'Q' | &CTRL_C))
            {
                return Ok(End::Wanted);
            }
        }
        if let Some(newly) = scanner.seen()? {
            seen = newly;
            next = Moment::now().after(watch.every);
        } else if next.is_past() {
            scanner.look();
            // It rings when it has seen something.
            next = Moment::NEVER;
        }
    }
}
