//! Writing to a link: one thread at a time takes all that is there.

use std::net::Shutdown;
use std::{io, thread};

use parking_lot::MutexGuard;

use super::{LARGEST_BUFFER, Link, State};

impl Link {
    /// Writes what is there, if no other thread does, as far as the buffer of the system takes it.
    pub(super) fn write<'l>(&'l self, mut state: MutexGuard<'l, State>) -> MutexGuard<'l, State> {
        if state.is_writing {
            return state;
        }
        state.is_writing = true;
        if state.woken > 0 {
            // Threads that were woken together send together, if they run before the write.
            MutexGuard::unlocked(&mut state, thread::yield_now);
            state.woken = 0;
        }
        while state.end.is_none() && !(state.unwritten.is_empty() && state.unsent.is_empty()) {
            let unwritten = std::mem::take(&mut state.unwritten);
            let mut bytes = std::mem::take(&mut state.unsent);
            state.in_write = bytes.len() + unwritten.len();
            let written = MutexGuard::unlocked(&mut state, || {
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
                }
                Ok(written) => {
                    bytes.drain(..written);
                    state.unsent = bytes;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    state.unsent = bytes;
                    break;
                }
                Err(_) => {
                    // Replies that have arrived are read, and then the end of the connection is.
                    self.retire();
                    self.socket.shut_down(Shutdown::Write);
                    break;
                }
            }
        }
        (state.is_writing, state.in_write) = (false, 0);
        if state.end.is_some() {
            (state.unwritten, state.unsent) = (Vec::new(), Vec::new());
        }
        state
    }
}
