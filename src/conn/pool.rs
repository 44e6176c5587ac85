//! The callers' connections, counted and kept by `r2d2`.
//!
//! What `r2d2` pools here are slots, not connections. A slot is empty until a caller fills it, in
//! the caller's own time and with the caller's own error. So `r2d2` never does I/O: a server that
//! hangs cannot hold `get` any longer than it is asked to wait, a failed log-in keeps its cause, and
//! no back-off of the pool stands between a server that is back and the callers that wait for it.

use std::convert::Infallible;
use std::panic::catch_unwind;
use std::sync::Arc;
use std::time::Duration;

use r2d2::{ManageConnection, PooledConnection};
use scheduled_thread_pool::{OnPoolDropBehavior, ScheduledThreadPool};

use crate::config::Config;
use crate::conn::wire::Wire;
use crate::error::{Error, Result};

pub(crate) type Slot = PooledConnection<Slots>;

/// A pool of slots.
#[derive(Clone, Debug)]
pub(crate) struct Pool(r2d2::Pool<Slots>);

impl Pool {
    pub(crate) fn new(config: &Config) -> Result<Self> {
        let size = config.pool_size;
        let timeout = config.pool_timeout;
        // Starting its thread is the one thing that can fail, and there it panics.
        catch_unwind(move || {
            let thread = ScheduledThreadPool::builder()
                .num_threads(1)
                .on_drop_behavior(OnPoolDropBehavior::DiscardPendingScheduled)
                .thread_name_pattern("leasehold-pool")
                .build();
            r2d2::Pool::builder()
                .max_size(size)
                .min_idle(Some(0))
                .max_lifetime(None)
                .idle_timeout(None)
                .test_on_check_out(false)
                .connection_timeout(timeout)
                .thread_pool(Arc::new(thread))
                .build_unchecked(Slots)
        })
        .map(Self)
        .map_err(|_| Error::Config {
            field: "pool_size",
            value: size.to_string(),
            rule:
                "the pool's thread could not be started; the system's limit of threads is reached"
                    .into(),
        })
    }

    /// A slot, at most `timeout` from now.
    pub(crate) fn slot(&self, timeout: Duration) -> Result<Slot, r2d2::Error> {
        self.0.get_timeout(timeout)
    }
}

/// What a slot holds. Whoever uses the connection takes it out and puts it back only after a clear
/// reply, so that neither a failure nor a panic can leave a connection in an unknown state behind.
#[derive(Debug, Default)]
pub(crate) struct Cell(Option<Wire>);

impl Cell {
    pub(crate) fn take(&mut self) -> Option<Wire> {
        self.0.take().filter(Wire::is_fresh)
    }

    pub(crate) fn put(&mut self, wire: Wire) {
        self.0 = Some(wire);
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
