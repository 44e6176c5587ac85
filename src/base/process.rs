//! The process in which something was created.
//!
//! A forked child has the memory of its parent, but none of its threads. The locks in that memory
//! belong to the parent. Parent and child can both write to the connections. A mutex that another
//! thread had locked during the fork stays locked in the child.
//!
//! So each call, and each destructor that needs a mutex, a thread or a connection, first compares
//! processes. In the child no lock is held.
//!
//! All mutexes of a process share the table of waiting threads in `parking_lot`. It can be locked
//! during the fork, and no safe code resets it. So a client that the child makes can hang, if the
//! parent has several threads.

use std::sync::OnceLock;

use forkguard::Guard;

/// A process, told from its forked children.
///
/// The C library calls a handler in the child of each `fork`, which counts. So a check costs no
/// system call, and a child in another PID namespace is noticed even if it has the id of its
/// parent. A child that is made by the system call `clone`, past the C library, is not noticed.
#[derive(Clone, Debug)]
pub(crate) struct Process {
    /// `None` if the C library could not register the handler. Then the id is compared.
    forks: Option<Guard>,
    id: u32,
}

impl Process {
    pub(crate) fn current() -> Self {
        Self {
            forks: Guard::try_new().ok(),
            id: std::process::id(),
        }
    }

    /// False in a child that was forked later. Every call of a lock checks this.
    pub(crate) fn is_current(&self) -> bool {
        match &self.forks {
            Some(forks) => !forks.clone().detected_fork(),
            None => self.id == std::process::id(),
        }
    }
}

impl Default for Process {
    fn default() -> Self {
        Self::current()
    }
}

/// A value that each process has for itself, with the mutexes in it.
#[derive(Debug, Default)]
pub(crate) struct PerProcess<T> {
    process: Process,
    value: T,
    of_child: OnceLock<Box<Self>>,
}

impl<T: Default> PerProcess<T> {
    /// The value of this process. A forked child begins with a default one.
    pub(crate) fn get(&self) -> &T {
        let mut one = self;
        while !one.process.is_current() {
            one = one.of_child.get_or_init(Box::default);
        }
        &one.value
    }
}
