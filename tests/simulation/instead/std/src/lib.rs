//! `std` for the library in the simulation: what depends on threads and processes is that of the
//! simulated world, and all else is the real one.

pub use ::std::*;

pub use leasehold_simulation_world::locals;

/// As the macro of `std`.
#[macro_export]
macro_rules! thread_local {
    () => {};
    ($(#[$_:meta])* $visible:vis static $name:ident: $type:ty = const { $value:expr };
        $($rest:tt)*) => {
        $visible static $name: $crate::locals::LocalKey<$type> =
            $crate::locals::LocalKey::new(|| $value);
        $crate::thread_local! { $($rest)* }
    };
    ($(#[$_:meta])* $visible:vis static $name:ident: $type:ty = $value:expr; $($rest:tt)*) => {
        $visible static $name: $crate::locals::LocalKey<$type> =
            $crate::locals::LocalKey::new(|| $value);
        $crate::thread_local! { $($rest)* }
    };
}

/// Processes.
pub mod process {
    pub use ::std::process::*;

    /// The number of the simulated process.
    #[must_use]
    pub fn id() -> u32 {
        leasehold_simulation_world::processes::current()
    }
}

/// Threads.
pub mod thread {
    use std::any::Any;
    use std::io;
    use std::sync::{Arc, Mutex};
    use std::time::Duration;

    use leasehold_simulation_world::tasks::{self, TaskId};
    use leasehold_simulation_world::time;

    pub use ::std::thread::{Result, panicking};

    pub use leasehold_simulation_world::locals::{AccessError, LocalKey};

    /// Which thread it is.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct ThreadId(TaskId);

    /// A thread.
    #[derive(Clone, Debug)]
    pub struct Thread(TaskId);

    impl Thread {
        /// Which one it is.
        #[must_use]
        pub fn id(&self) -> ThreadId {
            ThreadId(self.0)
        }
    }

    /// The end of a thread, and what it returned.
    #[derive(Debug)]
    pub struct JoinHandle<T> {
        task: TaskId,
        thread: Thread,
        result: Arc<Mutex<Option<T>>>,
    }

    impl<T> JoinHandle<T> {
        /// The thread.
        #[must_use]
        pub fn thread(&self) -> &Thread {
            &self.thread
        }

        /// Waits until the thread has ended.
        ///
        /// # Errors
        ///
        /// If it has panicked.
        pub fn join(self) -> Result<T> {
            tasks::join(self.task);
            let result = self.result.lock().map(|mut result| result.take());
            let panicked = || Box::new("the thread has panicked") as Box<dyn Any + Send>;
            result.ok().flatten().ok_or_else(panicked)
        }

        /// True if the thread has ended.
        #[must_use]
        pub fn is_finished(&self) -> bool {
            tasks::has_ended(self.task)
        }
    }

    /// Starts threads.
    #[derive(Debug, Default)]
    pub struct Builder(());

    impl Builder {
        /// A builder for a thread without a name.
        #[must_use]
        pub fn new() -> Self {
            Self::default()
        }

        /// Does nothing: no name is shown.
        #[must_use]
        pub fn name(self, _: String) -> Self {
            self
        }

        /// Starts the thread.
        ///
        /// # Errors
        ///
        /// Never.
        pub fn spawn<T: Send + 'static>(
            self,
            body: impl FnOnce() -> T + Send + 'static,
        ) -> io::Result<JoinHandle<T>> {
            let result = Arc::default();
            let returned = Arc::<Mutex<_>>::clone(&result);
            let task = tasks::spawn(move || {
                let value = body();
                if let Ok(mut returned) = returned.lock() {
                    *returned = Some(value);
                }
            });
            Ok(JoinHandle {
                task,
                thread: Thread(task),
                result,
            })
        }
    }

    /// Starts a thread.
    ///
    /// # Panics
    ///
    /// Never.
    pub fn spawn<T: Send + 'static>(body: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
        Builder::new().spawn(body).expect("it starts")
    }

    /// The running thread.
    #[must_use]
    pub fn current() -> Thread {
        Thread(tasks::current())
    }

    /// Lets other threads run.
    pub fn yield_now() {
        tasks::yield_now();
    }

    /// Waits for this time.
    pub fn sleep(time: Duration) {
        tasks::sleep_until(time::after(time));
    }
}

/// Sockets.
pub mod net {
    use std::io::{self, ErrorKind};

    use leasehold_simulation_world::network::{self, SocketId};
    use rustix::event::HasSocket;

    pub use ::std::net::*;

    /// A socket that signals to itself.
    #[derive(Debug)]
    pub struct UdpSocket(SocketId);

    impl UdpSocket {
        /// A new socket.
        ///
        /// # Errors
        ///
        /// Never.
        pub fn bind(_: impl ToSocketAddrs) -> io::Result<Self> {
            Ok(Self(network::socket()))
        }

        /// Connects it to itself.
        ///
        /// # Errors
        ///
        /// Never.
        pub fn connect(&self, _: impl ToSocketAddrs) -> io::Result<()> {
            network::connect_to_itself(self.0);
            Ok(())
        }

        /// An address that means nothing.
        ///
        /// # Errors
        ///
        /// Never.
        pub fn local_addr(&self) -> io::Result<SocketAddr> {
            Ok((Ipv4Addr::LOCALHOST, 1).into())
        }

        /// Does nothing: it never waits.
        ///
        /// # Errors
        ///
        /// Never.
        pub fn set_nonblocking(&self, _: bool) -> io::Result<()> {
            Ok(())
        }

        /// Sends a signal.
        ///
        /// # Errors
        ///
        /// Never.
        pub fn send(&self, bytes: &[u8]) -> io::Result<usize> {
            network::send(self.0, bytes)
        }

        /// Takes signals.
        ///
        /// # Errors
        ///
        /// If there is none.
        pub fn recv(&self, buffer: &mut [u8]) -> io::Result<usize> {
            match network::receive(self.0, buffer, false) {
                Ok(0) => Err(ErrorKind::WouldBlock.into()),
                received => received,
            }
        }
    }

    impl HasSocket for UdpSocket {
        fn id(&self) -> SocketId {
            self.0
        }
    }

    impl Drop for UdpSocket {
        fn drop(&mut self) {
            network::close(self.0);
        }
    }
}
