//! Links that are busy, late or idle, while no further one can be opened.

use std::io::{Read, Write};
use std::iter;
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use redis::ConnectionAddr;

use super::*;
use crate::transport::node::Login;

const SOON: Duration = Duration::from_secs(10);

/// Links to a server that a test plays.
struct Tested {
    listener: TcpListener,
    node: Node,
    links: Links,
}

impl Tested {
    /// The name of the server's `host` is not looked up for the first link.
    fn new(host: &str) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let at = listener.local_addr().unwrap();
        let limits = Limits {
            connections: 8,
            ..Limits::within(SOON)
        };
        let login = Login::plain(limits);
        let address = ConnectionAddr::Tcp(host.into(), at.port());
        let node = Node::new(address, login).resolved_to(at);
        let links = Links::new(limits, Purpose::Caller);
        Self {
            listener,
            node,
            links,
        }
    }

    fn link(&self, time: Duration) -> RedisResult<Arc<Link>> {
        self.links.link(&self.node, 1, time, None)
    }

    /// Opens a link, beside those that are busy. Also returns its peer.
    fn open(&self) -> (Arc<Link>, TcpStream) {
        thread::scope(|scope| {
            let open = || self.links.open(&self.node, 0, None, SOON);
            let opened = scope.spawn(open);
            let peer = reply(self.listener.accept().unwrap().0);
            (opened.join().unwrap().unwrap(), peer)
        })
    }
}

/// Replies to a PING.
fn reply(mut stream: TcpStream) -> TcpStream {
    let read = stream.read(&mut [0; 1024]).unwrap();
    assert_eq!(read, b"*1\r\n$4\r\nPING\r\n".len());
    stream.write_all(b"+PONG\r\n").unwrap();
    stream
}

#[test]
fn a_connection_that_does_not_open_keeps_no_thread_from_a_busy_link() {
    let tested = Tested::new("127.0.0.1");
    let (opened, _peer) = tested.open();
    opened.choose(1);
    thread::scope(|scope| {
        let hanging = scope.spawn(|| tested.link(SOON));
        // It waits for the first reply.
        let (_unanswered, _) = tested.listener.accept().unwrap();
        let began = Moment::now();
        for link in [tested.link(SOON), hanging.join().unwrap()] {
            assert!(Arc::ptr_eq(&link.unwrap(), &opened));
        }
        assert!(Moment::now().since(began) < SOON / 2);
    });
    // The next attempt is later.
    assert!(tested.links.open_link(1, Moment::now()).is_some());
    let later = Moment::now().after(PAUSE);
    assert!(tested.links.open_link(1, later).is_none());
}

#[test]
fn threads_that_wait_for_an_attempt_have_its_error() {
    let began = Moment::now();
    let tested = Tested::new("127.0.0.1");
    thread::scope(|scope| {
        let refused = scope.spawn(|| tested.link(SOON));
        let (mut peer, _) = tested.listener.accept().unwrap();
        let full = b"-ERR max number of clients reached\r\n";
        peer.write_all(full).unwrap();
        assert!(refused.join().unwrap().is_err());
    });
    // Nothing accepts this one.
    let waited = tested.links.open(&tested.node, 1, Some(began), SOON);
    let error = waited.unwrap_err();
    assert_eq!(error.code(), Some("ERR"), "{error}");
    // A later one may succeed.
    thread::scope(|scope| {
        let later = scope.spawn(|| tested.link(SOON));
        let _peer = reply(tested.listener.accept().unwrap().0);
        assert!(later.join().unwrap().is_ok());
    });
}

#[test]
fn a_doubted_link_is_used_after_a_test_if_none_can_be_opened() {
    let tested = Tested::new("127.0.0.1");
    let (silent, _peer) = tested.open();
    silent.choose(1);
    let (good, peer) = tested.open();
    silent.give_back(1);
    tested.links.doubt_all(Moment::now());
    assert!(tested.links.open_link(1, Moment::now()).is_none());
    thread::scope(|scope| {
        scope.spawn(|| reply(peer));
        scope.spawn(|| drop(tested.listener.accept()));
        let link = tested.link(Duration::from_millis(400)).unwrap();
        assert!(Arc::ptr_eq(&link, &good));
    });
    assert!(tested.links.choose(1, Moment::now(), true).is_some());
}

