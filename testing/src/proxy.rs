//! A proxy between clients and one Redis server that causes network faults.

mod ends;
mod link;
mod rules;

use std::convert::Infallible;
use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, bounded, unbounded};
use parking_lot::Mutex;

use ends::{ClientEnd, ServerEnd};
use link::Link;
use rules::ScriptNames;
pub use rules::{Fault, Gate, ProxiedRequest};

use crate::known_scripts::KnownScripts;

/// The longest wait for a connection to the server.
const CONNECT: Duration = Duration::from_secs(2);

type OnRequest = Box<dyn FnMut(&ProxiedRequest) -> Fault + Send>;
type OnMessage = Box<dyn FnMut(&[u8], &[u8]) -> bool + Send>;

/// A proxy between clients and one Redis server that causes network faults.
/// `leasehold::testing::FaultProxy` has its methods, and says more.
pub struct FaultProxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    /// Dropping it ends every wait.
    stop: Option<Sender<Infallible>>,
    acceptor: Option<JoinHandle<()>>,
}

struct Shared {
    upstream: Mutex<String>,
    on_request: Mutex<OnRequest>,
    on_message: Mutex<OnMessage>,
    scripts: ScriptNames,
    refuse: AtomicBool,
    requests: AtomicU64,
    connections: AtomicU64,
    links: Mutex<Links>,
    stop: Receiver<Infallible>,
}

/// The mutex ensures that a connection that is made while the proxy ends is closed, too.
#[derive(Default)]
struct Links {
    open: Vec<Weak<Link>>,
    threads: Vec<JoinHandle<()>>,
    over: bool,
}

impl FaultProxy {
    /// Starts a proxy that listens at this address, for clients of the server at `upstream`, which
    /// is `host:port`. These scripts have names.
    ///
    /// # Errors
    ///
    /// Those of the system, which refuses the address or a thread. It is no error if there is no
    /// such server: then the proxy closes the connections of its clients.
    pub fn listening(
        listen: SocketAddr,
        upstream: impl Into<String>,
        scripts: &KnownScripts,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind(listen)?;
        let address = listener.local_addr()?;
        let (stop, stopped) = bounded(0);
        let shared = Arc::new(Shared {
            upstream: Mutex::new(upstream.into()),
            on_request: Mutex::new(Box::new(|_| Fault::Pass)),
            on_message: Mutex::new(Box::new(|_, _| true)),
            scripts: ScriptNames::new(scripts),
            refuse: AtomicBool::new(false),
            requests: AtomicU64::new(0),
            connections: AtomicU64::new(0),
            links: Mutex::default(),
            stop: stopped,
        });
        let accepting = Arc::clone(&shared);
        Ok(Self {
            address,
            shared,
            stop: Some(stop),
            acceptor: Some(spawn("proxy", move || accepting.accept(&listener))?),
        })
    }

    /// The address of the proxy, as `host:port`.
    #[must_use]
    pub fn address(&self) -> String {
        self.address.to_string()
    }

    /// The URL of the proxy, without a password.
    #[must_use]
    pub fn url(&self) -> String {
        format!("redis://{}", self.address)
    }

    /// Connects new connections to another server, `host:port`, from now on.
    pub fn retarget(&self, upstream: impl Into<String>) {
        *self.shared.upstream.lock() = upstream.into();
    }

    /// Sets the fault of each request from now on. The rule is called once for each request, in the
    /// order of arrival on its connection, and for one request at a time. It is not called for
    /// `CLIENT SETNAME` and `CLIENT SETINFO`, which clients send with their first request. It must
    /// not call the proxy. If it panics, the connection is closed.
    pub fn on_request(&self, rule: impl FnMut(&ProxiedRequest) -> Fault + Send + 'static) {
        let before = std::mem::replace(&mut *self.shared.on_request.lock(), Box::new(rule));
        drop(before);
    }

    /// Decides from now on for each message (its channel, its payload) whether its subscriber gets
    /// it. The rule must not call the proxy.
    pub fn on_message(&self, rule: impl FnMut(&[u8], &[u8]) -> bool + Send + 'static) {
        let before = std::mem::replace(&mut *self.shared.on_message.lock(), Box::new(rule));
        drop(before);
    }

    /// Removes both rules: everything passes from now on. Requests at a gate stay there until the
    /// gate is opened.
    pub fn clear_rules(&self) {
        self.on_request(|_| Fault::Pass);
        self.on_message(|_, _| true);
    }

