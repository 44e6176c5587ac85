//! Watches the queues of the fair locks in Redis.

use std::sync::Weak;
use std::thread;
use std::time::Duration;

use redis::{Connection, RedisResult};

use crate::clock;
use crate::log::{Event, Log};

const INTERVAL: Duration = Duration::from_millis(2);

/// A paused server does not reply.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Logs who waits for each of the first `locks` locks, until the log is closed.
pub fn run(url: &str, locks: u32, log: &Weak<Log>) {
    let mut connection = None;
    let mut waited = vec![false; locks as usize];
    loop {
        thread::sleep(INTERVAL);
        let from = clock::now();
        let queues = queues(&mut connection, url, locks);
        let at = clock::now();
        let Some(log) = log.upgrade() else {
            return;
        };
        // The conductor kills connections, too.
        let Ok(queues) = queues else {
            connection = None;
            continue;
        };
        for ((lock, clients), waited) in (0..).zip(queues).zip(&mut waited) {
            if *waited || !clients.is_empty() {
                *waited = !clients.is_empty();
                let waiting = Event::Waiting {
                    lock,
                    from,
                    clients,
                };
                log.write(at, 0, waiting);
            }
        }
    }
}

/// The clients with a place in each queue.
fn queues(
    connection: &mut Option<Connection>,
    url: &str,
    locks: u32,
) -> RedisResult<Vec<Vec<String>>> {
    let connection = match connection {
        Some(connection) => connection,
        None => {
            let new = redis::Client::open(url)?.get_connection_with_timeout(TIMEOUT)?;
            new.set_read_timeout(Some(TIMEOUT))?;
            connection.insert(new)
        }
    };
    let mut requests = redis::pipe();
    for lock in 0..locks {
        let queue = format!("redisson_lock_queue:{{torture:{lock}}}");
        requests.cmd("LRANGE").arg(queue).arg(0).arg(-1);
    }
    let queues: Vec<Vec<String>> = requests.query(connection)?;
    let client = |place: String| place.split(':').next().unwrap_or_default().to_owned();
    let clients = |places: Vec<String>| places.into_iter().map(client).collect();
    Ok(queues.into_iter().map(clients).collect())
}
