//! What the library uses of `r2d2`, on the threads of the simulation.

use std::error::Error as StdError;
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Weak};
use std::time::Duration;

use leasehold_simulation_world::{tasks, time};
use parking_lot::{Condvar, Mutex};
use scheduled_thread_pool::ScheduledThreadPool;

/// The first pause before another attempt to open a connection, as in `r2d2`.
const FIRST_PAUSE: Duration = Duration::from_millis(200);

/// Opens and checks connections.
pub trait ManageConnection: Send + Sync + 'static {
    /// What is pooled.
    type Connection: Send + 'static;
    /// Why a connection could not be opened.
    type Error: StdError + 'static;

    /// Opens a connection.
    ///
    /// # Errors
    ///
    /// If that fails.
    fn connect(&self) -> Result<Self::Connection, Self::Error>;

    /// Checks a connection before it is used.
    ///
    /// # Errors
    ///
    /// If it is of no use.
    fn is_valid(&self, connection: &mut Self::Connection) -> Result<(), Self::Error>;

    /// True if a connection that was used is of no use.
    fn has_broken(&self, connection: &mut Self::Connection) -> bool;
}

/// Ignores errors.
#[derive(Clone, Copy, Debug)]
pub struct NopErrorHandler;

/// No connection was available in time.
#[derive(Debug)]
pub struct Error(());

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("timed out waiting for connection")
    }
}

impl StdError for Error {}

/// A pool. Clones share it.
pub struct Pool<M: ManageConnection>(Arc<Shared<M>>);

struct Shared<M: ManageConnection> {
    manager: M,
    most: u32,
    timeout: Duration,
    state: Mutex<State<M::Connection>>,
    returned: Condvar,
}

struct State<C> {
    idle: Vec<C>,
    /// Connections that exist, and those that are being opened.
    count: u32,
}

/// A connection that returns to its pool when this is dropped.
pub struct PooledConnection<M: ManageConnection> {
    pool: Pool<M>,
    /// Present until it returns.
    connection: Option<M::Connection>,
}

/// Builds a [`Pool`].
pub struct Builder<M> {
    most: u32,
    timeout: Duration,
    manager: PhantomData<M>,
}

impl<M: ManageConnection> Pool<M> {
    /// A builder.
    #[must_use]
    pub fn builder() -> Builder<M> {
        Builder {
            most: 10,
            timeout: Duration::from_secs(30),
            manager: PhantomData,
        }
    }

    /// A connection that is idle, or becomes so within this time.
    ///
    /// # Errors
    ///
    /// If there is none.
    pub fn get_timeout(&self, timeout: Duration) -> Result<PooledConnection<M>, Error> {
        let end = time::after(timeout);
        loop {
            if let Some(connection) = self.try_get() {
                return Ok(connection);
            }
            self.open_another();
            let mut state = self.0.state.lock();
            if state.idle.is_empty() {
                let left = end.saturating_sub(time::now());
                if left == 0 {
                    return Err(Error(()));
                }
                let left = Duration::from_nanos(left);
                let _ = self.0.returned.wait_for(&mut state, left);
            }
        }
    }

    /// A connection that is idle.
    #[must_use]
    pub fn try_get(&self) -> Option<PooledConnection<M>> {
        loop {
            let mut connection = self.0.state.lock().idle.pop()?;
            if self.0.manager.is_valid(&mut connection).is_ok() {
                let pool = Self(Arc::clone(&self.0));
                let connection = Some(connection);
                return Some(PooledConnection { pool, connection });
            }
            self.0.state.lock().count -= 1;
        }
    }

    /// Opens a connection in the background if there may be more.
    fn open_another(&self) {
        {
            let mut state = self.0.state.lock();
            if state.count >= self.0.most {
                return;
            }
            state.count += 1;
        }
        let shared = Arc::downgrade(&self.0);
        tasks::spawn(move || open(&shared));
    }
}

/// Opens a connection for the pool, as often as it takes while the pool exists.
fn open<M: ManageConnection>(pool: &Weak<Shared<M>>) {
    let mut pause = FIRST_PAUSE;
    while let Some(shared) = pool.upgrade() {
        if let Ok(connection) = shared.manager.connect() {
            shared.state.lock().idle.push(connection);
            shared.returned.notify_one();
            return;
        }
        let until = time::after(pause);
        pause = (pause * 2).min(shared.timeout / 2);
        drop(shared);
        tasks::sleep_until(until);
    }
}

impl<M: ManageConnection> fmt::Debug for Pool<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool").finish_non_exhaustive()
    }
}

impl<M: ManageConnection> fmt::Debug for PooledConnection<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PooledConnection").finish_non_exhaustive()
    }
}

impl<M: ManageConnection> Deref for PooledConnection<M> {
    type Target = M::Connection;

    fn deref(&self) -> &M::Connection {
        self.connection.as_ref().expect("it is not dropped")
    }
}

impl<M: ManageConnection> DerefMut for PooledConnection<M> {
    fn deref_mut(&mut self) -> &mut M::Connection {
        self.connection.as_mut().expect("it is not dropped")
    }
}

impl<M: ManageConnection> Drop for PooledConnection<M> {
    fn drop(&mut self) {
        let shared = &self.pool.0;
        let Some(mut connection) = self.connection.take() else {
            return;
        };
        let has_broken = shared.manager.has_broken(&mut connection);
        let mut state = shared.state.lock();
        if has_broken {
            state.count -= 1;
        } else {
            state.idle.push(connection);
        }
        drop(state);
        shared.returned.notify_one();
    }
}

impl<M> fmt::Debug for Builder<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder").finish_non_exhaustive()
    }
}

impl<M: ManageConnection> Builder<M> {
    /// Ignored: each opening has a thread of its own.
    #[must_use]
    pub fn thread_pool(self, _: Arc<ScheduledThreadPool>) -> Self {
        self
    }

    /// The most connections.
    #[must_use]
    pub fn max_size(mut self, most: u32) -> Self {
        self.most = most;
        self
    }

    /// Ignored: connections are opened when they are needed.
    #[must_use]
    pub fn min_idle(self, _: Option<u32>) -> Self {
        self
    }

    /// Bounds the pauses between attempts to open a connection: half of it.
    #[must_use]
    pub fn connection_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Ignored: errors are not reported.
    #[must_use]
    pub fn error_handler(self, _: Box<NopErrorHandler>) -> Self {
        self
    }

    /// A pool without connections.
    #[must_use]
    pub fn build_unchecked(self, manager: M) -> Pool<M> {
        Pool(Arc::new(Shared {
            manager,
            most: self.most,
            timeout: self.timeout,
            state: Mutex::new(State {
                idle: Vec::new(),
                count: 0,
            }),
            returned: Condvar::new(),
        }))
    }
}
