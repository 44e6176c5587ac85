//! Links whose peers reply late, in part, or not at all.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Sender, channel};
use std::thread::{self, JoinHandle, scope, spawn};

use redis::ConnectionAddr;

use super::*;
use crate::transport::socket::{Socket, resolve};

const SOON: Duration = Duration::from_secs(10);

/// What the peer does next.
enum Step {
    /// Reads this many requests of the form `x\n`.
    Read(usize),
    Write(&'static [u8]),
    Close,
}

struct Peer {
    link: Arc<Link>,
    steps: Sender<Step>,
    thread: JoinHandle<()>,
}

fn play(stream: &mut TcpStream, step: Step) -> bool {
    match step {
        Step::Read(requests) => stream.read_exact(&mut vec![0; 2 * requests]).is_ok(),
        Step::Write(bytes) => stream.write_all(bytes).is_ok(),
        Step::Close => false,
    }
}

impl Peer {
    fn new() -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let (steps, orders) = channel();
        let thread = spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            stream.set_nodelay(true).unwrap();
            for step in orders {
                if !play(&mut stream, step) {
                    return;
                }
            }
        });
        let address = ConnectionAddr::Tcp("127.0.0.1".into(), port);
        let resolved = resolve(&address).unwrap();
        let socket = Socket::connect(&address, &resolved, None, SOON).unwrap();
        let link = Arc::new(Link::new(socket, Publish::ToAll)).logged_in();
        Self {
            link,
            steps,
            thread,
        }
    }

    fn does(&self, steps: impl IntoIterator<Item = Step>) {
        let sent = steps.into_iter().try_for_each(|step| self.steps.send(step));
        sent.expect("the peer runs");
    }

    fn send(&self) -> Sent {
        self.link.choose(1);
        self.link
            .send(1, Moment::now(), |out| out.commands(1, b"x\n"))
    }

    fn finish(self) {
        let Self {
            link,
            steps,
            thread,
        } = self;
        drop((link, steps));
        thread.join().unwrap();
    }
}

fn soon() -> Moment {
    Moment::now().after(SOON)
}

fn at_once() -> Moment {
    Moment::now().after(Duration::from_millis(20))
}

/// The number in the reply.
#[track_caller]
fn reply(sent: &Sent) -> i64 {
    match sent.pending.outcomes().pop() {
        Some(Some(Outcome::Replied(Ok(Value::Int(number)), _))) => number,
        other => panic!("{other:?}"),
    }
}

#[test]
fn each_thread_gets_its_own_reply() {
    let peer = Peer::new();
    let sent: Vec<Sent> = (0..3).map(|_| peer.send()).collect();
    assert_eq!(peer.link.load(), 3);
    scope(|scope| {
        for (at, one) in (0..).zip(&sent) {
            scope.spawn(move || {
                one.wait(soon(), SOON);
                assert_eq!(reply(one), at);
            });
        }
        peer.does([
            Step::Read(3),
            Step::Write(b":0\r\n:"),
            Step::Write(b"1\r\n:2\r\n"),
        ]);
    });
    assert_eq!(peer.link.load(), 0);
    peer.finish();
}

#[test]
fn the_late_reply_to_an_abandoned_request_is_not_that_to_the_next() {
    let peer = Peer::new();
    let first = peer.send();
    first.wait(at_once(), SOON);
    assert!(first.pending.outcomes().pop().unwrap().is_none());
    let copy = first.copy(0);
    assert!(copy.outcome().is_none());
    let second = peer.send();
    peer.does([Step::Read(2), Step::Write(b":1\r\n:2\r\n")]);
    second.wait(soon(), SOON);
    assert_eq!(reply(&second), 2);
    let late = copy.outcome().expect("it has arrived");
    assert!(
        matches!(late, Outcome::Replied(Ok(Value::Int(1)), _)),
        "{late:?}"
    );
    peer.finish();
}

#[test]
fn a_late_reply_is_found_although_no_thread_reads() {
    let peer = Peer::new();
    let sent = peer.send();
    sent.wait(at_once(), SOON);
    let copy = sent.copy(0);
    drop(sent);
    peer.does([Step::Read(1), Step::Write(b":7\r\n")]);
    let end = soon();
    while copy.outcome().is_none() {
        assert!(!end.is_past());
        thread::yield_now();
    }
    peer.finish();
}

