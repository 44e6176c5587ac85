//! What the library uses of `rustix`, in the world of the simulation.

pub use real::{io, system};

/// The clock of the process.
pub mod time {
    use leasehold_simulation_world::processes;

    pub use real::time::{ClockId, Timespec};

    const NANOS_PER_SECOND: u64 = 1_000_000_000;

    /// The time by the clock of the running thread's process. All clocks are the same.
    #[must_use]
    pub fn clock_gettime(_: ClockId) -> Timespec {
        let now = processes::clock();
        Timespec {
            tv_sec: (now / NANOS_PER_SECOND).cast_signed(),
            tv_nsec: (now % NANOS_PER_SECOND).cast_signed(),
        }
    }
}

/// Waits for sockets.
pub mod event {
    use std::marker::PhantomData;

    use leasehold_simulation_world::network::{self, SocketId};
    use leasehold_simulation_world::time;

    pub use real::event::PollFlags;
    pub use real::time::Timespec;

    /// What has a socket.
    pub trait HasSocket {
        /// The socket.
        fn id(&self) -> SocketId;
    }

    /// A socket for which a thread waits.
    #[derive(Debug)]
    pub struct PollFd<'a> {
        socket: SocketId,
        events: PollFlags,
        found: PollFlags,
        borrowed: PhantomData<&'a ()>,
    }

    impl<'a> PollFd<'a> {
        /// Waits for these events.
        pub fn new(socket: &'a impl HasSocket, events: PollFlags) -> Self {
            Self {
                socket: socket.id(),
                events,
                found: PollFlags::empty(),
                borrowed: PhantomData,
            }
        }

        /// The events that were found.
        #[must_use]
        pub fn revents(&self) -> PollFlags {
            self.found
        }

        fn look(&self) -> PollFlags {
            let mut found = self.events & PollFlags::OUT;
            if network::is_readable(self.socket) {
                found |= self.events & PollFlags::IN;
            }
            found
        }
    }

    /// Waits for an event, at most for this time.
    ///
    /// # Errors
    ///
    /// Never.
    pub fn poll(fds: &mut [PollFd<'_>], timeout: Option<&Timespec>) -> real::io::Result<usize> {
        let nanos = timeout.map_or(u64::MAX / 2, |time| {
            time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned()
        });
        let ids: Vec<SocketId> = fds.iter().map(|fd| fd.socket).collect();
        let is_ready = || fds.iter().any(|fd| !fd.look().is_empty());
        network::poll(&ids, time::now() + nanos, is_ready);
        for fd in &mut *fds {
            fd.found = fd.look();
        }
        Ok(fds.iter().filter(|fd| !fd.found.is_empty()).count())
    }
}
