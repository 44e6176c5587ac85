//! The links to one server: a few that all callers share, or one of the watchdog.
//!
//! A caller takes an idle link and has it for itself. If all are busy, and there may be more, it
//! opens another one. Otherwise it shares the one with the fewest requests. So a few threads do not
//! wait for each other, and many threads need a few connections.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use redis::RedisResult;

use crate::base::clock::Moment;
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
    /// Its mutex protects: two callers do not take the same idle link.
    links: Mutex<Vec<Arc<Link>>>,
    /// Locked by the thread that opens a link, so that there are never more than the limit.
    opening: Mutex<()>,
}

impl Links {
    pub(crate) fn new(limits: Limits, whose: Purpose) -> Self {
        Self {
            limits,
            whose,
            links: Mutex::default(),
            opening: Mutex::new(()),
        }
    }

    /// The link to use, without opening one: an idle one, or else the one with the fewest requests
    /// if no further one may be opened or if the caller `shares`.
    pub(crate) fn choose(&self, requests: usize, now: Moment, shares: bool) -> Option<Arc<Link>> {
        // Dropped when the mutex is unlocked, which closes their sockets.
        let mut ended: Vec<Arc<Link>> = Vec::new();
        let mut links = self.links.lock();
        loop {
            ended.extend(links.extract_if(.., |link| !link.is_usable()));
            let link = links.iter().min_by_key(|link| link.load())?;
            // A request without a reply is one that the watchdog does not wait for any longer.
            let is_in_time = self.whose == Purpose::Caller || link.load() == 0;
            if !is_in_time || !link.is_of_use(now, self.limits.command_timeout) {
                link.retire();
                continue;
            }
            let most = match self.whose {
                Purpose::Caller => self.limits.connections,
                Purpose::Watchdog => 1,
            };
            if link.load() > 0 && links.len() < most && !shares {
                return None;
            }
            link.choose(requests);
            return Some(Arc::clone(link));
        }
    }

    /// A link on which the caller sends `requests` requests `now`, without opening one. `None` if
    /// one has to be opened.
    pub(crate) fn open_link(&self, requests: usize, now: Moment) -> Option<Arc<Link>> {
        self.choose(requests, now, false)
    }

    /// A link on which the caller sends `requests` requests now. Opens one if necessary, within
    /// `time`. If that fails, a busy one is shared.
    pub(crate) fn link(
        &self,
        node: &Node,
        requests: usize,
        time: Duration,
    ) -> RedisResult<Arc<Link>> {
        let until = Moment::now().after(time);
        // Late replies that no thread waits for, so that their links are idle again.
        self.open_links()
            .iter()
            .for_each(|link| link.read_if_unread());
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
        let opened = match opening {
            Some(_) => node.open(until.left()),
            None => Err(std::io::Error::from(std::io::ErrorKind::TimedOut).into()),
        };
        match opened {
            Ok(link) => {
                link.choose(requests);
                self.links.lock().push(Arc::clone(&link));
                Ok(link)
            }
            // The server may accept no more clients, and serve the open links.
            Err(error) => self.choose(requests, Moment::now(), true).ok_or(error),
        }
    }

    pub(crate) fn open_links(&self) -> Vec<Arc<Link>> {
        self.links.lock().clone()
    }

    /// Uses no link that was opened before this moment for another request.
    pub(crate) fn retire_all(&self, before: Moment) {
        let is_old = |link: &mut Arc<Link>| link.opened_at <= before;
        let retired: Vec<Arc<Link>> = self.links.lock().extract_if(.., is_old).collect();
        retired.iter().for_each(|link| link.retire());
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::thread;

    use redis::ConnectionAddr;

    use super::*;
    use crate::transport::credentials::Source;
    use crate::transport::node::Login;

    const SOON: Duration = Duration::from_secs(10);

    #[test]
    fn a_connection_that_does_not_open_keeps_no_thread_from_a_busy_link() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let limits = Limits {
            connections: 8,
            pool_size: 1,
            connect_timeout: SOON,
            command_timeout: SOON,
        };
        let login = Login::new((Source::Fixed(None), 0), None, limits, Some("name"), false);
        let address = ConnectionAddr::Tcp("127.0.0.1".into(), port);
        let node = Node::new(address, Arc::new(login));
        let links = Links::new(limits, Purpose::Caller);
        thread::scope(|scope| {
            let opened = scope.spawn(|| links.link(&node, 1, SOON));
            let (mut stream, _) = listener.accept().unwrap();
            assert!(stream.read(&mut [0; 1024]).unwrap() > 0);
            stream.write_all(b"+OK\r\n").unwrap();
            let opened = opened.join().unwrap().unwrap();
            let hanging = scope.spawn(|| links.link(&node, 1, SOON));
            // It waits for the reply to its name.
            let (unanswered, _) = listener.accept().unwrap();
            assert!(Arc::ptr_eq(&links.link(&node, 1, SOON).unwrap(), &opened));
            assert!(!hanging.is_finished());
            drop((listener, unanswered));
            assert!(Arc::ptr_eq(&hanging.join().unwrap().unwrap(), &opened));
        });
    }
}