#[test]
fn a_thread_that_gives_up_lets_another_one_read() {
    let peer = Peer::new();
    let (impatient, patient) = (peer.send(), peer.send());
    scope(|scope| {
        let waiting = scope.spawn(move || {
            patient.wait(soon(), SOON);
            reply(&patient)
        });
        // It reads, because it was the first.
        impatient.wait(at_once(), SOON);
        assert!(impatient.pending.outcomes().pop().unwrap().is_none());
        peer.does([Step::Read(2), Step::Write(b":1\r\n:2\r\n")]);
        assert_eq!(waiting.join().unwrap(), 2);
    });
    peer.finish();
}

/// It may open a connection to another server first, or the subscriber thread has sent its request.
#[test]
fn a_thread_that_waits_later_keeps_no_other_thread() {
    let peer = Peer::new();
    let (first, other) = (peer.send(), peer.send());
    peer.does([Step::Read(2), Step::Write(b":1\r\n:2\r\n")]);
    other.wait(soon(), SOON);
    assert_eq!(reply(&other), 2);
    first.wait(soon(), SOON);
    assert_eq!(reply(&first), 1);
    peer.finish();
}

#[test]
fn the_time_before_the_first_request_does_not_count() {
    let peer = Peer::new();
    let timeout = Duration::from_millis(100);
    thread::sleep(timeout * 2);
    let since = Moment::now();
    let sent = peer.send();
    sent.wait(soon(), timeout);
    assert!(!sent.pending.is_over() && Moment::now().since(since) >= timeout);
    peer.finish();
}

#[test]
fn a_broken_link_leaves_no_thread_waiting() {
    let peer = Peer::new();
    let sent: Vec<Sent> = (0..3).map(|_| peer.send()).collect();
    // In the middle of the second reply.
    peer.does([Step::Read(3), Step::Write(b":0\r\n:"), Step::Close]);
    scope(|scope| {
        for (at, one) in sent.into_iter().enumerate() {
            scope.spawn(move || {
                one.wait(soon(), SOON);
                let outcome = one.pending.outcomes().pop().flatten();
                let is_broken = matches!(outcome, Some(Outcome::Broken(_)));
                assert_eq!(is_broken, at > 0, "{outcome:?}");
            });
        }
    });
    assert!(!peer.link.is_usable());
    assert_eq!(peer.link.load(), 0);
    let late = peer.send();
    late.wait(soon(), SOON);
    assert!(matches!(
        late.pending.outcomes().pop(),
        Some(Some(Outcome::Broken(_)))
    ));
    peer.finish();
}

#[test]
fn a_reply_without_a_request_ends_the_link() {
    let peer = Peer::new();
    let sent = peer.send();
    peer.does([Step::Read(1), Step::Write(b":1\r\n:2\r\n")]);
    sent.wait(soon(), SOON);
    let next = peer.send();
    next.wait(soon(), SOON);
    let outcome = next.pending.outcomes().pop().flatten();
    let is_wrong = matches!(outcome, Some(Outcome::Replied(..)));
    assert!(!is_wrong || !peer.link.is_usable(), "{outcome:?}");
    peer.finish();
}

/// A thread has chosen the link, and another one reads before it sends.
#[test]
fn a_refused_connection_breaks_as_a_closed_one() {
    let peer = Peer::new();
    peer.link.choose(1);
    let refusal = b"-ERR max number of clients reached\r\n";
    peer.does([Step::Write(refusal), Step::Close]);
    let end = soon();
    while peer.link.state.lock().end.is_none() {
        assert!(!end.is_past());
        peer.link.read_if_unread();
    }
    match peer.send().pending.outcomes().pop().flatten() {
        Some(Outcome::Broken(error)) => assert!(error.is_connection_dropped(), "{error:?}"),
        other => panic!("{other:?}"),
    }
    peer.finish();
}

#[test]
fn a_refusal_of_the_connection_does_not_establish_it() {
    let peer = Peer::new();
    let sent = peer.send();
    let refusal = b"-ERR max number of clients reached\r\n";
    peer.does([Step::Read(1), Step::Write(refusal)]);
    sent.wait(soon(), SOON);
    assert!(sent.pending.is_over() && !peer.link.is_established());
    peer.finish();
}

