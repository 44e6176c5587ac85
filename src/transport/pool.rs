//! The connections to one server: those of the callers, counted by `r2d2`, and the watchdog's own.
//!
//! `r2d2` pools slots here, not connections. A slot is empty until a caller fills it, in the
//! caller's own time and with the caller's own error. So `r2d2` never does I/O: a server that hangs
//! cannot keep `get` longer than it is asked to wait, a failed log-in keeps its cause, and no
//! backoff of the pool delays callers that wait for a server which is back.

use std::convert::Infallible;
use std::fmt;
use std::panic::catch_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use r2d2::{ManageConnection, PooledConnection};
use scheduled_thread_pool::{OnPoolDropBehavior, ScheduledThreadPool};

use crate::base::clock::Moment;
use crate::base::process::Process;
use crate::error::{Error, Result};
use crate::transport::connection::Connection;

/// The pool of one server.
#[derive(Debug)]
pub(crate) struct Pool {
    slots: r2d2::Pool<Slots>,
    shared: Arc<Shared>,
}

/// What the pool and its slots share.
#[derive(Debug, Default)]
struct Shared {
    /// Connections of earlier generations are not used again.
    generation: AtomicU64,
    /// Connections that callers have taken out of their slots, and may put back.
    lent: AtomicUsize,
    waiting: Mutex<Waiting>,
    returned: Condvar,
    /// The watchdog's idle connection. Callers that use all slots delay no renewal. It has no
    /// generation: a server that has changed its password still serves it.
    watchdog: Mutex<Option<Box<Connection>>>,
}

/// Callers that wait for a connection, and the connections that were put back for them.
///
/// Its mutex protects this invariant: there are never more connections than waiting callers.
#[derive(Debug, Default)]
struct Waiting {
    callers: usize,
    idle: Vec<Connection>,
}

/// Room for one connection. Its user takes the connection out, and puts it back only after a clear
/// reply, so that neither a failure nor a panic leaves a connection in an unknown state.
#[derive(Debug)]
pub(crate) struct Slot {
    /// `None`: the watchdog's.
    cell: Option<PooledConnection<Slots>>,
    pool: Arc<Shared>,
    generation: u64,
    /// Its connection counts among those that are lent.
    lent: bool,
}

/// Makes pools, one for each server, which share the thread that keeps their books.
pub(crate) struct Pools {
    thread: Arc<ScheduledThreadPool>,
    size: u32,
    timeout: Duration,
    process: Process,
}

impl Pools {
    pub(crate) fn new(size: u32, timeout: Duration) -> Result<Self> {
        // Starting its thread is the one thing that can fail, and there it panics.
        let thread = catch_unwind(|| {
            ScheduledThreadPool::builder()
                .num_threads(1)
                .on_drop_behavior(OnPoolDropBehavior::DiscardPendingScheduled)
                .thread_name_pattern("leasehold-pool")
                .build()
        });
        let thread = thread.map_err(|_| Error::NoThread {
            cause: "that of the pool".into(),
        })?;
        Ok(Self {
            thread: Arc::new(thread),
            size,
            timeout,
            process: Process::current(),
        })
    }

    /// Its settings have been checked, and it opens nothing, so there is nothing to fail.
    pub(crate) fn pool(&self) -> Pool {
        let slots = r2d2::Pool::builder()
            .max_size(self.size)
            .min_idle(Some(0))
            .max_lifetime(None)
            .idle_timeout(None)
            .test_on_check_out(false)
            .connection_timeout(self.timeout)
            .thread_pool(Arc::clone(&self.thread))
            .build_unchecked(Slots);
        Pool {
            slots,
            shared: Arc::default(),
        }
    }
}

impl Pool {
    /// Returns a slot, with an open connection if an idle slot has one. If all are in use, waits
    /// for one, for at most `timeout`.
    ///
    /// `r2d2` hands out the slot that was returned last. After a failed opening that slot is empty,
    /// so the idle ones below it are checked, too.
    pub(crate) fn slot(&self, timeout: impl FnOnce() -> Duration) -> Result<Slot, r2d2::Error> {
        let mut cell = match self.slots.try_get() {
            Some(cell) => cell,
            None => self.slots.get_timeout(timeout())?,
        };
        let generation = self.shared.generation();
        // Given back before the slot that is used, which is then on top of them.
        let mut empty = Vec::new();
        while !cell.is_open(generation) {
            cell.0 = None;
            match self.slots.try_get() {
                Some(next) => empty.push(std::mem::replace(&mut cell, next)),
                None => break,
            }
        }
        Ok(Slot {
            cell: Some(cell),
            pool: Arc::clone(&self.shared),
            generation,
            lent: false,
        })
    }

