//! Threads that end their wait for a lock of which Redis knows who waits: the fair lock, and the
//! write lock.

use super::{await_places, places};
use crate::line;
use crate::support::prelude::*;

/// How much longer than its wait a call may take to tell Redis that it gives up.
const GRACE: Duration = Duration::from_millis(250);

fn is_interrupted<T>(result: &leasehold::Result<T>) -> bool {
    matches!(result, Err(Error::Interrupted { .. }))
}

fn has_writer(server: &Server) -> bool {
    !line::places(server, "lock").is_empty()
}

/// Some threads wait for this lock, and one interrupt ends all their waits.
fn interrupt_together(lock: &dyn Lock, is_known: impl Fn() -> bool) {
    let interrupt = Interrupt::new();
    thread::scope(|scope| {
        let wait = || lock.try_lock_interruptibly(SOON.get() * 2, Lease::RENEWED, &interrupt);
        let first = scope.spawn(wait);
        eventually("Redis to know", &is_known);
        let others = [(); 3].map(|()| scope.spawn(wait));
        thread::sleep(millis(10));
        interrupt.interrupt();
        for thread in others.into_iter().chain([first]) {
            assert!(is_interrupted(&thread.join().unwrap()));
        }
    });
    assert!(!is_known());
}

/// The next thread of the client leaves at the same moment, and has sent no request.
#[test]
fn threads_that_give_up_together_leave_no_place() {
    let server = Server::start();
    let (holder, other) = (client(&server.url()), client(&server.url()));
    let held = holder.fair_lock("fair").acquire().unwrap();
    let reading = holder.read_write_lock("lock").read().acquire().unwrap();
    let (fair, write) = (
        other.fair_lock("fair"),
        other.read_write_lock("lock").write(),
    );
    for _ in 0..20 {
        interrupt_together(&fair, || server.has("redisson_lock_queue:{fair}"));
        interrupt_together(&write, || has_writer(&server));
    }
    held.unlock().unwrap();
    reading.unlock().unwrap();
    eventually("no key", || server.size() == 0);
}

/// A late request that removes the place would remove that of a later wait.
#[test]
fn the_place_of_the_next_wait_is_not_removed() {
    let proxied = ProxiedServer::new();
    let client = proxied.builder(SLIP.get()).build().unwrap();
    let held = proxied.rival().fair_lock("lock").acquire().unwrap();
    let lock = client.fair_lock("lock");
    let is_over = Arc::new(AtomicBool::new(false));
    let passes = Arc::clone(&is_over);
    let mut is_first = true;
    proxied.proxy.on_request(move |request| {
        if !request.runs("fair_leave") || passes.load(Ordering::SeqCst) {
            return Fault::Pass;
        }
        match std::mem::replace(&mut is_first, false) {
            true => Fault::SwallowRequest,
            false => Fault::Delay(A_WHILE.get()),
        }
    });
    assert!(!lock.try_lock(A_WHILE.get(), Lease::RENEWED).unwrap());
    // It is still there, and the next wait uses it.
    await_places(&proxied.server, 1);
    let interrupt = Interrupt::new();
    thread::scope(|scope| {
        let wait = || lock.try_lock_interruptibly(SOON.get(), Lease::RENEWED, &interrupt);
        let waiting = scope.spawn(wait);
        throughout(A_WHILE.get() * 3, "the place", || {
            !waiting.is_finished() && places(&proxied.server).len() == 1
        });
        is_over.store(true, Ordering::SeqCst);
        interrupt.interrupt();
        assert!(is_interrupted(&waiting.join().unwrap()));
    });
    assert_eq!(places(&proxied.server), [""; 0]);
    held.unlock().unwrap();
}

