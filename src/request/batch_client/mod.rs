//! Many requests at once: each is sent to the server that has its lock before the first reply is read.

mod receive;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use redis::{ErrorKind, RedisError, RedisResult, Value};

use crate::base::clock::Moment;
use crate::base::key::LockKey;
use crate::observe::Observer;
use crate::script::Call;
use crate::topology::{Redirect, RouteError, Topology};
use crate::transport::connection::{Connection, asking};
use crate::transport::server::Server;

/// How often one request is sent on, or anew by its source.
const ROUNDS: usize = 4;

/// One thread's own client, one to each server. A server that hangs costs the others no more than
/// what is left of the time, and that once: from then on it is asked last.
#[derive(Debug)]
pub(crate) struct BatchClient {
    topology: Arc<Topology>,
    observer: Arc<Observer>,
    lines: Vec<Line>,
}

#[derive(Debug)]
struct Line {
    server: Arc<Server>,
    connection: Option<Connection>,
    /// The last attempt to use it failed.
    cut_off: bool,
}

/// A reply, or why there is none; and before which moment it was asked for.
pub(crate) type Replied = (RedisResult<Value>, Moment);

/// A request that has no reply yet.
#[derive(Debug)]
struct Open {
    place: usize,
    by_source: bool,
    redirect: Option<Redirect>,
    /// How often it was answered with where or how to ask instead.
    rounds: usize,
}

/// Requests that went out to one server.
struct Sent {
    server: Arc<Server>,
    /// In the order in which they were sent; those that are answered are gone.
    requests: VecDeque<Open>,
    connection: RedisResult<Connection>,
    /// A reply had come on the connection when it broke.
    established: bool,
    /// The first of the two replies to the first request is there.
    acknowledged: bool,
    asked: Moment,
}

impl BatchClient {
    pub(crate) fn new(topology: Arc<Topology>, observer: Arc<Observer>) -> Self {
        Self {
            topology,
            observer,
            lines: Vec::new(),
        }
    }

    /// Asks everything, each about one lock, until all is answered or `until` is past.
    pub(crate) fn ask(&mut self, requests: &[(&LockKey, Call)], until: Moment) -> Vec<Replied> {
        self.ask_in_rounds(requests, false, until)
    }

    /// The same for what is rare: by its source, so that it never takes a second request.
    pub(crate) fn ask_by_source(
        &mut self,
        requests: &[(&LockKey, Call)],
        until: Moment,
    ) -> Vec<Replied> {
        self.ask_in_rounds(requests, true, until)
    }

    fn ask_in_rounds(
        &mut self,
        requests: &[(&LockKey, Call)],
        by_source: bool,
        until: Moment,
    ) -> Vec<Replied> {
        let mut replies: Vec<Replied> = Vec::with_capacity(requests.len());
        replies.resize_with(requests.len(), || (Err(unsettled()), Moment::NEVER));
        let mut open: Vec<Open> = (0..requests.len())
            .map(|place| Open {
                place,
                by_source,
                redirect: None,
                rounds: 0,
            })
            .collect();
        for _ in 0..ROUNDS {
            if open.is_empty() || until.is_past() {
                break;
            }
            let sent = self.send_all(requests, open, until, &mut replies);
            open = self.receive_all(requests, sent, until, &mut replies);
        }
        // Of servers that have no lock of ours any more.
        self.lines.retain(|line| {
            line.cut_off || line.connection.as_ref().is_some_and(Connection::is_fresh)
        });
        replies
    }

    /// Whether the server that has the lock, as far as is known, was not to be reached last.
    pub(crate) fn is_cut_off(&self, key: &LockKey) -> bool {
        let server = self.topology.known(key);
        server.is_none_or(|server| self.lines.iter().any(|l| l.cut_off && l.is_to(&server)))
    }

    /// Which locks can be asked about in one request: those of one number.
    pub(crate) fn batch(&self, key: &LockKey) -> u16 {
        self.topology.batch(key)
    }

    /// For messages.
    pub(crate) fn name(&self, key: &LockKey) -> Arc<str> {
        self.topology.name(key)
    }

    /// Sends everything, to servers that did not answer last time at the end.
    fn send_all(
        &mut self,
        requests: &[(&LockKey, Call)],
        open: Vec<Open>,
        until: Moment,
        replies: &mut [Replied],
    ) -> VecDeque<Sent> {
        let (known, unknown): (Vec<Open>, Vec<Open>) = open.into_iter().partition(|open| {
            open.redirect.is_some() || self.topology.known(requests[open.place].0).is_some()
        });
        let mut sent = self.send_groups(
            requests,
            grouped(known, |open| self.home(requests, open)),
            until,
        );
        // One look is news of all servers. A second one, after one in vain, would cost the others their time.
        let mut lost_copies: Option<RedisError> = None;
        let mut found = Vec::new();
        for open in unknown {
            let key = requests[open.place].0;
            if lost_copies.is_none() {
                lost_copies = self.topology.server(key, until.left()).err().map(not_found);
            }
            match &lost_copies {
                Some(error) => replies[open.place].0 = Err(error.clone()),
                None => found.push(open),
            }
        }
        sent.extend(self.send_groups(
            requests,
            grouped(found, |open| self.home(requests, open)),
            until,
        ));
        sent
    }

