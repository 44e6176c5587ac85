//! The links to one server: a few that all callers share, or one of the watchdog.
//!
//! A caller takes an idle link and has it for itself. If all are busy, and there may be more, it
//! opens another one. Otherwise it shares the one with the fewest requests. So a few threads do not
//! wait for each other, and many threads need a few connections.
//!
//! A link is retired for want of trust only when another one has been opened. So a server that
//! accepts no further connection, or no longer the password, is used through those that are open:
//!
//! | links | a link cannot be opened |
//! |---|---|
//! | one is trusted | it is shared, also by the watchdog; the next attempt is half a second later |
//! | all are doubted | each gets a PING; the first that replies is used |
//! | none | the call fails with the error, and so do those that waited for the attempt |
//!
//! A thread that could share a link spends little time on opening another one, and looks up no name
//! of a host.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use redis::{RedisError, RedisResult};

use crate::base::{List, Moment};
use crate::observe::tell;
use crate::transport::link::{Link, Sent};
use crate::transport::node::{Limits, Node};

/// How long after a failure no link is opened if one can be shared.
const PAUSE: Duration = Duration::from_millis(500);

/// Whose link is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    Caller,
    /// Callers cannot delay renewals.
    Watchdog,
}

#[derive(Debug)]
pub(crate) struct Links {
    limits: Limits,
    whose: Purpose,
    /// Its mutex protects: two callers do not take the same idle link.
    state: Mutex<LinksState>,
    /// Locked by the thread that opens a link, so that there are never more than the limit.
    opening: Mutex<()>,
}

#[derive(Debug, Default)]
struct LinksState {
    links: Vec<Arc<Link>>,
    /// When the last attempt to open a link failed, and why. `None` after a success.
    failed: Option<(Moment, RedisError)>,
}

impl LinksState {
    /// Why a link could not be opened since this moment.
    fn failed_since(&self, since: Moment) -> Option<&RedisError> {
        let (at, error) = self.failed.as_ref()?;
        (*at >= since).then_some(error)
    }
}

impl Links {
    pub(crate) fn new(limits: Limits, whose: Purpose) -> Self {
        Self {
            limits,
            whose,
            state: Mutex::default(),
            opening: Mutex::default(),
        }
    }

    fn most(&self) -> usize {
        match self.whose {
            Purpose::Caller => self.limits.connections,
            Purpose::Watchdog => 1,
        }
    }

    /// Whether requests may be sent on the link without a test. The watchdog does not wait any
    /// longer for a request on its own link that has no reply.
    fn is_trusted(&self, link: &Link, now: Moment) -> bool {
        if self.whose == Purpose::Watchdog && link.load() > 0 {
            link.doubt();
        }
        link.is_trusted(now, self.limits.command_timeout)
    }

    /// The link to use, without opening one: an idle one, or else the one with the fewest requests
    /// if no further one may be opened or if the caller `shares`.
    pub(crate) fn choose(&self, requests: usize, now: Moment, shares: bool) -> Option<Arc<Link>> {
        // Dropped when the mutex is unlocked, which closes their sockets.
        let mut ended: Vec<Arc<Link>> = Vec::new();
        let mut state = self.state.lock();
        ended.extend(state.links.extract_if(.., |link| !link.is_usable()));
        let mut doubted: Vec<&Arc<Link>> = Vec::new();
        let link = loop {
            let is_new = |link: &&Arc<Link>| !doubted.iter().any(|one| Arc::ptr_eq(one, link));
            let links = state.links.iter().filter(is_new);
            let link = links.min_by_key(|link| link.load())?;
            if self.is_trusted(link, now) {
                break link;
            }
            doubted.push(link);
        };
        let is_full = || state.links.len() - doubted.len() >= self.most();
        let may_open = || !is_full() && state.failed_since(now.before(PAUSE)).is_none();
        if link.load() > 0 && !shares && may_open() {
            return None;
        }
        link.choose(requests);
        Some(Arc::clone(link))
    }

    /// A link on which the caller sends `requests` requests `now`, without opening one. `None` if
    /// one has to be opened.
    pub(crate) fn open_link(&self, requests: usize, now: Moment) -> Option<Arc<Link>> {
        self.choose(requests, now, false)
    }

    /// A link on which the caller sends `requests` requests now. Opens one if necessary, within
    /// `time`. If that fails, one that is open is shared: of these, or of the `others`.
    pub(crate) fn link(
        &self,
        node: &Node,
        requests: usize,
        time: Duration,
        others: Option<&Self>,
    ) -> RedisResult<Arc<Link>> {
        let began = Moment::now();
        let until = began.after(time);
        let all: List<&Self> = [Some(self), others].into_iter().flatten().collect();
        // Late replies that no thread waits for, so that their links are idle again.
        let links = all.iter().flat_map(|links| links.open_links());
        links.for_each(|link| link.read_if_unread());
        // Also locked during the tests, for whose result other threads then wait.
        let opening = match self.opening.try_lock() {
            // Another thread opens one, which may take long. An open one is shared meanwhile.
            None => match self.choose(requests, Moment::now(), true) {
                Some(link) => return Ok(link),
                None => self.opening.try_lock_for(time),
            },
            opening => opening,
        };
        // Another thread may have opened one.
        if let Some(link) = self.choose(requests, Moment::now(), false) {
            return Ok(link);
        }
        let is_first = self.state.lock().failed.is_none();
        let is_shared = share(&all, 0).is_some();
        let opened = match &opening {
            Some(_) => {
                let longest = time_to_open(&all, node, is_shared, until);
                self.open(node, requests, (!is_shared).then_some(began), longest)
            }
            None => Err(io::Error::from(io::ErrorKind::TimedOut).into()),
        };
        // The server may accept no more clients, and serve the open links.
        let error = match opened {
            Ok(link) => return Ok(link),
            Err(error) => error,
        };
        let tests: Vec<Sent> = all.iter().flat_map(|links| links.test()).collect();
        let shared = share(&all, requests).or_else(|| tested(&all, &tests, requests, until));
        drop(opening);
        if is_first && is_shared {
            let (node, error) = (Arc::clone(node.name()), error.clone());
            tell(move || {
                tracing::warn!(%node, %error, "no further connection; open ones are shared");
            });
        }
        shared.ok_or(error)
    }

