//! A server that locks are on: its address, the connections to it, and its health.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use redis::{ConnectionAddr, RedisError, RedisResult};

use crate::base::Moment;
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
    pub(crate) blocking_connections: Exclusive,
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
            blocking_connections: Exclusive::new(Arc::clone(&node)),
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

    /// A link on which `requests` requests are sent now. Opens one if necessary, within `time`. If
    /// that fails, it is an open one. The watchdog then uses one of the callers.
    pub(crate) fn link(
        &self,
        purpose: Purpose,
        requests: usize,
        time: Duration,
    ) -> RedisResult<Arc<Link>> {
        let callers = (purpose == Purpose::Watchdog).then_some(&self.links);
        self.links(purpose)
            .link(&self.node, requests, time, callers)
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
    /// | failure | what it says of the other links |
    /// |---|---|
    /// | not established: it could not be opened, or its log-in was refused | nothing |
    /// | NOAUTH, WRONGPASS to a request | nothing: other links may still be logged in |
    /// | READONLY or the like to a request | none is of use: they are retired |
    /// | an established one broke | those without a reply since are replaced, or tested before use |
    ///
    /// The watchdog's link is used until it fails.
    ///
    /// What failed began at `since`. Of many threads that notice one failure, the first one retires
    /// the links; those that were opened meanwhile are kept.
    pub(crate) fn failed(&self, error: &RedisError, established: bool, since: Moment) {
        let action = RetryAction::on(error);
        let is_about_all = established && action != RetryAction::FailAndDrop;
        if is_about_all && action == RetryAction::Reconnect && !error.is_timeout() {
            if RetryAction::is_reply(error) {
                self.links.retire_all(since);
            } else {
                self.links.doubt_all(since);
            }
            self.blocking_connections.retire_all(since);
        }
        self.health.failed(error, is_about_all, since);
    }

    /// Whether requests may be sent to this server although a look-up failed: no established
    /// connection broke and no reply showed that none is of use, or a link is still open.
    pub(crate) fn may_be_used(&self) -> bool {
        self.health.may_be_used() || self.links.are_open() || self.watchdog_links.are_open()
    }
}

/// Reports an outage, once.
pub(crate) fn report(outage: Option<Duration>, node: &Arc<str>) {
    if let Some(silence) = outage {
        let node = Arc::clone(node);
        tell(move || tracing::warn!(%node, ?silence, "the server does not reply"));
    }
}
