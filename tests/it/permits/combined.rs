//! Requests that one thread sends for several, and permits that one thread hands over to another.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use leasehold::Interrupt;

use super::Kind;
use super::lost_replies::Proxied;
use crate::support::outcome::assert_error;
use crate::support::proxy::{Fault, Gate};
use crate::support::server::Server;
use crate::support::timing::{SOON, eventually, throughout, within};
use crate::support::{client, unique};

/// This many threads send a request of their own at the same time.
const ALONE: usize = 8;

/// A semaphore of a client that waits long for each reply.
fn patient(permits: i64) -> Proxied {
    let mut test = Proxied::of(Kind::Semaphore, permits);
    let builder = test.proxied.builder(SOON.get() * 2);
    test.steps = test.steps.at(&builder.build().unwrap());
    test
}

/// The permit of a thread that does not wait for it any longer is given back.
#[test]
fn a_thread_whose_permit_another_thread_requests_can_be_interrupted() {
    let test = patient(20);
    let semaphore = test.steps.semaphore();
    let [first, others, combined] = [(); 3].map(|()| Gate::new());
    let (gates, sent) = (
        [&first, &others, &combined].map(Gate::clone),
        AtomicUsize::new(0),
    );
    test.proxied.proxy.on_request(move |request| {
        if !request.runs("take_permits") {
            return Fault::Pass;
        }
        Fault::HoldBack(match sent.fetch_add(1, Ordering::SeqCst) {
            0 => gates[0].clone(),
            1..ALONE => gates[1].clone(),
            _ => gates[2].clone(),
        })
    });
    let interrupt = Interrupt::new();
    thread::scope(|scope| {
        let acquire = || scope.spawn(|| semaphore.acquire(1));
        let mut threads: Vec<_> = (0..ALONE).map(|_| acquire()).collect();
        let held = || first.held() + others.held();
        eventually("the requests of the first threads", || held() == ALONE);
        threads.push(acquire());
        let waits = || combined.held() == 0;
        throughout(SOON.get() / 50, "the next thread waits", waits);
        let last = scope.spawn(|| semaphore.acquire_interruptibly(1, &interrupt));
        throughout(SOON.get() / 50, "the last thread waits", waits);
        first.open();
        eventually("the request for both", || combined.held() == 1);
        interrupt.interrupt();
        within(SOON.get() / 10, "the interrupt", || {
            assert_error!(last.join().unwrap(), Interrupted);
        });
        others.open();
        combined.open();
        threads
            .into_iter()
            .for_each(|one| one.join().unwrap().unwrap());
    });
    test.assert_becomes(11, "the permits of all but one");
}

/// Only those that fit into the semaphore are added.
#[test]
fn releases_that_are_too_large_together_are_executed_one_by_one() {
    let test = patient(0);
    let half = 1 << 30;
    let gate = Gate::new();
    let (held, sent) = (gate.clone(), AtomicUsize::new(0));
    test.proxied.proxy.on_request(move |request| {
        let is_first = || sent.fetch_add(1, Ordering::SeqCst) < ALONE;
        match request.runs("add_permits") && is_first() {
            true => Fault::HoldBack(held.clone()),
            false => Fault::Pass,
        }
    });
    let semaphore = test.steps.semaphore();
    thread::scope(|scope| {
        let alone: Vec<_> = (0..ALONE)
            .map(|_| scope.spawn(|| semaphore.release(1)))
            .collect();
        eventually("the requests of the first threads", || gate.held() == ALONE);
        let large: Vec<_> = (0..3)
            .map(|_| scope.spawn(|| semaphore.release(half)))
            .collect();
        throughout(SOON.get() / 50, "the others wait", || test.left() == 0);
        gate.open();
        alone
            .into_iter()
            .for_each(|one| one.join().unwrap().unwrap());
        let results: Vec<_> = large.into_iter().map(|one| one.join().unwrap()).collect();
        let (added, refused): (Vec<_>, Vec<_>) = results.into_iter().partition(Result::is_ok);
        assert_eq!(added.len(), 1);
        refused.iter().for_each(|one| assert_error!(one, Config));
    });
    assert_eq!(test.left(), i64::from(half) + ALONE as i64);
}

/// Client A has many threads that take a permit and release it as fast as they can.
#[test]
fn many_threads_of_a_client_keep_no_thread_of_another_one_waiting() {
    const THREADS: usize = 16;
    let server = Server::start();
    let (ours, theirs) = (client(&server.url()), client(&server.url()));
    for permits in [4, 16] {
        let steps = Kind::Semaphore.of(&ours, &unique("fair"));
        steps.add(permits).unwrap();
        let semaphore = steps.semaphore();
        let all = permits.unsigned_abs();
        let other = theirs.semaphore(semaphore.name());
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    while !is_over.load(Ordering::Relaxed) {
                        semaphore.acquire(1).unwrap();
                        semaphore.release(1).unwrap();
                    }
                });
            }
            for wanted in [1, all].repeat(15) {
                let taken = other.try_acquire(wanted, SOON.get() / 20);
                is_over.store(!matches!(taken, Ok(true)), Ordering::Relaxed);
                assert!(taken.unwrap(), "{wanted} of {permits} permits");
                other.release(wanted).unwrap();
            }
            is_over.store(true, Ordering::Relaxed);
        });
        assert_eq!(semaphore.available().unwrap(), permits);
    }
}