    /// Gives a script a name, by which [`ProxiedRequest::runs`] recognizes its calls. Those of
    /// leasehold have names.
    pub fn name_script(&self, name: &str, source: &str) {
        self.shared.scripts.add(name, source.as_bytes());
    }

    /// Closes every open connection to a client (FIN).
    pub fn cut_all(&self) {
        self.each(|link| link.client.cut());
    }

    /// Resets every open connection to a client (RST).
    pub fn reset_all(&self) {
        self.each(|link| link.client.reset());
    }

    /// Sets whether new connections are closed at once.
    pub fn refuse(&self, refuse: bool) {
        self.shared.refuse.store(refuse, Ordering::SeqCst);
    }

    /// The number of requests since the start, without `CLIENT SETNAME` and `CLIENT SETINFO`.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.shared.requests.load(Ordering::SeqCst)
    }

    /// The number of connections since the start.
    #[must_use]
    pub fn connections(&self) -> u64 {
        self.shared.connections.load(Ordering::SeqCst)
    }

    fn each(&self, work: impl Fn(&Link)) {
        let links: Vec<Arc<Link>> = {
            let links = self.shared.links.lock();
            links.open.iter().filter_map(Weak::upgrade).collect()
        };
        links.iter().for_each(|link| work(link));
    }
}

impl Drop for FaultProxy {
    fn drop(&mut self) {
        self.shared.links.lock().over = true;
        drop(self.stop.take());
        if let Some(acceptor) = self.acceptor.take() {
            // A new connection wakes the thread. One is enough, and many would fill its queue.
            let visit = || TcpStream::connect_timeout(&self.address, CONNECT);
            while !acceptor.is_finished() && visit().is_err() {
                thread::yield_now();
            }
            let _ = acceptor.join();
        }
        self.each(Link::cut);
        let next = || self.shared.links.lock().threads.pop();
        while let Some(thread) = next() {
            // A rule that panicked has already reported it.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn accept(self: &Arc<Self>, listener: &TcpListener) {
        loop {
            let accepted = listener.accept();
            if self.links.lock().over {
                return;
            }
            match accepted {
                Ok((client, _)) => {
                    let number = self.connections.fetch_add(1, Ordering::SeqCst) + 1;
                    if self.refuse.load(Ordering::SeqCst) {
                        continue;
                    }
                    let shared = Arc::clone(self);
                    // If there is no thread or no server for it, the connection is closed.
                    let thread = spawn("proxy-requests", move || {
                        let _ = shared.connect(number, client);
                    });
                    thread.map_or_else(drop, |thread| self.keep(thread));
                }
                // For example too many open files, which may be temporary.
                Err(_) => drop(self.stop.recv_timeout(Duration::from_millis(1))),
            }
        }
    }

    fn connect(self: &Arc<Self>, number: u64, client: TcpStream) -> io::Result<()> {
        let upstream = self.upstream.lock().clone();
        let address = upstream.to_socket_addrs()?.next();
        let address = address.ok_or(io::ErrorKind::AddrNotAvailable)?;
        let server = TcpStream::connect_timeout(&address, CONNECT)?;
        let (requests, replies) = (client.try_clone()?, server.try_clone()?);
        let link = Link::new(number, ClientEnd::new(client)?, ServerEnd::new(server)?);
        let link = Arc::new(link);
        let (deliveries, delivered) = unbounded();
        {
            let mut links = self.links.lock();
            if links.over {
                return Ok(());
            }
            links.open.retain(|link| link.strong_count() > 0);
            links.open.push(Arc::downgrade(&link));
        }
        let (shared, delivering) = (Arc::clone(self), Arc::clone(&link));
        self.keep(spawn("proxy-delivery", move || {
            delivering.deliver(&delivered, &shared.stop);
        })?);
        let (shared, replying) = (Arc::clone(self), Arc::clone(&link));
        self.keep(spawn("proxy-replies", move || {
            replying.read_replies(&shared, replies);
        })?);
        link.read_requests(self, requests, &deliveries);
        Ok(())
    }

    fn keep(&self, thread: JoinHandle<()>) {
        let mut links = self.links.lock();
        links.threads.retain(|thread| !thread.is_finished());
        links.threads.push(thread);
    }
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    thread::Builder::new().name(name.into()).spawn(work)
}

impl fmt::Debug for FaultProxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FaultProxy")
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}
