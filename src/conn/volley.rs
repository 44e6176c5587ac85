//! Many requests at once: each is sent to the server that has its lock before the first reply is read.

use std::sync::Arc;

use redis::{ErrorKind, RedisError, RedisResult, Value};

use super::advice::Advice;
use super::server::Server;
use super::topology::{Nowhere, Redirect, Topology};
use super::wire::{Wire, asking};
use crate::clock::Moment;
use crate::key::LockKey;
use crate::observe::Observer;
use crate::script::Call;

/// How often one request is sent on, or anew by its source.
const ROUNDS: usize = 4;

/// One thread's own connections, one to each server. A server that hangs costs the others no more than
/// what is left of the time, and that once: from then on it is asked last.
#[derive(Debug)]
pub(crate) struct Volley {
    topology: Arc<Topology>,
    observer: Arc<Observer>,
    lines: Vec<Line>,
}

#[derive(Debug)]
struct Line {
    server: Arc<Server>,
    wire: Option<Wire>,
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
}

/// Requests that went out to one server.
struct Sent {
    server: Arc<Server>,
    requests: Vec<Open>,
    wire: RedisResult<Wire>,
    asked: Moment,
}

impl Volley {
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
            })
            .collect();
        for _ in 0..ROUNDS {
            if open.is_empty() {
                break;
            }
            let sent = self.send_all(requests, open, until, &mut replies);
            open = Vec::new();
            for sent in sent {
                open.extend(self.receive_all(requests, sent, until, &mut replies));
            }
        }
        // Of servers that have no lock of ours any more.
        self.lines
            .retain(|line| line.cut_off || line.wire.as_ref().is_some_and(Wire::is_fresh));
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

    /// Sends everything: first to servers that are known and were reached last, then to the others.
    fn send_all(
        &mut self,
        requests: &[(&LockKey, Call)],
        open: Vec<Open>,
        until: Moment,
        replies: &mut [Replied],
    ) -> Vec<Sent> {
        let (known, unknown): (Vec<Open>, Vec<Open>) = open.into_iter().partition(|open| {
            open.redirect.is_some() || self.topology.known(requests[open.place].0).is_some()
        });
        let mut sent = Vec::new();
        for open in [known, unknown] {
            let mut groups: Vec<(Arc<Server>, Vec<Open>)> = Vec::new();
            for open in open {
                let server = match &open.redirect {
                    Some(redirect) => Arc::clone(&redirect.server),
                    None => match self.topology.server(requests[open.place].0, until.left()) {
                        Ok(server) => server,
                        Err(nowhere) => {
                            replies[open.place].0 = Err(not_found(&nowhere));
                            continue;
                        }
                    },
                };
                match groups.iter_mut().find(|(to, _)| to.name() == server.name()) {
                    Some((_, group)) => group.push(open),
                    None => groups.push((server, vec![open])),
                }
            }
            groups.sort_by_key(|(server, _)| self.line(server).is_none_or(|line| line.cut_off));
            for (server, group) in groups {
                sent.push(self.send(requests, server, group, until));
            }
        }
        sent
    }

    fn send(
        &mut self,
        requests: &[(&LockKey, Call)],
        server: Arc<Server>,
        group: Vec<Open>,
        until: Moment,
    ) -> Sent {
        let kept = self.lines.iter_mut().find(|line| line.is_to(&server));
        let kept = kept.and_then(|line| line.wire.take());
        let wire = match kept.filter(Wire::is_fresh) {
            Some(wire) => Ok(wire),
            None => server.node.open(until.left()),
        };
        let asked = Moment::now();
        let wire = wire.and_then(|mut wire| {
            let mut packed = Vec::new();
            for open in &group {
                let call = &requests[open.place].1;
                let request = if open.by_source {
                    call.by_source(wire.publish())
                } else {
                    call.by_hash(wire.publish())
                };
                let is_asking = open.redirect.as_ref().is_some_and(|r| r.asking);
                packed.extend(if is_asking { asking(request) } else { request });
            }
            wire.give(until.left());
            wire.send(&packed)?;
            Ok(wire)
        });
        Sent {
            server,
            requests: group,
            wire,
            asked,
        }
    }

    /// Reads the replies of one server; what comes back is to be sent again.
    fn receive_all(
        &mut self,
        requests: &[(&LockKey, Call)],
        sent: Sent,
        until: Moment,
        replies: &mut [Replied],
    ) -> Vec<Open> {
        let Sent {
            server,
            requests: group,
            mut wire,
            asked,
        } = sent;
        let mut again = Vec::new();
        if let Ok(wire) = &mut wire {
            // What has arrived while others were read is read even when the time is over.
            wire.give(until.left());
        }
        for mut open in group {
            let place = open.place;
            let is_asking = open.redirect.as_ref().is_some_and(|r| r.asking);
            let reply = match &mut wire {
                Ok(wire) if is_asking => wire.receive().and_then(|_| wire.receive()),
                Ok(wire) => wire.receive(),
                // The replies after a broken one cannot be told apart any more.
                Err(error) => Err(error.clone()),
            };
            let error = match reply {
                Ok(reply) => {
                    replies[place] = (Ok(reply), asked);
                    continue;
                }
                Err(error) => error,
            };
            match Advice::on(&error) {
                Advice::SendSource => {
                    open.by_source = true;
                    again.push(open);
                }
                Advice::Redirect => {
                    if let Some(to) = self.topology.redirect(requests[place].0, &server, &error) {
                        open.redirect = Some(to);
                        again.push(open);
                    }
                }
                advice if !advice.keeps_connection() || is_asking => wire = Err(error.clone()),
                _ => {}
            }
            replies[place] = (Err(error), asked);
        }
        self.keep(server, wire);
        again
    }

    /// Keeps a connection on which everything was answered.
    fn keep(&mut self, server: Arc<Server>, wire: RedisResult<Wire>) {
        let line = self.lines.iter().position(|line| line.is_to(&server));
        let line = line.unwrap_or_else(|| {
            self.lines.push(Line {
                server: Arc::clone(&server),
                wire: None,
                cut_off: false,
            });
            self.lines.len() - 1
        });
        let line = &mut self.lines[line];
        line.server = server;
        match wire {
            Ok(wire) => {
                line.wire = Some(wire);
                if std::mem::take(&mut line.cut_off) {
                    self.observer.reconnected(line.server.name());
                }
            }
            Err(error) => {
                line.server.failed(&error);
                line.cut_off = true;
            }
        }
    }

    fn line(&self, server: &Server) -> Option<&Line> {
        self.lines.iter().find(|line| line.is_to(server))
    }
}

impl Line {
    fn is_to(&self, server: &Server) -> bool {
        self.server.name() == server.name()
    }
}

fn not_found(nowhere: &Nowhere) -> RedisError {
    (ErrorKind::Io, "no server to ask", nowhere.to_string()).into()
}

fn unsettled() -> RedisError {
    (
        ErrorKind::Io,
        "the servers of the cluster refer to one another",
    )
        .into()
}
