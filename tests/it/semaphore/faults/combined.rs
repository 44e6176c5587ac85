//! Requests that one thread sends for several.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use leasehold::{Error, Interrupt};

use super::Proxied;
use crate::support::proxy::{Fault, Gate};
use crate::support::timing::{SOON, eventually, throughout, within};

/// This many threads send a request of their own at the same time.
const ALONE: usize = 8;

/// The permit of a thread that does not wait for it any longer is given back.
#[test]
fn a_thread_whose_permit_another_thread_requests_can_be_interrupted() {
    let test = Proxied::with(20);
    let patient = test.proxied.builder(SOON.get() * 2).build().unwrap();
    let semaphore = patient.semaphore(test.semaphore.name());
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
            let result = last.join().unwrap();
            assert!(
                matches!(result, Err(Error::Interrupted { .. })),
                "{result:?}"
            );
        });
        others.open();
        combined.open();
        threads
            .into_iter()
            .for_each(|one| one.join().unwrap().unwrap());
    });
    eventually("the permits of all but one", || test.free() == 11);
    test.assert_stays(11);
}

/// Only those that fit into the semaphore are added.
#[test]
fn releases_that_are_too_large_together_are_executed_one_by_one() {
    let test = Proxied::with(0);
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
    let patient = test.proxied.builder(SOON.get() * 2).build().unwrap();
    let semaphore = patient.semaphore(test.semaphore.name());
    thread::scope(|scope| {
        let alone: Vec<_> = (0..ALONE)
            .map(|_| scope.spawn(|| semaphore.release(1)))
            .collect();
        eventually("the requests of the first threads", || gate.held() == ALONE);
        let large: Vec<_> = (0..3)
            .map(|_| scope.spawn(|| semaphore.release(half)))
            .collect();
        throughout(SOON.get() / 50, "the others wait", || test.free() == 0);
        gate.open();
        alone
            .into_iter()
            .for_each(|one| one.join().unwrap().unwrap());
        let results: Vec<_> = large.into_iter().map(|one| one.join().unwrap()).collect();
        let refused = results
            .iter()
            .filter(|one| matches!(one, Err(Error::Config { .. })));
        assert_eq!(refused.count(), 2, "{results:?}");
    });
    assert_eq!(test.free(), half as i32 + ALONE as i32);
}