#[test]
fn a_request_that_is_executed_although_asking_was_refused_has_its_reply() {
    let peer = Peer::new();
    peer.link.choose(1);
    let pack = |out: &mut Outgoing<'_>| {
        out.asking();
        out.commands(1, b"x\n");
    };
    let sent = peer.link.send(1, Moment::now(), pack);
    peer.does([Step::Write(b"-NOPERM asking\r\n"), Step::Write(b":1\r\n")]);
    sent.wait(soon(), SOON);
    assert_eq!(reply(&sent), 1);
    peer.finish();
}

#[test]
fn a_link_without_replies_ends_a_wait_and_progress_prolongs_it() {
    let peer = Peer::new();
    let first = peer.send();
    let second = peer.send();
    peer.does([Step::Read(2), Step::Write(b":1\r\n")]);
    first.wait(soon(), SOON);
    let heard = Moment::now();
    let timeout = Duration::from_millis(50);
    second.wait(soon(), timeout);
    assert!(!second.pending.is_over() && Moment::now().since(heard) < SOON / 2);
    assert!(Moment::now().since(second.link.unanswered_since()) >= timeout);
    drop(second);
    assert_eq!(reply(&first), 1);
    peer.finish();
}

#[test]
fn what_the_system_does_not_take_is_written_while_a_thread_waits() {
    const LENGTH: usize = 16 << 20;
    let peer = Peer::new();
    peer.link.choose(1);
    let long = vec![b'x'; LENGTH];
    let sent = peer
        .link
        .send(1, Moment::now(), |out| out.commands(1, &long));
    let short = peer.send();
    peer.does([
        Step::Read(LENGTH / 2),
        Step::Write(b":1\r\n"),
        Step::Read(1),
        Step::Write(b":2\r\n"),
    ]);
    scope(|scope| {
        scope.spawn(|| short.wait(soon(), SOON));
        sent.wait(soon(), SOON);
    });
    assert_eq!((reply(&sent), reply(&short)), (1, 2));
    peer.finish();
}

/// The threads that compute never sleep, and there are more than processors. So a yield takes long,
/// and no thread sends meanwhile.
#[test]
fn beside_threads_that_compute_a_thread_keeps_the_processor_while_it_may_write() {
    let peer = Peer::new();
    let is_over = AtomicBool::new(false);
    scope(|scope| {
        for _ in 0..2 * thread::available_parallelism().unwrap().get() {
            scope.spawn(|| while !is_over.load(Ordering::Relaxed) {});
        }
        let end = soon();
        let yields = || peer.link.state.lock().yields_from < Moment::now();
        while yields() && !end.is_past() {
            // Another thread was woken together with this one.
            peer.link.state.lock().woken = 2;
            drop(peer.send());
        }
        is_over.store(true, Ordering::Relaxed);
        assert!(!end.is_past());
    });
    peer.finish();
}

/// One of the links is read by another thread.
#[test]
fn a_wait_for_several_links_is_woken_by_the_thread_that_reads_one() {
    let (one, two) = (Peer::new(), Peer::new());
    let reader = one.send();
    let (first, second) = (one.send(), two.send());
    scope(|scope| {
        let reading = scope.spawn(move || {
            reader.wait(soon(), SOON);
            reply(&reader)
        });
        one.does([Step::Read(2), Step::Write(b":1\r\n:2\r\n")]);
        while !first.pending.is_over() {
            wait_for_any([&first, &second].into_iter(), soon()).unwrap();
        }
        assert_eq!(reading.join().unwrap(), 1);
    });
    two.does([Step::Read(1), Step::Write(b":3\r\n")]);
    while !second.pending.is_over() {
        wait_for_any([&first, &second].into_iter(), soon()).unwrap();
    }
    assert_eq!((reply(&first), reply(&second)), (2, 3));
    one.finish();
    two.finish();
}

/// Another thread of the links has read the replies after the last look of this one.
#[test]
fn a_wait_for_several_links_ends_at_once_if_replies_are_there_before_it() {
    let (one, two) = (Peer::new(), Peer::new());
    let (first, second) = (one.send(), two.send());
    for (ready, peer, reply) in [
        (&first, &one, &b":1\r\n"[..]),
        (&second, &two, &b":2\r\n"[..]),
    ] {
        peer.does([Step::Read(1), Step::Write(reply)]);
        ready.wait(soon(), SOON);
        let begun = Moment::now();
        wait_for_any([&first, &second].into_iter(), soon()).unwrap();
        assert!(Moment::now().since(begun) < SOON / 2);
    }
    assert_eq!((reply(&first), reply(&second)), (1, 2));
    one.finish();
    two.finish();
}
