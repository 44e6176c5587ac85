//! Logs which clients wait in the queues of fair locks and in the lines of other locks.

use std::cell::RefCell;
use std::rc::Rc;
use std::thread;
use std::time::Duration;

use leasehold_simulation_world::processes;
use leasehold_simulation_world::tasks;

use crate::args::Args;
use crate::clock;
use crate::conductor::Conductor;
use crate::kind::Kind;
use crate::log::{CONDUCTOR, Event, Log};
use crate::redis_server::RedisServer;

/// The time between two looks at Redis.
const LOOKS: Duration = Duration::from_millis(2);

impl Conductor {
    /// Logs the queues of fair locks and the lines of others from now on.
    pub fn watch_queues(&self) {
        let (server, locks) = (self.deployment.handle(0), self.args().locks);
        let is_fair = self.args().kind == Some(Kind::Fair);
        tasks::spawn_in(processes::NONE, move || {
            let log = Log::of(CONDUCTOR);
            let mut waited = vec![false; locks as usize];
            loop {
                thread::sleep(LOOKS);
                for (lock, waited) in (0..locks).zip(&mut waited) {
                    let places = match is_fair {
                        true => {
                            let queue = format!("redisson_lock_queue:{{{}}}", Args::key(lock));
                            places(&server, "LRANGE", &queue)
                        }
                        false => places(&server, "ZRANGE", &Args::line_key(lock)),
                    };
                    // A client that may not subscribe has its turn as the others.
                    let clients: Vec<String> =
                        places.iter().filter_map(|one| client_of(one)).collect();
                    if *waited || !clients.is_empty() {
                        *waited = !clients.is_empty();
                        let from = clock::now();
                        let waiting = Event::Waiting {
                            lock,
                            from,
                            clients,
                        };
                        log.write(from, 0, waiting);
                    }
                }
            }
        });
    }

    /// The clients in the line of the first lock, in its order.
    pub fn line(&self) -> Vec<String> {
        let server = self.deployment.handle(0);
        let places = places(&server, "ZRANGE", &Args::line_key(0));
        places.iter().filter_map(|place| client_of(place)).collect()
    }

    /// From now on, logs the clients in the lines that get no message because they are not
    /// subscribed, or because their hosts have vanished.
    pub fn watch_subscriptions(&self) {
        let (servers, locks) = (self.deployment.handles(), self.args().locks);
        let vanished = Rc::clone(&self.vanished);
        tasks::spawn_in(processes::NONE, move || {
            let log = Log::of(CONDUCTOR);
            let mut known = vec![Vec::new(); locks as usize];
            loop {
                thread::sleep(LOOKS);
                for (lock, known) in (0..locks).zip(&mut known) {
                    let line = Args::line_key(lock);
                    let places = servers.iter().flat_map(|one| places(one, "ZRANGE", &line));
                    let silent = |place: String| {
                        let client = client_of(place.trim_start_matches(DEAF))?;
                        let is_silent =
                            place.starts_with(DEAF) || vanished.borrow().contains(&client);
                        is_silent.then_some(client)
                    };
                    let clients: Vec<String> = places.filter_map(silent).collect();
                    if *known != clients {
                        known.clone_from(&clients);
                        let not_subscribed = Event::NotSubscribed { lock, clients };
                        log.write(clock::now(), 0, not_subscribed);
                    }
                }
            }
        });
    }
}

/// The mark of a client in a line that gets no message: `lua/shared/line.lua`.
const DEAF: char = '~';

/// The elements of a queue or a line.
fn places(server: &RefCell<RedisServer>, command: &str, key: &str) -> Vec<String> {
    let reply = server.borrow_mut().query(&[command, key, "0", "-1"]);
    let lines = reply.lines().filter(|line| !line.starts_with(['*', '$']));
    lines.map(str::to_owned).collect()
}

/// The client that has a place in a queue or a line; `None` for other text.
fn client_of(place: &str) -> Option<String> {
    // What the line of a semaphore has besides places.
    if place.starts_with([' ', '!']) {
        return None;
    }
    match place.split_once("{leasehold:") {
        Some((_, client)) => client.strip_suffix('}').map(str::to_owned),
        // In the line of a cluster, the client is the last part.
        None if place.starts_with("redisson") => {
            place.rsplit_once(':').map(|(_, client)| client.to_owned())
        }
        None => place.split_once(':').map(|(client, _)| client.to_owned()),
    }
}