    /// Opens a link for `requests` requests within `longest`, which replaces those that are
    /// doubted. A caller that can share another one pauses after a failure. One that is `alone`
    /// since this moment has the error of the thread for which it waited.
    fn open(
        &self,
        node: &Node,
        requests: usize,
        alone: Option<Moment>,
        longest: Duration,
    ) -> RedisResult<Arc<Link>> {
        let began = Moment::now();
        let since = alone.unwrap_or(began.before(PAUSE));
        if let Some(error) = self.state.lock().failed_since(since)
            // A thread that has more time may connect.
            && (alone.is_none() || !error.is_timeout())
        {
            return Err(error.clone());
        }
        let opened = match alone {
            None => node.open_another(longest),
            Some(_) => node.open(longest),
        };
        let now = Moment::now();
        let mut ended: Vec<Arc<Link>> = Vec::new();
        let mut state = self.state.lock();
        state.failed = opened.as_ref().err().map(|error| (now, error.clone()));
        let link = opened?;
        // Before another thread can find it idle.
        link.choose(requests);
        let is_ended = |link: &mut Arc<Link>| !self.is_trusted(link, now);
        ended.extend(state.links.extract_if(.., is_ended));
        // Doubted links may be trusted again by now.
        let excess = (state.links.len() + 1).saturating_sub(self.most());
        ended.extend(state.links.drain(..excess));
        state.links.push(Arc::clone(&link));
        drop(state);
        ended.iter().for_each(|link| link.retire());
        Ok(link)
    }

    /// Sends a PING on each link that is doubted, except those that have not replied for a
    /// command timeout.
    fn test(&self) -> Vec<Sent> {
        let now = Moment::now();
        let timeout = self.limits.command_timeout;
        let is_late =
            |link: &Link| link.load() > 0 && now.since(link.unanswered_since()) >= timeout;
        let mut links = self.open_links();
        links.retain(|link| !self.is_trusted(link, now) && !is_late(link));
        links.iter().map(Link::test).collect()
    }

    pub(crate) fn open_links(&self) -> Vec<Arc<Link>> {
        self.state.lock().links.clone()
    }

    /// Whether a link is open, trusted or not.
    pub(crate) fn are_open(&self) -> bool {
        let state = self.state.lock();
        state.links.iter().any(|link| link.is_usable())
    }

    /// Uses no link that was opened before this moment for another request.
    pub(crate) fn retire_all(&self, before: Moment) {
        let is_old = |link: &mut Arc<Link>| link.opened_at <= before;
        let retired: Vec<Arc<Link>> = self.state.lock().links.extract_if(.., is_old).collect();
        retired.iter().for_each(|link| link.retire());
    }

    /// Tests or replaces each link on which nothing has arrived since this moment, before its next
    /// request.
    pub(crate) fn doubt_all(&self, since: Moment) {
        let links = self.open_links();
        let silent = links.iter().filter(|link| link.heard() <= since);
        silent.for_each(|link| link.doubt());
    }
}

/// A link that is open and trusted, on which the caller sends `requests` requests now.
fn share(all: &[&Links], requests: usize) -> Option<Arc<Link>> {
    let mut all = all.iter();
    all.find_map(|links| links.choose(requests, Moment::now(), true))
}

/// How long the attempt to open a link may take. A part of the time is left for the tests of open
/// links, or for the request on a link that is shared.
fn time_to_open(all: &[&Links], node: &Node, is_shared: bool, until: Moment) -> Duration {
    let part = until.left() / 2;
    if is_shared {
        node.briefly().min(part)
    } else if all.iter().any(|links| links.are_open()) {
        part
    } else {
        until.left()
    }
}

/// The first link whose test has a reply, or one that is trusted again meanwhile. The tests share
/// the time until this moment.
fn tested(all: &[&Links], tests: &[Sent], requests: usize, until: Moment) -> Option<Arc<Link>> {
    let untried = (1..=tests.len()).rev();
    tests.iter().zip(untried).find_map(|(test, untried)| {
        test.wait(Moment::now().after(until.share(untried)), Duration::MAX);
        let has_replied = test.pending.is_over() && test.link.is_usable();
        if !has_replied {
            return share(all, requests);
        }
        test.link.choose(requests);
        Some(Arc::clone(&test.link))
    })
}

#[cfg(test)]
mod tests;
