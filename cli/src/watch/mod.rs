//! `leasehold watch`: the locks that are held, shown repeatedly.

mod screen;

use std::io::{self, IsTerminal, Read};
use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Duration;

use crossbeam_channel::{Sender, bounded};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGWINCH};
use signal_hook::flag;
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;

use super::args::{RedisArgs, WatchArgs};
use super::outcome::{Failure, Result, UNAVAILABLE};
use super::reporter::say;
use super::scan::{Scan, Wanted};
use super::table::{self, Style};
use super::{connect, output, spawn};
use leasehold::LockClient;
use screen::Screen;

/// The shortest time between two scans, so that Redis can serve other clients.
const SHORTEST: Duration = Duration::from_millis(100);

/// What a terminal in raw mode sends for Ctrl-C.
const CTRL_C: u8 = 3;

/// The signals that end the view.
const ENDING: [i32; 4] = [SIGHUP, SIGINT, SIGQUIT, SIGTERM];

pub(super) fn watch(redis: &RedisArgs, watch: &WatchArgs) -> Result<()> {
    if watch.every < SHORTEST {
        return Err(Failure::usage("--every is at least 100ms"));
    }
    let clients = connect::clients(redis, None)?;
    let mut first = scan(&clients, watch, redis.expects_no_cluster());
    // A server that cannot be reached at the start was probably misspelt.
    if first.failures.len() == first.servers && !first.failures.is_empty() {
        return Err(first.failures.swap_remove(0));
    }
    if !(io::stdin().is_terminal() && output::is_terminal()) {
        return print(&clients, watch, first);
    }
    if let Some(signal) = view(clients, watch, first).map_err(view_failed)? {
        emulate_default_handler(signal).map_err(view_failed)?;
    }
    Ok(())
}

fn scan(clients: &[LockClient], watch: &WatchArgs, no_cluster: bool) -> Scan {
    let wanted = Wanted {
        pattern: &watch.pattern,
        no_cluster,
        ..Wanted::default()
    };
    Scan::run(clients, wanted)
}

/// Prints plain lists until the reader of standard output ends. A signal ends the program as usual.
fn print(clients: &[LockClient], watch: &WatchArgs, mut found: Scan) -> Result<()> {
    let mut text = String::new();
    loop {
        text.push_str(&table::text(
            &found.rows,
            found.names_servers(),
            Style::default(),
        ));
        for failure in &found.failures {
            say(failure);
        }
        if !output::print(text.as_bytes())? {
            return Ok(());
        }
        thread::sleep(watch.every);
        found = scan(clients, watch, false);
        text = String::from("\n");
    }
}

/// A failure of the terminal or of the system.
fn view_failed(error: io::Error) -> Failure {
    Failure::new(UNAVAILABLE, format!("cannot watch: {error}"))
}

/// What the view waits for.
#[derive(Debug)]
enum Event {
    Key(u8),
    /// The terminal is gone.
    InputEnded,
    Signal(i32),
    /// `None` after a panic.
    Scan(Option<Scan>),
}

/// Shows the view until a key or a signal ends it, and restores the terminal. Draws it after each
/// event. Returns the signal.
///
/// Keys, signals and scans have threads of their own, which end with the process, so that the view
/// goes on while a server or the terminal does not reply.
fn view(clients: Vec<LockClient>, watch: &WatchArgs, mut scan: Scan) -> io::Result<Option<i32>> {
    // Without room: a scan begins some time after the one before was received.
    let (sender, events) = bounded(0);
    send_signals(sender.clone())?;
    let (scans, every) = (sender.clone(), watch.clone());
    let next = move || {
        thread::sleep(every.every);
        let scan = AssertUnwindSafe(|| self::scan(&clients, &every, false));
        Event::Scan(panic::catch_unwind(scan).ok())
    };
    spawn("scanner", move || while scans.send(next()).is_ok() {})?;
    let screen = Screen::enter()?;
    spawn("keys", move || {
        let keys = io::stdin()
            .lock()
            .bytes()
            .map_while(Result::ok)
            .map(Event::Key);
        let mut events = keys.chain([Event::InputEnded]);
        let _ = events.try_for_each(|event| sender.send(event));
    })?;
    loop {
        let size = output::size();
        screen.draw(&screen::lines(watch, &scan, size), size)?;
        match events.recv() {
            Ok(Event::Signal(SIGWINCH)) => {}
            Ok(Event::Signal(signal)) => return Ok(Some(signal)),
            Ok(Event::Key(b'q' | b'Q' | CTRL_C)) => return Ok(None),
            Ok(Event::Key(_)) => {}
            Ok(Event::Scan(newer)) => {
                let ended = || io::Error::other("the thread that scans has ended");
                scan = newer.ok_or_else(ended)?;
            }
            // The system sends HUP to processes that do not read.
            Ok(Event::InputEnded) | Err(_) => return Ok(Some(SIGHUP)),
        }
    }
}

/// Sends the signals that end the view, and that of a new size. The first one of the former ends
/// the view, which restores the terminal. A second one ends the program at once.
fn send_signals(events: Sender<Event>) -> io::Result<()> {
    let arrived = Arc::new(AtomicBool::new(false));
    for signal in ENDING {
        flag::register_conditional_default(signal, Arc::clone(&arrived))?;
        flag::register(signal, Arc::clone(&arrived))?;
    }
    let mut caught = Signals::new(ENDING.into_iter().chain([SIGWINCH]))?;
    let send = move |signal| events.send(Event::Signal(signal));
    spawn("signals", move || _ = caught.forever().try_for_each(send))?;
    Ok(())
}
