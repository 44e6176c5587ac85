//! The web service: a few threads that take requests, and what they do under a lock.

use std::{
    net::SocketAddr,
    sync::Arc,
    thread::{self, JoinHandle},
    time::Duration,
};

use leasehold::{Error, LockClient, current_lock, locked};
use tiny_http::{Request, Response, StatusCode};

use crate::support::Result;

const THREADS: usize = 4;
const STEPS: u32 = 20;

/// Why a request is refused: a status, and a sentence for whoever asked.
pub struct Refusal {
    status: u16,
    why: String,
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        let status = match error {
            Error::HeldByAnother { .. } => 409,
            // Redis does not answer, or the lock was lost on the way: another attempt may do better.
            _ => 503,
        };
        Self {
            status,
            why: error.to_string(),
        }
    }
}

pub struct Settlements {
    locks: LockClient,
    business: String,
    work: Duration,
}

impl Settlements {
    pub fn new(locks: LockClient, business: String, work: Duration) -> Arc<Self> {
        Arc::new(Self {
            locks,
            business,
            work,
        })
    }

    /// The slow handler. Nobody waits for a lock in a thread that others wait for.
    #[locked(client = self.locks, prefix = self.business, key = "user:{user}", lease = "10s", wait = "0s")]
    fn settle(&self, user: u32) -> std::result::Result<String, Refusal> {
        for _step in 0..STEPS {
            // The work is done step by step, and none is begun without the lock.
            current_lock().check()?;
            thread::sleep(self.work / STEPS);
        }
        Ok(format!("the account of user {user} is settled"))
    }

    pub fn is_settling(&self, user: u32) -> Result<bool> {
        let name = format!("{}:user:{user}", self.business);
        Ok(self.locks.reentrant_lock(&name).is_locked()?)
    }

    fn answer(&self, path: &str) -> std::result::Result<String, Refusal> {
        let user = path
            .strip_prefix("/settle/")
            .and_then(|user| user.parse().ok());
        let user = user.ok_or_else(|| Refusal {
            status: 404,
            why: "ask for /settle/ and the number of a user".into(),
        })?;
        self.settle(user)
    }

    fn respond(&self, request: Request) {
        let (status, text) = match self.answer(request.url()) {
            Ok(text) => (200, text),
            Err(refusal) => (refusal.status, refusal.why),
        };
        let response = Response::from_string(text + "\n").with_status_code(StatusCode(status));
        // Whoever asked may have gone meanwhile.
        let _ = request.respond(response);
    }
}

/// Ends with this value, when the requests under way are answered.
pub struct Service {
    http: Arc<tiny_http::Server>,
    address: SocketAddr,
    threads: Vec<JoinHandle<()>>,
}

impl Service {
    pub fn start(settlements: Arc<Settlements>) -> Result<Self> {
        let http = Arc::new(tiny_http::Server::http("127.0.0.1:0")?);
        let address = http
            .server_addr()
            .to_ip()
            .ok_or("it listens on no address")?;
        let serve = || {
            let (http, settlements) = (Arc::clone(&http), Arc::clone(&settlements));
            thread::spawn(move || {
                for request in http.incoming_requests() {
                    settlements.respond(request);
                }
            })
        };
        let threads = (0..THREADS).map(|_| serve()).collect();
        Ok(Self {
            http,
            address,
            threads,
        })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        for _ in &self.threads {
            self.http.unblock();
        }
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}
