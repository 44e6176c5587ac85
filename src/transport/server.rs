//! A server that locks are on: its address, the connections to it, and its health.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use redis::{ConnectionAddr, RedisError};

use crate::base::clock::Moment;
use crate::observe::tell;
use crate::transport::exclusive::Exclusive;
use crate::transport::health::Health;
use crate::transport::link::Link;
use crate::transport::links::{Links, Purpose};
use crate::transport::node::{Login, Node};
use crate::transport::retry_action::RetryAction;

#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) node: Arc<Node>,
    links: Links,
    watchdog_links: Links,
    /// Connections for one request at a time.
    pub(crate) exclusive: Exclusive,
    pub(crate) health: Health,
    /// It did not reply to the last request of the watchdog.
    pub(crate) is_unreached: AtomicBool,
}

impl Server {
    pub(crate) fn new(address: ConnectionAddr, login: &Arc<Login>) -> Arc<Self> {
        let node = Arc::new(Node::new(address, Arc::clone(login)));
        Arc::new(Self {
            links: Links::new(login.limits, Purpose::Caller),
            watchdog_links: Links::new(login.limits, Purpose::Watchdog),
            exclusive: Exclusive::new(Arc::clone(&node)),
            node,
            health: Health::default(),
            is_unreached: AtomicBool::new(false),
        })
    }

    pub(crate) fn name(&self) -> &Arc<str> {
        self.node.name()
    }

    pub(crate) fn links(&self, purpose: Purpose) -> &Links {
        match purpose {
            Purpose::Caller => &self.links,
            Purpose::Watchdog => &self.watchdog_links,
        }
    }

    /// The links of the callers and of the watchdog.
    pub(crate) fn open_links(&self) -> Vec<Arc<Link>> {
        [self.links.open_links(), self.watchdog_links.open_links()].concat()
    }

    /// Records a reply that arrived `at` this moment, and how long it took.
    pub(crate) fn replied(&self, at: Moment, took: Duration) {
        if let Some(outage) = self.health.replied(at, took) {
            let node = Arc::clone(self.name());
            tell(move || tracing::info!(%node, ?outage, "the server replies again"));
        }
    }

    /// Records that a request from `since` got no reply in its time, or could not be sent.
    pub(crate) fn unanswered(&self, since: Moment) {
        report(self.health.unanswered(since), self.name());
    }

    /// Records a failure on a connection. It is `established` if a reply has arrived on it.
    ///
    /// The links of the callers are retired if an established one broke, or if the reply
    /// says why none is of use (READONLY, NOAUTH, WRONGPASS). A connection that could not be
    /// opened says nothing of those that are open: the system may have no file descriptor left,
    /// and the server may accept no more clients. That of the watchdog is used until it fails: a
    /// server that has changed its password still serves it.
    ///
    /// What failed began at `since`. Of many threads that notice one failure, the first one retires
    /// the links; those that were opened meanwhile are kept.
    pub(crate) fn failed(&self, error: &RedisError, established: bool, since: Moment) {
        let is_about_all = established || RetryAction::is_reply(error);
        let action = RetryAction::on(error);
        if is_about_all && action.drops_all_connections() && !error.is_timeout() {
            self.links.retire_all(since);
            self.exclusive.retire_all(since);
        }
        self.health.failed(error, is_about_all, since);
    }
}

/// Reports an outage, once.
pub(crate) fn report(outage: Option<Duration>, node: &Arc<str>) {
    if let Some(silence) = outage {
        let node = Arc::clone(node);
        tell(move || tracing::warn!(%node, ?silence, "the server does not reply"));
    }
}
