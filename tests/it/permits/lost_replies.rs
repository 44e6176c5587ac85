//! Lost replies. Each change is executed once or not at all.

use leasehold::Result;

use super::{Kind, Permit, Steps};
use crate::support::prelude::*;

/// What becomes of a call that gets no reply.
#[derive(Clone, Copy, PartialEq)]
enum Unanswered {
    Undone,
    Done,
    /// Done if Redis has executed a copy of it, otherwise cancelled.
    Either,
}

/// A call that changes a number by one script.
struct Call {
    kind: Kind,
    script: &'static str,
    /// The number before and after the call.
    number: [i64; 2],
    /// What it took is given back when the value is dropped.
    call: fn(&Steps) -> Result<Option<Permit>>,
    unanswered: Unanswered,
}

macro_rules! calls {
    ($($kind:ident $script:literal $before:literal => $after:literal $unanswered:ident:
        $call:expr;)*) => {
        [$(Call {
            kind: Kind::$kind,
            script: $script,
            number: [$before, $after],
            call: $call,
            unanswered: Unanswered::$unanswered,
        }),*]
    };
}

fn nothing<T>(result: Result<T>) -> Result<Option<Permit>> {
    result.map(|_| None)
}

const CALLS: [Call; 10] = calls! {
    Semaphore "take_permits" 10 => 7 Undone: |one| nothing(one.semaphore().acquire(3));
    Semaphore "take_permits" 10 => 7 Undone: |one| {
        nothing(one.semaphore().try_acquire(3, SOON.get() / 10))
    };
    Semaphore "change_number" 10 => 12 Done: |one| nothing(one.semaphore().release(2));
    Semaphore "change_number" 10 => 6 Done: |one| nothing(one.semaphore().add_permits(-4));
    Semaphore "change_number" 10 => 0 Undone: |one| nothing(one.semaphore().drain());
    Semaphore "change_number" 0 => 5 Either: |one| nothing(one.semaphore().try_set_permits(5));
    Leased "permit_acquire" 3 => 2 Undone: |one| one.wait().map(Some);
    Leased "permit_release" 3 => 3 Done: |one| nothing(one.leased().acquire()?.release());
    Latch "change_number" 5 => 4 Done: |one| nothing(one.latch().count_down());
    Latch "change_number" 0 => 3 Either: |one| nothing(one.latch().try_set_count(3));
};

/// A number as a client behind the proxy uses it, and its view without the proxy.
pub struct Proxied {
    pub proxied: ProxiedServer,
    pub steps: Steps,
    pub view: Steps,
}

impl Proxied {
    pub fn of(kind: Kind, before: i64) -> Self {
        let proxied = ProxiedServer::new();
        let view = kind.of(&proxied.rival(), &unique("steps"));
        match kind {
            _ if before == 0 => {}
            Kind::Latch => view.close(before.unsigned_abs()),
            _ => view.add(before).unwrap(),
        }
        // The leases do not end.
        let builder = proxied.builder(SLIP.get()).watchdog_lease(SOON.get() * 6);
        let steps = view.at(&builder.build().unwrap());
        // Opens a connection, so that the first attempt of a call is sent at once.
        steps.left().unwrap();
        Self {
            proxied,
            steps,
            view,
        }
    }

    pub fn left(&self) -> i64 {
        self.view.left().unwrap()
    }

    /// The number becomes this, and stays so.
    #[track_caller]
    pub fn assert_becomes(&self, left: i64, what: &str) {
        eventually(what, || self.left() == left);
        throughout(A_WHILE.get() * 3, what, || self.left() == left);
    }
}

/// Runs `work` for each call and each fault, for the calls at the same time.
fn each(work: impl Fn(&Call, &Fault, &str) + Sync) {
    for fault in &unanswered() {
        thread::scope(|scope| {
            for call in &CALLS {
                let what = format!("{fault:?} of {} of {:?}", call.script, call.kind);
                let work = &work;
                scope.spawn(move || work(call, fault, &what));
            }
        });
    }
}

#[test]
fn one_lost_reply_of_each_call_only_delays_it() {
    each(|call, fault, what| {
        let test = Proxied::of(call.kind, call.number[0]);
        let lost = test.proxied.fault_once(call.script, fault);
        let taken = (call.call)(&test.steps).unwrap_or_else(|error| panic!("{what}: {error}"));
        assert!(lost.load(Ordering::SeqCst), "{what}: no request was sent");
        test.assert_becomes(call.number[1], what);
        drop(taken);
    });
}

/// Those that take permits have taken none in the end. The others are executed once.
#[test]
fn a_call_that_is_never_answered_is_undone_or_executed_once() {
    each(|call, fault, what| {
        let test = Proxied::of(call.kind, call.number[0]);
        test.proxied.fault_always(call.script, fault);
        let result = (call.call)(&test.steps);
        let is_expected = match call.unanswered {
            Unanswered::Done if call.kind != Kind::Leased => is_change_without_reply,
            Unanswered::Done => is_not_released,
            _ => is_unavailable,
        };
        assert!(is_expected(&result), "{what}: {result:?}");
        let is_executed = !matches!(fault, Fault::SwallowRequest);
        let is_done = match call.unanswered {
            Unanswered::Undone => false,
            Unanswered::Done => true,
            Unanswered::Either => is_executed,
        };
        let expected = call.number[usize::from(is_done)];
        if is_executed {
            eventually(what, || test.left() == expected);
        }
        test.proxied.proxy.clear_rules();
        test.assert_becomes(expected, what);
    });
}
