//! What the view waits for: keys, signals, and scans. Each has a thread of its own, which ends with
//! the process, so that the view goes on while a server or the terminal does not reply.

use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread::Builder;

use crossbeam_channel::{Receiver, Sender, bounded, unbounded};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGWINCH};
use signal_hook::flag;
use signal_hook::iterator::Signals;

use crate::scan::Scan;

const ENDING: [i32; 4] = [SIGHUP, SIGINT, SIGQUIT, SIGTERM];

/// The bytes that the terminal sends. Disconnected when the terminal is gone.
pub(super) fn keys() -> io::Result<Receiver<u8>> {
    let (sender, keys) = unbounded();
    let read = move || {
        io::stdin()
            .lock()
            .bytes()
            .map_while(Result::ok)
            .try_for_each(|key| sender.send(key))
    };
    Builder::new().name("leasehold-keys".into()).spawn(read)?;
    Ok(keys)
}

/// The signals that end the view, and that of a new size. The first one of the former ends the view,
/// which restores the terminal. A second one ends the program at once.
pub(super) fn signals() -> io::Result<Receiver<i32>> {
    let arrived = Arc::new(AtomicBool::new(false));
    for signal in ENDING {
        flag::register_conditional_default(signal, Arc::clone(&arrived))?;
        flag::register(signal, Arc::clone(&arrived))?;
    }
    let mut caught = Signals::new(ENDING.into_iter().chain([SIGWINCH]))?;
    let (sender, signals) = unbounded();
    let send = move || caught.forever().try_for_each(|signal| sender.send(signal));
    Builder::new()
        .name("leasehold-signals".into())
        .spawn(send)?;
    Ok(signals)
}

/// Scans the servers when it is asked to. The results end if the scan has panicked.
pub(super) fn scans(
    scan: impl Fn() -> Scan + Send + 'static,
) -> io::Result<(Sender<()>, Receiver<Scan>)> {
    let (requests, requested) = bounded::<()>(1);
    let (sender, results) = bounded(1);
    let run = move || requested.iter().try_for_each(|()| sender.send(scan()));
    Builder::new().name("leasehold-scanner".into()).spawn(run)?;
    Ok((requests, results))
}