    /// A slot with an open connection, if the first idle slot has one. Waits for nothing.
    pub(crate) fn open_slot(&self) -> Option<(Slot, Box<Connection>)> {
        let cell = self.slots.try_get()?;
        let generation = self.shared.generation();
        if !cell.is_open(generation) {
            return None;
        }
        let mut slot = Slot {
            cell: Some(cell),
            pool: Arc::clone(&self.shared),
            generation,
            lent: false,
        };
        let connection = slot.take()?;
        Some((slot, connection))
    }

    /// The slot of the watchdog, which is never waited for.
    pub(crate) fn watchdog_slot(&self) -> Slot {
        Slot {
            cell: None,
            pool: Arc::clone(&self.shared),
            generation: self.shared.generation(),
            lent: false,
        }
    }

    /// Uses no connection of a caller that is open now for another request.
    pub(crate) fn drop_connections(&self) {
        self.shared.generation.fetch_add(1, Ordering::AcqRel);
    }
}

impl Shared {
    fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }
}

impl fmt::Debug for Pools {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pools")
            .field("size", &self.size)
            .finish_non_exhaustive()
    }
}

impl Drop for Pools {
    fn drop(&mut self) {
        if !self.process.is_current() {
            // Its end would notify a thread that the child does not have, under a mutex that may
            // stay locked.
            std::mem::forget(Arc::clone(&self.thread));
        }
    }
}

impl Slot {
    /// Takes out the open connection, if there is one.
    pub(crate) fn take(&mut self) -> Option<Box<Connection>> {
        let Some(cell) = &mut self.cell else {
            let idle = self.pool.watchdog.lock().take();
            return idle.filter(|connection| connection.is_fresh());
        };
        let (_, connection) = cell.0.take()?;
        self.lend();
        Some(connection)
    }

    /// An open connection for a caller that could not open one: that of this slot, or the next
    /// connection that another caller puts back within `time`. `None` at once if no caller has
    /// one, or if they are not used any more.
    pub(crate) fn another(&mut self, time: Duration) -> Option<Box<Connection>> {
        if self.generation != self.pool.generation() {
            return None;
        }
        if let Some(connection) = self.take() {
            return Some(connection);
        }
        if self.cell.is_none() || self.pool.lent.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let end = Moment::now().after(time);
        let connection = {
            let mut waiting = self.pool.waiting.lock();
            waiting.callers += 1;
            while waiting.idle.is_empty() && !end.is_past() {
                self.pool.returned.wait_for(&mut waiting, end.left());
            }
            waiting.callers -= 1;
            waiting.idle.pop()?
        };
        self.lend();
        Some(Box::new(connection))
    }

    /// Puts back a connection on which every request has its reply.
    pub(crate) fn put(&mut self, connection: Box<Connection>) {
        let Some(cell) = &mut self.cell else {
            let outdated = self.pool.watchdog.lock().replace(connection);
            drop(outdated);
            return;
        };
        // A connection of an earlier generation is closed now, and not kept idle.
        if self.generation != self.pool.generation() {
            return;
        }
        let mut waiting = self.pool.waiting.lock();
        if waiting.callers > waiting.idle.len() {
            waiting.idle.push(*connection);
            self.pool.returned.notify_one();
        } else {
            drop(waiting);
            cell.0 = Some((self.generation, connection));
        }
    }

    fn lend(&mut self) {
        self.lent = true;
        self.pool.lent.fetch_add(1, Ordering::Relaxed);
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        if self.lent {
            self.pool.lent.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// What is pooled: a connection and its generation, or room for one.
#[derive(Debug, Default)]
pub(crate) struct Cell(Option<(u64, Box<Connection>)>);

impl Cell {
    /// It has a connection of this generation that was used lately.
    fn is_open(&self, generation: u64) -> bool {
        let open = self.0.as_ref();
        open.is_some_and(|(of, connection)| *of == generation && connection.is_fresh())
    }
}

#[derive(Debug)]
pub(crate) struct Slots;

impl ManageConnection for Slots {
    type Connection = Cell;
    type Error = Infallible;

    fn connect(&self) -> Result<Cell, Infallible> {
        Ok(Cell::default())
    }

    fn is_valid(&self, _: &mut Cell) -> Result<(), Infallible> {
        Ok(())
    }

    fn has_broken(&self, _: &mut Cell) -> bool {
        false
    }
}
