//! A proxy between clients and one Redis server that causes network faults.
//!
//! It parses requests and replies of the Redis protocol, so that a fault hits a chosen request, and
//! knows `lua/*.lua` by name. It needs no other module of these tests: `examples/fault_proxy.rs`
//! includes it, and any other program can.

#![allow(dead_code, reason = "each program that includes it uses a part")]
#![allow(unreachable_pub, reason = "a program may include it anywhere")]

mod ends;
mod frame;
mod link;
mod rules;

use std::convert::Infallible;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, bounded, unbounded};
use parking_lot::Mutex;

use ends::{ClientEnd, ServerEnd};
use link::Link;
use rules::Scripts;
#[allow(unused_imports, reason = "each program that includes it uses a part")]
pub use rules::{Fault, Gate, Request, library_scripts};

/// The longest wait for a connection to the server.
const CONNECT: Duration = Duration::from_secs(2);

type OnRequest = Box<dyn FnMut(&Request) -> Fault + Send>;
type OnMessage = Box<dyn FnMut(&[u8], &[u8]) -> bool + Send>;

/// A proxy between clients and one server. It and its connections end with the value.
pub struct Proxy {
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
    scripts: Scripts,
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

impl Proxy {
    /// Listens on a free loopback port for clients of the server at `host:port`.
    pub fn before(upstream: &str) -> Self {
        Self::listening((Ipv4Addr::LOCALHOST, 0).into(), upstream).expect("a loopback port")
    }

    pub fn listening(listen: SocketAddr, upstream: &str) -> io::Result<Self> {
        let listener = TcpListener::bind(listen)?;
        let address = listener.local_addr()?;
        let (stop, stopped) = bounded(0);
        let shared = Arc::new(Shared {
            upstream: Mutex::new(upstream.into()),
            on_request: Mutex::new(Box::new(|_| Fault::Pass)),
            on_message: Mutex::new(Box::new(|_, _| true)),
            scripts: Scripts::of(repository()),
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
            acceptor: Some(spawn("proxy", move || accepting.accept(&listener))),
        })
    }

    /// `host:port` of the proxy.
    pub fn address(&self) -> String {
        self.address.to_string()
    }

    pub fn url(&self) -> String {
        format!("redis://{}", self.address)
    }

    /// New connections go to another server from now on.
    pub fn retarget(&self, upstream: &str) {
        *self.shared.upstream.lock() = upstream.into();
    }

    /// Sets the fault of each request from now on. The rule is called once for each request, in the
    /// order of arrival on its connection, and for one request at a time.
    pub fn on_request(&self, rule: impl FnMut(&Request) -> Fault + Send + 'static) {
        let before = std::mem::replace(&mut *self.shared.on_request.lock(), Box::new(rule));
        drop(before);
    }

    /// Decides whether a message (its channel, its payload) is delivered to its subscriber.
    pub fn on_message(&self, rule: impl FnMut(&[u8], &[u8]) -> bool + Send + 'static) {
        let before = std::mem::replace(&mut *self.shared.on_message.lock(), Box::new(rule));
        drop(before);
    }

    /// Everything passes from now on. Requests at a gate stay there until the gate is opened.
    pub fn calm(&self) {
        self.on_request(|_| Fault::Pass);
        self.on_message(|_, _| true);
    }

    /// Adds a script by which requests are recognised, in addition to those of `lua/`.
    pub fn know(&self, script: &str, text: &str) {
        self.shared.scripts.add(script, text.as_bytes());
    }

    /// Sends FIN to the client on every open connection.
    pub fn cut_all(&self) {
        self.each(|link| link.client.cut());
    }

    /// Sends RST to the client on every open connection.
    pub fn reset_all(&self) {
        self.each(|link| link.client.reset());
    }

    /// Whether new connections are accepted and closed at once.
    pub fn refuse(&self, refuse: bool) {
        self.shared.refuse.store(refuse, Ordering::SeqCst);
    }

    /// The number of requests since the start.
    pub fn requests(&self) -> u64 {
        self.shared.requests.load(Ordering::SeqCst)
    }

    /// The number of connections since the start.
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

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.links.lock().over = true;
        drop(self.stop.take());
        if let Some(acceptor) = self.acceptor.take() {
            // A new connection wakes the thread. One is enough, and many would fill its queue.
            let visit = || TcpStream::connect_timeout(&self.address, CONNECT);
            while !acceptor.is_finished() && visit().is_err() {
                thread::sleep(Duration::from_millis(1));
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
                    self.keep(spawn("proxy-requests", move || {
                        // If the server cannot be reached, the connection is closed.
                        let _ = shared.connect(number, client);
                    }));
                }
                // For example too many open files, which may be temporary.
                Err(_) => thread::sleep(Duration::from_millis(1)),
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
        let (orders, ordered) = unbounded();
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
            delivering.deliver(&ordered, &shared.stop);
        }));
        let (shared, replying) = (Arc::clone(self), Arc::clone(&link));
        self.keep(spawn("proxy-replies", move || {
            replying.read_replies(&shared, replies);
        }));
        link.read_requests(self, requests, &orders);
        Ok(())
    }

    fn keep(&self, thread: JoinHandle<()>) {
        let mut links = self.links.lock();
        links.threads.retain(|thread| !thread.is_finished());
        links.threads.push(thread);
    }
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> JoinHandle<()> {
    let thread = thread::Builder::new().name(name.into());
    thread.spawn(work).expect("the system has threads left")
}

/// The root of the repository. Packages in several of its folders include this module.
pub fn repository() -> &'static Path {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut folders = package.ancestors();
    let root = folders.find(|folder| folder.join("lua/acquire.lua").is_file());
    root.expect("the package is in the repository")
}