    /// Where a request goes.
    fn home(&self, requests: &[(&LockKey, Call)], open: &Open) -> Option<Arc<Server>> {
        match &open.redirect {
            Some(redirect) => Some(Arc::clone(&redirect.server)),
            None => self.topology.last_known(requests[open.place].0),
        }
    }

    fn send_groups(
        &mut self,
        requests: &[(&LockKey, Call)],
        mut groups: Vec<(Arc<Server>, VecDeque<Open>)>,
        until: Moment,
    ) -> VecDeque<Sent> {
        groups.sort_by_key(|(server, _)| server.is_silent());
        let count = groups.len();
        let mut sent = VecDeque::with_capacity(count);
        for (place, (server, group)) in groups.into_iter().enumerate() {
            // What one server may take is what it leaves to each of the others.
            let time = until.left() / u32::try_from(count - place).unwrap_or(u32::MAX);
            if time.is_zero() {
                // Nothing is to be learned of it in no time.
                continue;
            }
            sent.push_back(self.send(requests, server, group, time));
        }
        sent
    }

    fn send(
        &mut self,
        requests: &[(&LockKey, Call)],
        server: Arc<Server>,
        group: VecDeque<Open>,
        time: Duration,
    ) -> Sent {
        let kept = self.lines.iter_mut().find(|line| line.is_to(&server));
        let kept = kept.and_then(|line| line.connection.take());
        let connection = match kept.filter(Connection::is_fresh) {
            Some(connection) => Ok(connection),
            None => server.node.open(time),
        };
        let asked = Moment::now();
        let established = connection.as_ref().is_ok_and(Connection::is_established);
        let connection = connection.and_then(|mut connection| {
            let mut packed = Vec::new();
            for open in &group {
                let call = &requests[open.place].1;
                let request = if open.by_source {
                    call.by_source(connection.publish())
                } else {
                    call.by_hash(connection.publish())
                };
                packed.extend(if open.is_asking() {
                    asking(request)
                } else {
                    request
                });
            }
            connection.set_time_limit(time);
            connection.send(&packed)?;
            Ok(connection)
        });
        Sent {
            server,
            requests: group,
            connection,
            established,
            acknowledged: false,
            asked,
        }
    }

    /// Keeps a connection on which everything was answered.
    fn keep(&mut self, sent: Sent) {
        let Sent {
            server,
            connection,
            established,
            ..
        } = sent;
        let line = self.lines.iter().position(|line| line.is_to(&server));
        let line = line.unwrap_or_else(|| {
            self.lines.push(Line {
                server: Arc::clone(&server),
                connection: None,
                cut_off: false,
            });
            self.lines.len() - 1
        });
        let line = &mut self.lines[line];
        line.server = server;
        match connection {
            Ok(connection) => {
                line.server.answered();
                line.connection = Some(connection);
                if std::mem::take(&mut line.cut_off) {
                    self.observer.reconnected(line.server.name());
                }
            }
            Err(error) => {
                line.server.failed(&error, established);
                line.cut_off = true;
            }
        }
    }
}

impl Open {
    fn is_asking(&self) -> bool {
        self.redirect.as_ref().is_some_and(|to| to.asking)
    }
}

/// By the server that each goes to.
fn grouped(
    open: Vec<Open>,
    home: impl Fn(&Open) -> Option<Arc<Server>>,
) -> Vec<(Arc<Server>, VecDeque<Open>)> {
    let mut groups: Vec<(Arc<Server>, VecDeque<Open>)> = Vec::new();
    for open in open {
        let Some(server) = home(&open) else { continue };
        match groups.iter_mut().find(|(to, _)| to.name() == server.name()) {
            Some((_, group)) => group.push_back(open),
            None => groups.push((server, VecDeque::from([open]))),
        }
    }
    groups
}

impl Line {
    fn is_to(&self, server: &Server) -> bool {
        self.server.name() == server.name()
    }
}

fn not_found(route_error: RouteError) -> RedisError {
    (ErrorKind::Io, "no server to ask", route_error.to_string()).into()
}

fn unsettled() -> RedisError {
    (
        ErrorKind::Io,
        "the servers of the cluster refer to one another",
    )
        .into()
}
