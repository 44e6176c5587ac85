//! Connections to one server that one thread uses at a time, for requests that block their
//! connection, as WAIT does.
//!
//! `r2d2` opens them in the background, checks each before it is used, and bounds their number. Its
//! threads start with the first use, and end with the pool.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;
use r2d2::{ManageConnection, NopErrorHandler, PooledConnection};
use redis::{ErrorKind, RedisError, RedisResult};
use scheduled_thread_pool::{OnPoolDropBehavior, ScheduledThreadPool};

use crate::base::{Moment, Process};
use crate::transport::link::Link;
use crate::transport::node::Node;

/// The threads that open the connections of one pool.
const THREADS: usize = 3;

/// The pool of one server.
#[derive(Debug)]
pub(crate) struct Exclusive {
    opener: Opener,
    process: Process,
    /// Empty until the first use.
    pool: OnceLock<r2d2::Pool<Opener>>,
}

/// Opens and checks the connections.
#[derive(Clone, Debug)]
pub(crate) struct Opener {
    node: Arc<Node>,
    known: Arc<Mutex<Known>>,
}

/// What the opener has to know, and what it found. `r2d2` keeps only the text of an error.
#[derive(Debug, Default)]
struct Known {
    /// When an opening failed last, and why.
    failed: Option<(Moment, RedisError)>,
    /// Connections that were opened before are not used again.
    retired_at: Moment,
}

/// A connection of the pool, which gets it back when this is dropped.
pub(crate) type Checkout = PooledConnection<Opener>;

impl Exclusive {
    pub(crate) fn new(node: Arc<Node>) -> Self {
        let known = Arc::default();
        Self {
            opener: Opener { node, known },
            process: Process::current(),
            pool: OnceLock::new(),
        }
    }

    /// A connection for this thread alone, within `time`. Without one, returns why an opening
    /// failed in that time, or `None` if all connections are in use.
    pub(crate) fn get(&self, time: Duration) -> Result<Checkout, Option<RedisError>> {
        let began = Moment::now();
        // Starting its threads is the one thing that can fail, and there it panics.
        let pool = catch_unwind(AssertUnwindSafe(|| self.pool.get_or_init(|| self.build())));
        let pool = pool.map_err(|_| {
            let cause = "the system starts no thread for the pool of connections";
            Some(RedisError::from((ErrorKind::Io, cause)))
        })?;
        pool.get_timeout(time).map_err(|_| {
            let failed = self.opener.known.lock().failed.clone();
            let (_, error) = failed.filter(|(at, _)| *at >= began)?;
            Some(error)
        })
    }

    /// Uses no connection that was opened before this moment for another request.
    pub(crate) fn retire_all(&self, before: Moment) {
        let mut known = self.opener.known.lock();
        known.retired_at = known.retired_at.max(before);
    }

    fn build(&self) -> r2d2::Pool<Opener> {
        let limits = self.opener.node.login.limits;
        // By default, the threads would stay until their next search for old connections.
        let threads = ScheduledThreadPool::builder()
            .num_threads(THREADS)
            .thread_name_pattern("r2d2-worker-{}")
            .on_drop_behavior(OnPoolDropBehavior::DiscardPendingScheduled)
            .build();
        r2d2::Pool::builder()
            .thread_pool(Arc::new(threads))
            .max_size(limits.replica_connections)
            .min_idle(Some(0))
            .connection_timeout(limits.connect_timeout)
            .error_handler(Box::new(NopErrorHandler))
            .build_unchecked(self.opener.clone())
    }
}

impl Drop for Exclusive {
    fn drop(&mut self) {
        if !self.process.is_current() {
            // Its end would notify threads that the child does not have, under a mutex that may
            // stay locked.
            std::mem::forget(self.pool.take());
        }
    }
}

impl ManageConnection for Opener {
    type Connection = Arc<Link>;
    type Error = RedisError;

    fn connect(&self) -> RedisResult<Arc<Link>> {
        let opened = self.node.open(self.node.login.limits.connect_timeout);
        opened.inspect_err(|error| {
            self.known.lock().failed = Some((Moment::now(), error.clone()));
        })
    }

    /// Checks without a request, which `r2d2` would not limit in time: the connection is not known
    /// to be of no use, and the server has not closed it.
    fn is_valid(&self, link: &mut Arc<Link>) -> RedisResult<()> {
        let is_old = link.opened_at <= self.known.lock().retired_at;
        let timeout = self.node.login.limits.command_timeout;
        if is_old || !link.is_trusted(Moment::now(), timeout) || link.has_arrived() {
            return Err((ErrorKind::Io, "an idle connection is of no use").into());
        }
        Ok(())
    }

    /// True if a request on it has no reply.
    fn has_broken(&self, link: &mut Arc<Link>) -> bool {
        !link.is_usable() || link.load() > 0
    }
}
