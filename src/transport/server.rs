//! A server that locks are on: its address, and the callers' connections to it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use redis::{ConnectionAddr, RedisError};

use crate::transport::node::{Entry, Node};
use crate::transport::pool::{Pool, Pools};
use crate::transport::retry_action::RetryAction;

#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) node: Node,
    pub(crate) pool: Pool,
    /// Whether another server may have its locks by now: one of the constants below.
    doubt: AtomicU8,
    /// The last that was asked of it got no answer.
    silent: AtomicBool,
}

const TRUSTED: u8 = 0;
/// A connection could not be opened. Those that are open may be as good as before.
const UNREACHED: u8 = 1;
/// An established connection broke, or a reply said why it is of no use.
const BROKEN: u8 = 2;

impl Server {
    pub(crate) fn name(&self) -> &Arc<str> {
        self.node.name()
    }

    pub(crate) fn is_doubted(&self) -> bool {
        self.doubt.load(Ordering::Acquire) != TRUSTED
    }

    /// True unless an established connection broke or a reply showed that none is of use.
    pub(crate) fn may_be_used(&self) -> bool {
        self.doubt.load(Ordering::Acquire) != BROKEN
    }

    /// Whether it is better asked after the others.
    pub(crate) fn is_silent(&self) -> bool {
        self.silent.load(Ordering::Relaxed)
    }

    pub(crate) fn answered(&self) {
        if self.is_silent() {
            self.silent.store(false, Ordering::Relaxed);
        }
    }

    /// Whoever was asked where the locks are says that they are here.
    pub(crate) fn trust(&self) {
        self.doubt.store(TRUSTED, Ordering::Release);
    }

    /// Takes note of a failure on a connection. It is `established` if a reply has come on it.
    ///
    /// The pool's connections are dropped if an established one broke, or if the reply says why
    /// none is of use (READONLY, NOAUTH, WRONGPASS). A connection that could not be opened says
    /// nothing of those that are open: the system may have no file descriptor left, and the server
    /// may accept no more clients.
    pub(crate) fn failed(&self, error: &RedisError, established: bool) {
        let action = RetryAction::on(error);
        let is_about_all = established || RetryAction::is_reply(error);
        if is_about_all && action.condemns_all() && !error.is_timeout() {
            self.pool.distrust();
        }
        self.silent
            .store(!RetryAction::is_reply(error), Ordering::Relaxed);
        if action.doubts_server(error) {
            let doubt = if is_about_all { BROKEN } else { UNREACHED };
            self.doubt.fetch_max(doubt, Ordering::AcqRel);
        }
    }
}

/// What servers of one deployment are made of.
#[derive(Debug)]
pub(crate) struct Servers {
    pub(crate) entry: Arc<Entry>,
    pub(crate) pools: Pools,
}

impl Servers {
    pub(crate) fn server(&self, address: ConnectionAddr) -> Arc<Server> {
        Arc::new(Server {
            node: Node::new(address, Arc::clone(&self.entry)),
            pool: self.pools.pool(),
            doubt: AtomicU8::new(TRUSTED),
            silent: AtomicBool::new(false),
        })
    }
}
