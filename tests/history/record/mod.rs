//! The records of a log: what happened in a run.

mod text;

/// The number of the conductor's process.
pub const CONDUCTOR: u32 = 0;

/// One line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Nanoseconds of [`clock::now`](crate::clock::now).
    pub at: u64,
    pub process: u32,
    pub thread: u32,
    pub event: Event,
}

/// What happened. `call` counts the calls of a thread; a hold has the number of the call that
/// acquired it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Before a call. It must return within `budget` milliseconds; 0: no bound while other threads
    /// hold the lock.
    Asks {
        call: u64,
        lock: u32,
        budget: u64,
        what: String,
    },
    /// Before [`Event::Asks`] or [`Event::Held`]: the call acquires a lock that several threads can
    /// hold at the same time, such as a read lock.
    Reads { call: u64 },
    /// Before [`Event::Asks`] or [`Event::Held`]: the call acquires this many permits.
    Needs { call: u64, permits: u32 },
    /// After [`Event::Asks`]: the call acquires or releases these locks together. They contain the
    /// lock of that record. A call that acquires has both records for each lock.
    Together { call: u64, locks: Vec<u32> },
    /// After [`Event::Asks`]: the call releases its lock, waits for a notification for at most
    /// `within` milliseconds (0: without a limit), and acquires the lock again.
    Waits {
        call: u64,
        condition: u32,
        within: u64,
    },
    /// After [`Event::Has`] of a call that waited for a notification: it reported none.
    NotNotified { call: u64 },
    /// After a call that notified the thread that has waited longest for a condition, or all.
    Notifies {
        lock: u32,
        condition: u32,
        all: bool,
    },
    /// After a call that acquired a free lock.
    Has { call: u64, token: Option<u64> },
    /// After a nested acquire inside `hold`.
    HasAgain {
        call: u64,
        hold: u64,
        token: Option<u64>,
    },
    /// A short hold during a rush. The call that acquired it began at `asked` and returned at the
    /// time of the record.
    Held {
        call: u64,
        lock: u32,
        asked: u64,
        token: Option<u64>,
        /// The last time for which the lock confirmed the hold; 0: none.
        vouched: u64,
    },
    /// After a call with any other allowed result.
    Answered { call: u64, answer: String },
    /// The holder noted this time, and a check after it confirmed the hold.
    Vouches { hold: u64 },
    /// After a call that failed because the server refused the log-in of the process.
    Refused { call: u64, answer: String },
    /// The result of a call breaks its documentation.
    Wrong { call: u64, answer: String },
    /// The thread was runnable without a CPU for this long during the call.
    Starved { call: u64, nanos: u64 },
    /// The stall monitor was woken this late.
    Late { nanos: u64 },
    /// The threads of this process handed locks over for this long without a request to Redis.
    Kept { nanos: u64 },
    /// This process uses the client with this id.
    Client { id: String },
    /// The user of this process may not subscribe.
    MayNotSubscribe,
    /// The queue of a fair lock in Redis, at some time from `from` on. The first client is next.
    Waiting {
        lock: u32,
        from: u64,
        clients: Vec<String>,
    },
    /// The clients in the line of a lock that get no message when they are called, from now on.
    /// They could not subscribe when they asked last, or their hosts have vanished.
    NotSubscribed { lock: u32, clients: Vec<String> },
    /// Before a process is paused.
    Pauses { process: u32 },
    /// After a paused process was resumed.
    Continued { process: u32 },
    /// After the conductor killed a process.
    Killed { process: u32 },
    /// After a process ended unexpectedly.
    Died { process: u32 },
    /// A process still runs after [`Event::End`].
    Lingers { process: u32 },
    /// After an existing key of a lock was deleted by a command sent at `from`. All tokens granted
    /// before are at most `token`.
    Deleted {
        lock: u32,
        from: u64,
        token: Option<u64>,
    },
    /// After another server took the place of the lock's master at some time from `from` on,
    /// without the newest writes to the lock: those since `apart`.
    FailedOver { lock: u32, from: u64, apart: u64 },
    /// After the clock of the lock's server was set forward at some time from `from` on.
    ClockSet { lock: u32, from: u64 },
    /// After the line of a lock was deleted.
    LineLost { lock: u32 },
    /// Before the password of the workers is changed.
    Rotates,
    /// Faults are injected from now on.
    Storm,
    /// No faults are injected from now on.
    Calm,
    /// The workers are asked to stop.
    Stopping,
    /// The conductor waits no longer for workers. A call without a result by now is stuck.
    End,
    /// A key is still in Redis after the run, and ends after this number of milliseconds; -1:
    /// never. The entry is `KEY = VALUE`.
    Left { ends: i64, entry: String },
    /// Text for readers; the checker ignores it.
    Note { text: String },
}