#[test]
fn a_thread_waits_for_a_doubted_link_that_is_busy_if_none_can_be_opened() {
    let tested = Tested::new("127.0.0.1");
    let (link, mut peer) = tested.open();
    link.choose(1);
    link.send(1, Moment::now(), |out| out.commands(1, b"x\n"));
    tested.links.doubt_all(Moment::now());
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut received = Vec::new();
            while !received.ends_with(b"PING\r\n") {
                let mut room = [0; 64];
                let read = peer.read(&mut room).unwrap();
                received.extend_from_slice(&room[..read]);
            }
            peer.write_all(b":1\r\n+PONG\r\n").unwrap();
        });
        scope.spawn(|| drop(tested.listener.accept()));
        assert!(Arc::ptr_eq(&tested.link(SOON).unwrap(), &link));
    });
    // Of several threads that notice one failure, the later ones doubt no link that has replied.
    tested
        .links
        .doubt_all(link.heard().before(Duration::from_nanos(1)));
    assert!(tested.links.choose(1, Moment::now(), true).is_some());
}

#[test]
fn a_new_link_replaces_those_that_are_doubted() {
    let tested = Tested::new("127.0.0.1");
    let (old, _peer) = tested.open();
    tested.links.doubt_all(Moment::now());
    let (new, _peer) = tested.open();
    assert!(!old.is_usable() && new.is_usable());
}

#[test]
fn a_late_link_is_trusted_again_when_all_replies_have_arrived() {
    let tested = Tested::new("127.0.0.1");
    let (link, mut peer) = tested.open();
    link.choose(2);
    link.send(2, Moment::now(), |out| out.commands(2, b"x\ny\n"));
    let is_trusted = || link.is_trusted(Moment::now(), Duration::ZERO);
    assert!(!is_trusted(), "nothing has arrived");
    for (reply, is_last) in [(b":1\r\n", false), (b":2\r\n", true)] {
        peer.write_all(reply).unwrap();
        while link.load() > usize::from(!is_last) {
            link.read_if_unread();
        }
        assert_eq!(is_trusted(), is_last);
    }
}

#[test]
fn the_watchdog_gets_a_link_of_its_own_to_a_server_that_connects_slowly() {
    const SLOW: Duration = Duration::from_millis(250);
    // All connections are slow, or only the later ones.
    for first in [SLOW, Duration::ZERO] {
        let tested = Tested::new("127.0.0.1");
        let watchdog = Links::new(tested.links.limits, Purpose::Watchdog);
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                let mut open = Vec::new();
                for delay in iter::once(first).chain(iter::repeat(SLOW)) {
                    let (mut stream, _) = tested.listener.accept().unwrap();
                    if is_over.load(Ordering::Relaxed) {
                        break;
                    }
                    open.push(stream.try_clone().unwrap());
                    scope.spawn(move || {
                        let read = stream.read(&mut [0; 64]).unwrap();
                        thread::sleep(delay);
                        // The client may have closed the connection.
                        let _ = stream.write_all(b"+PONG\r\n");
                        read
                    });
                }
            });
            let shared = tested.link(SOON).unwrap();
            let is_known = tested.node.briefly() >= first * 4;
            let has_own = (0..7).any(|_| {
                // As after the pause.
                watchdog.state.lock().failed = None;
                let others = Some(&tested.links);
                let link = watchdog.link(&tested.node, 1, SOON, others).unwrap();
                !Arc::ptr_eq(&link, &shared)
            });
            is_over.store(true, Ordering::Relaxed);
            drop(TcpStream::connect(tested.listener.local_addr().unwrap()));
            assert!(is_known && has_own, "it shares the link of the callers");
        });
    }
}

#[test]
fn a_thread_that_can_share_a_link_looks_up_no_name() {
    // A look-up that fails without a request to a name server.
    let tested = Tested::new("a..b");
    let (first, _peer) = tested.open();
    first.choose(1);
    thread::scope(|scope| {
        let second = scope.spawn(|| tested.link(SOON).unwrap());
        let _peer = reply(tested.listener.accept().unwrap().0);
        assert!(!Arc::ptr_eq(&second.join().unwrap(), &first));
    });
    tested.links.retire_all(Moment::now());
    assert!(tested.link(SOON).is_err(), "without a link, it does");
}
