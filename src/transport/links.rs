//! The links to one server: a few that all callers share, or one of the watchdog.
//!
//! A caller takes an idle link and has it for itself. If all are busy, and there may be more, it
//! opens another one. Otherwise it shares the one with the fewest requests. So a few threads do not
//! wait for each other, and many threads need a few connections.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use redis::RedisResult;

use crate::base::clock::Moment;
use crate::base::wait::wait_until;
use crate::transport::link::Link;
use crate::transport::node::{Limits, Node};

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
    /// Its mutex protects: there are never more usable links than the limit, those that are being
    /// opened included; two callers do not take the same idle link.
    state: Mutex<State>,
    /// An opening has succeeded or failed.
    opened: Condvar,
}

#[derive(Debug, Default)]
struct State {
    links: Vec<Arc<Link>>,
    opening: usize,
}

impl Links {
    pub(crate) fn new(limits: Limits, whose: Purpose) -> Self {
        Self {
            limits,
            whose,
            state: Mutex::default(),
            opened: Condvar::new(),
        }
    }

    /// The link to use, without opening one: an idle one, or else the one with the fewest requests
    /// if no further one may be opened or if the caller `shares`. Those that are not usable become
    /// `ended`: the caller drops them, which closes their sockets, when it has unlocked the mutex.
    fn choose(
        &self,
        (state, ended): (&mut State, &mut Vec<Arc<Link>>),
        requests: usize,
        now: Moment,
        shares: bool,
    ) -> Option<Arc<Link>> {
        loop {
            ended.extend(state.links.extract_if(.., |link| !link.is_usable()));
            let link = state.links.iter().min_by_key(|link| link.load())?;
            // A request without a reply is one that the watchdog does not wait for any longer.
            let is_in_time = self.whose == Purpose::Caller || link.load() == 0;
            if !is_in_time || !link.is_of_use(now, self.limits.command_timeout) {
                link.retire();
                continue;
            }
            if link.load() > 0 && self.may_open(state) && !shares {
                return None;
            }
            link.choose(requests);
            return Some(Arc::clone(link));
        }
    }

    fn may_open(&self, state: &State) -> bool {
        let most = match self.whose {
            Purpose::Caller => self.limits.connections,
            Purpose::Watchdog => 1,
        };
        state.links.len() + state.opening < most
    }

    /// A link on which the caller sends `requests` requests `now`, without opening one. `None` if
    /// one has to be opened.
    pub(crate) fn open_link(&self, requests: usize, now: Moment) -> Option<Arc<Link>> {
        let mut ended = Vec::new();
        let mut state = self.state.lock();
        self.choose((&mut state, &mut ended), requests, now, false)
    }

    /// Reads late replies that no thread waits for, so that their links are idle again.
    fn read_late_replies(&self) {
        let links = self.state.lock().links.clone();
        links.iter().for_each(|link| link.read_if_unread());
    }

    /// A link on which the caller sends `requests` requests now. Opens one if necessary, within
    /// `time`. If that fails, a busy one is shared.
    pub(crate) fn link(
        &self,
        node: &Node,
        requests: usize,
        time: impl FnOnce() -> Duration,
    ) -> RedisResult<Arc<Link>> {
        let now = Moment::now();
        if let Some(link) = self.open_link(requests, now) {
            return Ok(link);
        }
        self.read_late_replies();
        let until = now.after(time());
        loop {
            let mut ended = Vec::new();
            let mut state = self.state.lock();
            let now = Moment::now();
            if let Some(link) = self.choose((&mut state, &mut ended), requests, now, false) {
                return Ok(link);
            }
            if self.may_open(&state) {
                state.opening += 1;
                drop((state, ended));
                return self.open(node, requests, until);
            }
            // Other callers are opening all links that there may be.
            let opening = state.opening;
            let has_changed = |state: &State| state.opening != opening || !state.links.is_empty();
            if !wait_until(&self.opened, &mut state, until, has_changed) {
                return Err(std::io::Error::from(std::io::ErrorKind::TimedOut).into());
            }
        }
    }

    fn open(&self, node: &Node, requests: usize, until: Moment) -> RedisResult<Arc<Link>> {
        let opened = node.open(until.left());
        let mut ended = Vec::new();
        let mut state = self.state.lock();
        state.opening -= 1;
        let link = match opened {
            Ok(new) => {
                new.choose(requests);
                state.links.push(Arc::clone(&new));
                Ok(new)
            }
            // The server may accept no more clients, and serve the open links.
            Err(error) => {
                let now = Moment::now();
                let shared = self.choose((&mut state, &mut ended), requests, now, true);
                shared.ok_or(error)
            }
        };
        drop(state);
        self.opened.notify_all();
        link
    }

    /// Uses no link that was opened before this moment for another request.
    pub(crate) fn retire_all(&self, before: Moment) {
        let mut state = self.state.lock();
        let is_old = |link: &mut Arc<Link>| link.opened_at() <= before;
        let retired: Vec<Arc<Link>> = state.links.extract_if(.., is_old).collect();
        drop(state);
        retired.iter().for_each(|link| link.retire());
    }
}