/// Both kinds of locks, behind a proxy: an interrupted wait ends soon.
#[test]
fn an_interrupt_does_not_wait_for_a_server_that_hangs() {
    let proxied = ProxiedServer::new();
    let client = proxied.builder(SOON.get() / 2).build().unwrap();
    let rival = proxied.rival();
    let fair = rival.fair_lock("fair").acquire().unwrap();
    let reading = rival.read_write_lock("lock").read().acquire().unwrap();
    let locks: [Arc<dyn Lock>; 2] = [
        Arc::new(client.fair_lock("fair")),
        Arc::new(client.read_write_lock("lock").write()),
    ];
    for lock in locks {
        let interrupt = Interrupt::new();
        thread::scope(|scope| {
            let waiting = scope.spawn(|| lock.lock_interruptibly(Lease::RENEWED, &interrupt));
            throughout(A_WHILE.get(), "it waits", || !waiting.is_finished());
            proxied.proxy.on_request(|_| Fault::SwallowRequest);
            within(GRACE + SLIP.get(), "the end of the wait", || {
                interrupt.interrupt();
                assert!(is_interrupted(&waiting.join().unwrap()));
            });
            proxied.proxy.clear_rules();
        });
    }
    // Its place does not stay before readers.
    let other = proxied.rival().read_write_lock("lock").read();
    within(SOON.get() / 2, "the lock", || {
        pair(&other);
    });
    assert!(!has_writer(&proxied.server));
    fair.unlock().unwrap();
    reading.unlock().unwrap();
}

/// The last request had no reply within the time of the call, so none follows from this thread.
#[test]
fn a_wait_that_ends_without_a_reply_sends_nothing_more() {
    let proxied = ProxiedServer::new();
    let client = proxied.builder(A_WHILE.get()).build().unwrap();
    let rival = proxied.rival();
    let fair = rival.fair_lock("fair").acquire().unwrap();
    let lock = client.fair_lock("fair");
    let sent = Arc::new(AtomicUsize::new(0));
    thread::scope(|scope| {
        let waiting = scope.spawn(|| lock.try_lock(A_WHILE.get() * 4, Lease::RENEWED));
        throughout(A_WHILE.get(), "it waits", || !waiting.is_finished());
        let sent = Arc::clone(&sent);
        proxied.proxy.on_request(move |request| {
            if request.runs("fair_leave") {
                sent.fetch_add(1, Ordering::SeqCst);
            }
            Fault::SwallowRequest
        });
        let result = waiting.join().unwrap();
        assert_matches!(result, Err(Error::Unavailable { .. }));
    });
    assert_eq!(sent.load(Ordering::SeqCst), 0);
    fair.unlock().unwrap();
}

/// Its first request is executed and enters the line, but has no reply. Its client does not listen.
#[test]
fn the_place_of_a_writer_without_a_reply_keeps_no_reader_out() {
    let proxied = ProxiedServer::new();
    let client = proxied.builder(A_WHILE.get()).build().unwrap();
    let reading = proxied.rival().read_write_lock("lock").read();
    let reading = reading.acquire_with(long()).unwrap();
    let lock = client.read_write_lock("lock").write();
    proxied.proxy.on_request(|request| {
        if request.runs("read_write_acquire") {
            Fault::SwallowReply
        } else {
            Fault::Pass
        }
    });
    let result = lock.try_lock(A_WHILE.get(), Lease::RENEWED);
    assert_matches!(result, Err(Error::Unavailable { .. }));
    assert!(has_writer(&proxied.server));
    let other = proxied.rival().read_write_lock("lock").read();
    assert!(other.try_lock(Duration::ZERO, Lease::RENEWED).unwrap());
    assert!(!has_writer(&proxied.server));
    reading.unlock().unwrap();
}

/// Redis refuses the next request of a waiting thread, and still replies.
#[test]
fn a_wait_that_is_refused_leaves_the_queue() {
    let server = Server::start();
    let (holder, other) = (client(&server.url()), client(&server.url()));
    let held = holder.fair_lock("lock").acquire().unwrap();
    thread::scope(|scope| {
        let waiting = scope.spawn(|| other.fair_lock("lock").acquire().map(drop));
        await_places(&server, 1);
        // Both at once, so that the waiting thread does not find the lock free.
        let mut replaced = redis::pipe();
        let replaced = replaced.atomic().del("lock").hset("lock", "mode", "read");
        replaced.exec(&mut server.connection()).unwrap();
        let refused = within(SOON.get(), "the refusal", || waiting.join().unwrap());
        assert_matches!(refused, Err(Error::WrongType { .. }));
        assert_eq!(places(&server), [""; 0]);
    });
    assert!(held.unlock().is_err());
}
