//! Writing to a link: one thread at a time takes all that is there.

use std::net::Shutdown;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use std::{io, thread};

use parking_lot::MutexGuard;

use super::{LARGEST_BUFFER, Link, LinkState};
use crate::base::Moment;
use crate::base::parker::WAKE_UPS;

/// A yield of the processor is worth this time, in which many threads run for a moment each, and
/// more for each request that threads of the process send meanwhile, or thread that they wake. If
/// it takes longer, threads that compute had the processor: the system lets one run for some
/// milliseconds.
const WORTH: Duration = Duration::from_millis(1);
const WORTH_OF_WORK: Duration = Duration::from_micros(64);

/// After a second yield in succession that took longer than it was worth, no thread yields for this
/// many times as long. So such yields take less than a sixtieth of the time.
const PAUSE: u32 = 64;

const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// How often threads of this process have sent requests. A process that computes can have several
/// links, whose threads take turns on one processor. So those of all links are counted.
pub(super) static SENDS: AtomicU64 = AtomicU64::new(0);

/// | the link | `is_writing` | `unwritten` | `unsent` | who writes next |
/// |---|---|---|---|---|
/// | idle | no | empty | empty | the next thread that sends |
/// | is written to | yes | what other threads append meanwhile | empty: the writer has taken it | the same thread, until nothing is left |
/// | blocked | no | what threads append | what the buffer of the system did not take | the thread that reads, or the next one that sends |
/// | ended | no | empty | empty | none |
impl Link {
    /// Writes what is there, if no other thread does, as far as the buffer of the system takes it.
    pub(super) fn write<'l>(
        &'l self,
        mut state: MutexGuard<'l, LinkState>,
    ) -> MutexGuard<'l, LinkState> {
        if state.is_writing {
            return state;
        }
        // Before the mutex is unlocked for a moment: there is one writer.
        state.is_writing = true;
        if state.woken > 0 {
            // Threads that were woken together send together, if they run before the write.
            yield_processor(&mut state);
            state.woken = 0;
        }
        while state.end.is_none() && state.has_bytes() && self.write_once(&mut state) {}
        (state.is_writing, state.in_write) = (false, 0);
        if state.end.is_some() {
            // The end has cleared them, but this thread may have put a part back since.
            (state.unwritten, state.unsent) = (Vec::new(), Vec::new());
        }
        state
    }

    /// Writes what is there, without the mutex, so that other threads can append. False if the
    /// system takes no more now, or the connection has failed.
    fn write_once(&self, state: &mut MutexGuard<'_, LinkState>) -> bool {
        let unwritten = std::mem::take(&mut state.unwritten);
        // Encrypted bytes come first: TLS numbers its records.
        let mut bytes = std::mem::take(&mut state.unsent);
        state.in_write = bytes.len() + unwritten.len();
        let written = MutexGuard::unlocked(state, || {
            if bytes.is_empty() {
                bytes = self.socket.encrypt(unwritten)?;
            } else if !unwritten.is_empty() {
                bytes.extend(self.socket.encrypt(unwritten)?);
            }
            self.socket.try_write(&bytes)
        });
        match written {
            Ok(written) if written == bytes.len() => {
                // The room is used for the next request.
                if state.unwritten.capacity() == 0 && bytes.capacity() <= LARGEST_BUFFER {
                    bytes.clear();
                    state.unwritten = bytes;
                }
                true
            }
            Ok(written) => {
                bytes.drain(..written);
                state.unsent = bytes;
                true
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                state.unsent = bytes;
                false
            }
            Err(_) => {
                // Replies that have arrived are read, and then the end of the connection is.
                self.retire();
                self.socket.shut_down(Shutdown::Write);
                false
            }
        }
    }
}

/// Lets other threads run, unless threads that compute took the processor last time: all threads of
/// the link wait for this one, which has the right to write.
fn yield_processor(state: &mut MutexGuard<'_, LinkState>) {
    let began = Moment::now();
    if began < state.yields_from {
        return;
    }
    let work = || {
        let counts = [&SENDS, &WAKE_UPS].map(|count| count.load(Ordering::Relaxed));
        counts[0].wrapping_add(counts[1])
    };
    let before = work();
    MutexGuard::unlocked(state, thread::yield_now);
    let ended = Moment::now();
    let pause = pause_after(ended.since(began), work().wrapping_sub(before));
    if state.is_yield_long {
        state.yields_from = ended.after(pause);
    }
    state.is_yield_long = !pause.is_zero();
}

/// How long no thread yields after a yield of this length, during which threads have sent requests
/// or woken other threads this often.
fn pause_after(took: Duration, work: u64) -> Duration {
    let work = u32::try_from(work).unwrap_or(u32::MAX);
    match took > WORTH.saturating_add(WORTH_OF_WORK.saturating_mul(work)) {
        true => took.saturating_mul(PAUSE).min(LONGEST_PAUSE),
        false => Duration::ZERO,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_yield_is_worth_more_if_more_threads_work() {
        let long = Duration::from_millis(4);
        assert_eq!(pause_after(long, 63), Duration::ZERO);
        assert_eq!(pause_after(WORTH, 0), Duration::ZERO);
        assert_eq!(pause_after(long, 3), long * PAUSE);
        assert_eq!(pause_after(Duration::MAX, 3), LONGEST_PAUSE);
        assert_eq!(pause_after(Duration::MAX, u64::MAX), LONGEST_PAUSE);
    }
}
