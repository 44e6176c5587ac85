//! The web service, and its handler that runs under a lock.

use std::{
    net::SocketAddr,
    sync::Arc,
    thread::{self, JoinHandle},
    time::Duration,
};

use leasehold::{Error, LockClient, current_lock, locked};
use tiny_http::{Request, Response, StatusCode};

use crate::{edits::Edits, support::Result};

const THREADS: usize = 4;
const STEPS: u32 = 20;

/// An error response: a status and a message.
pub struct Failure {
    pub status: u16,
    pub message: String,
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let status = match &error {
            Error::HeldByAnother { .. } => 409,
            // The handler has not run: the client may try again.
            error if error.is_transient() => 503,
            _ => 500,
        };
        Self {
            status,
            message: error.to_string(),
        }
    }
}

pub struct Settlements {
    edits: Edits,
    locks: LockClient,
    prefix: String,
    work: Duration,
}

impl Settlements {
    pub fn new(locks: LockClient, prefix: String, work: Duration) -> Arc<Self> {
        Arc::new(Self {
            edits: Edits::default(),
            locks,
            prefix,
            work,
        })
    }

    /// The slow handler. It does not wait for the lock, because that would occupy a thread of the
    /// service.
    #[locked(
        client = self.locks,
        prefix = self.prefix,
        key = "user:{user}",
        lease = "10s",
        wait = "0s"
    )]
    fn settle(&self, user: u32) -> std::result::Result<String, Failure> {
        for _step in 0..STEPS {
            // Checks the lock before each step, so that no step starts after the lock is lost.
            current_lock().check()?;
            thread::sleep(self.work / STEPS);
        }
        Ok(format!("the account of user {user} is settled"))
    }

    pub fn is_settling(&self, user: u32) -> Result<bool> {
        let name = format!("{}:user:{user}", self.prefix);
        Ok(self.locks.reentrant_lock(&name).is_locked()?)
    }

    fn handle(&self, path: &str) -> std::result::Result<String, Failure> {
        let action = path.strip_prefix('/').and_then(|path| path.split_once('/'));
        let action = action.and_then(|(action, user)| Some((action, user.parse().ok()?)));
        let lock = |user| {
            let name = format!("{}:user:{user}", self.prefix);
            self.locks.reentrant_lock(&name)
        };
        match action {
            Some(("settle", user)) => self.settle(user),
            Some(("edit", user)) => self.edits.begin(user, &lock(user)),
            Some(("add", user)) => self.edits.add(user),
            Some(("submit", user)) => self.edits.submit(user),
            _ => Err(Failure {
                status: 404,
                message: "the path is /settle/ and the number of a user".into(),
            }),
        }
    }

    fn respond(&self, request: Request) {
        let (status, text) = match self.handle(request.url()) {
            Ok(text) => (200, text),
            Err(failure) => (failure.status, failure.message),
        };
        let response = Response::from_string(text + "\n").with_status_code(StatusCode(status));
        // The client may have disconnected.
        let _ = request.respond(response);
    }
}

/// Dropping this value stops the service after the requests under way.
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
            .ok_or("the service has no IP address")?;
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
