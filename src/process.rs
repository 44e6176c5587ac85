//! The process in which something was made.
//!
//! After a fork the child has all memory and none of the threads. Its copies of locks are not its own:
//! another process holds them, on connections that both can write to, under mutexes that nobody in the
//! child will ever unlock if they were locked just then.

/// Costs one short system call to ask for, and is asked for once a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Process(u32);

impl Process {
    pub(crate) fn current() -> Self {
        Self(std::process::id())
    }

    /// False in a child that was forked since.
    pub(crate) fn is_current(self) -> bool {
        self == Self::current()
    }
}
