//! The view on a terminal. It is drawn again after each scan and when the size of the terminal
//! changes.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::process::ExitCode;

use signal_hook::consts::SIGHUP;

use super::frame::Picture;
use super::scanner::Scanner;
use super::screen::Screen;
use super::signals::{Signals, end_by};
use super::view_failed;
use crate::args::WatchArgs;
use crate::clock::Moment;
use crate::outcome::Result;
use crate::output;
use crate::scan::{Scan, Wanted};
use crate::wait;
use leasehold::LockClient;

/// What a terminal in raw mode sends for Ctrl-C.
const CTRL_C: u8 = 3;

/// Why the view ends.
enum Quit {
    Key,
    Signal(i32),
}

pub(super) fn run(clients: Vec<LockClient>, watch: &WatchArgs, first: Scan) -> Result<ExitCode> {
    let mut signals = Signals::catch().map_err(view_failed)?;
    let pattern = watch.pattern.clone();
    let run = move |stopped: &dyn Fn() -> bool| {
        Scan::run(&clients, Wanted::locks(pattern.bytes()), stopped)
    };
    let mut scanner = Scanner::start(run).map_err(view_failed)?;
    let screen = Screen::enter().map_err(view_failed)?;
    let end = view(watch, first, &screen, &mut signals, &mut scanner);
    scanner.stop();
    // Before any message, so that the message can be seen.
    drop(screen);
    // The scanner may still wait for a reply of a server.
    signals.end_at_once();
    if let Quit::Signal(signal) = end.map_err(view_failed)? {
        end_by(signal).map_err(view_failed)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn view(
    watch: &WatchArgs,
    mut scan: Scan,
    screen: &Screen,
    signals: &mut Signals,
    scanner: &mut Scanner,
) -> io::Result<Quit> {
    // Without the buffer of standard input, whose state cannot be polled.
    let mut keys = File::from(io::stdin().as_fd().try_clone_to_owned()?);
    let mut next = Moment::now().after(watch.every);
    loop {
        let picture = Picture {
            pattern: &watch.pattern.lossy(),
            every: watch.every,
            rows: &scan.rows,
            with_server: scan.names_servers(),
            failures: &scan.failures,
        };
        let size = output::size();
        screen.draw(&picture.lines(size), size)?;
        let sources = [keys.as_fd(), signals.as_fd(), scanner.as_fd()];
        let ready = wait::readable(&sources, next)?;
        if let Some(signal) = signals.ending() {
            return Ok(Quit::Signal(signal));
        }
        if ready[0] {
            let mut pressed = [0; 64];
            let length = keys.read(&mut pressed).unwrap_or(0);
            if length == 0 {
                // The terminal is gone. The system sends HUP to processes that do not read.
                return Ok(Quit::Signal(SIGHUP));
            }
            if pressed[..length]
                .iter()
                .any(|key| matches!(key, b'q' | b'Q' | &CTRL_C))
            {
                return Ok(Quit::Key);
            }
        }
        if let Some(newer) = scanner.result()? {
            scan = newer;
            next = Moment::now().after(watch.every);
        } else if next.is_past() {
            scanner.start_scan();
            // The scanner reports when it is done.
            next = Moment::NEVER;
        }
    }
}
