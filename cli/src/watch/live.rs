//! The view on a terminal. It is drawn again after each scan and when the size of the terminal
//! changes.

use std::io;
use std::process::ExitCode;

use crossbeam_channel::{after, select};
use signal_hook::consts::{SIGHUP, SIGWINCH};
use signal_hook::low_level::emulate_default_handler;

use super::frame::Picture;
use super::screen::Screen;
use super::sources;
use super::view_failed;
use crate::args::WatchArgs;
use crate::outcome::Result;
use crate::output;
use crate::scan::{Scan, Wanted};
use leasehold::__Moment as Moment;
use leasehold::LockClient;

/// What a terminal in raw mode sends for Ctrl-C.
const CTRL_C: u8 = 3;

/// Why the view ends.
enum Quit {
    Key,
    Signal(i32),
}

pub(super) fn run(clients: Vec<LockClient>, watch: &WatchArgs, first: Scan) -> Result<ExitCode> {
    let quit = view(clients, watch, first).map_err(view_failed)?;
    if let Quit::Signal(signal) = quit {
        emulate_default_handler(signal).map_err(view_failed)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Shows the view until it ends. The terminal is restored then.
fn view(clients: Vec<LockClient>, watch: &WatchArgs, mut scan: Scan) -> io::Result<Quit> {
    let signals = sources::signals()?;
    let pattern = watch.pattern.clone();
    let (requests, scans) =
        sources::scans(move || Scan::run(&clients, Wanted::locks(pattern.bytes())))?;
    let screen = Screen::enter()?;
    let keys = sources::keys()?;
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
        select! {
            recv(signals) -> signal => match signal {
                Ok(SIGWINCH) => {}
                Ok(signal) => return Ok(Quit::Signal(signal)),
                Err(_) => return Err(io::Error::other("no signals are caught any more")),
            },
            recv(keys) -> key => match key {
                Ok(b'q' | b'Q' | CTRL_C) => return Ok(Quit::Key),
                Ok(_) => {}
                // The terminal is gone. The system sends HUP to processes that do not read.
                Err(_) => return Ok(Quit::Signal(SIGHUP)),
            },
            recv(scans) -> newer => {
                let ended = |_| io::Error::other("the thread that scans has ended");
                scan = newer.map_err(ended)?;
                next = Moment::now().after(watch.every);
            }
            recv(after(next.left())) -> _ => {
                let _ = requests.try_send(());
                // The result says when it is done.
                next = Moment::NEVER;
            }
        }
    }
}
