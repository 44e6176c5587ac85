use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

use super::*;
use crate::base::OwnerId;
use crate::config::LockClientBuilder;
use crate::deployment::Deployment;
use crate::error::LostReason;
use crate::protocol::{Kind, PERMITS, PLAIN, Verdict};
use crate::request::RedisClient;
use crate::subscriber::Handlers;
use crate::topology::Topology;
use crate::transport::credentials::CredentialSource;

const ID: TargetId = 7;

fn at(millis: u64) -> Moment {
    Moment::now().after(Duration::from_millis(millis))
}

fn schedule(due: Moment) -> Schedule {
    Schedule {
        due,
        unconfirmed: Moment::NEVER,
        ends: Moment::NEVER,
        lease: Some(Duration::from_millis(64)),
        retry: Duration::from_millis(2),
    }
}

/// A hold whose thread makes a nested acquire right after the watchdog has computed its schedule.
#[derive(Debug)]
struct Nested {
    shared: Arc<Shared>,
    key: LockKey,
    due: Mutex<Moment>,
    sooner: Moment,
}

impl Nested {
    fn acquire(&self) {
        *self.due.lock() = self.sooner;
        self.shared.reschedule(ID);
    }
}

#[cfg(feature = "testing")]
impl crate::base::test_clock::Skip for Nested {
    fn skip(&self, _: Duration) {}
}

impl Renew for Nested {
    fn schedule(&self) -> Schedule {
        schedule(*self.due.lock())
    }
    fn next_step(&self, _: Moment) -> Step {
        self.acquire();
        Step::Wait
    }
    fn renewed(&self, _: Moment, _: &Renewal) {
        self.acquire();
    }
    fn not_renewed(&self, _: &Renewal, _: &str) {
        self.acquire();
    }
    fn lost(&self, _: LostReason) {
        self.acquire();
    }
    fn end_idle_grant(&self) -> Option<Call> {
        None
    }
    fn shut_down(self: Arc<Self>) -> Option<AtShutdown> {
        None
    }
    fn key(&self) -> &LockKey {
        &self.key
    }
    fn lease_ends(&self) -> Moment {
        Moment::NEVER
    }
}

/// The thread, and no server that it reaches.
fn thread(shared: &Arc<Shared>) -> thread::WatchdogThread {
    thread_of(shared, Deployment::Single)
}

fn thread_of(shared: &Arc<Shared>, deployment: Deployment) -> thread::WatchdogThread {
    let config = LockClientBuilder::of_urls(deployment, ["redis://127.0.0.1:1"]);
    let config = config.validate().unwrap();
    let topology = Topology::new(&config, CredentialSource::Fixed(None), None);
    let observer = Arc::<Observer>::default();
    let redis = RedisClient::new(&config, Arc::new(topology), Arc::clone(&observer));
    let redis = Arc::new(redis);
    let control = LockKey::new("", "control");
    let handlers = Handlers {
        freed: Box::new(|_| {}),
        unanswered: Box::new(|_, _| {}),
    };
    let subscriber = Subscriber::new(
        Arc::clone(&redis),
        Arc::clone(&observer),
        Arc::clone(control.channel()),
        handlers,
    );
    let timeout = Duration::from_secs(1);
    thread::WatchdogThread {
        shared: Arc::clone(shared),
        redis,
        subscriber: Arc::new(subscriber),
        observer,
        command_timeout: timeout,
    }
}

fn renewal() -> Renewal {
    renewal_of("lock", &PLAIN)
}

fn renewal_of(name: &str, kind: &Kind) -> Renewal {
    let key = LockKey::new("", name);
    let owner = OwnerId::new("client");
    Renewal {
        call: kind.renew(&key, &owner, 64, None),
        millis: 64,
        count: None,
        hold: None,
        limited: None,
    }
}

#[test]
fn a_schedule_that_changes_during_a_renewal_is_kept() {
    let shared = Arc::<Shared>::default();
    let thread = thread(&shared);
    type Pass = fn(&thread::WatchdogThread, &[&thread::RenewalRequest]);
    let passes: [(&str, Pass); 3] = [
        ("step", |thread, asked| {
            thread.collect_renewals(&[(ID, Arc::clone(&asked[0].target))]);
        }),
        ("renewed", |thread, asked| {
            thread.apply_verdicts(
                asked,
                &[Verdict::Done {
                    listeners: Some(0),
                    is_called: false,
                }],
                Moment::now(),
            );
        }),
        ("failed", |thread, asked| {
            thread.fail(asked, &(redis::ErrorKind::Io, "no reply").into());
        }),
    ];
    for (what, pass) in passes {
        let (later, sooner) = (at(60_000), at(30_000));
        let target: Arc<dyn Renew> = Arc::new(Nested {
            shared: Arc::clone(&shared),
            key: LockKey::new("", "lock"),
            due: Mutex::new(later),
            sooner,
        });
        let mut state = shared.state.lock();
        state.registry.add(ID, Arc::clone(&target), schedule(later));
        drop(state);
        let request = thread::RenewalRequest {
            id: ID,
            target,
            renewal: renewal(),
            permits: 1,
        };
        pass(&thread, &[&request]);
        let registry = &mut shared.state.lock().registry;
        assert_eq!(registry.next_due(), Some(sooner), "{what}");
        registry.remove(ID);
    }
}

/// A lock that a thread has held for a minute without a reply of Redis.
#[derive(Debug)]
struct Held {
    since: Moment,
    key: LockKey,
    /// How often the watchdog called it.
    calls: AtomicUsize,
}

#[cfg(feature = "testing")]
impl crate::base::test_clock::Skip for Held {
    fn skip(&self, _: Duration) {}
}

impl Held {
    fn called(&self) {
        self.calls.fetch_add(1, Ordering::SeqCst);
        assert_ne!(self.key.name(), "panics");
    }
}

impl Renew for Held {
    fn schedule(&self) -> Schedule {
        self.called();
        Schedule {
            unconfirmed: self.since,
            ..schedule(Moment::NEVER)
        }
    }
    fn confirmation(&self, _: Moment) -> Option<Renewal> {
        self.called();
        Some(renewal())
    }
    fn next_step(&self, _: Moment) -> Step {
        self.called();
        Step::Wait
    }
    fn renewed(&self, _: Moment, _: &Renewal) {
        self.called();
    }
    fn not_renewed(&self, _: &Renewal, _: &str) {
        self.called();
    }
    fn lost(&self, _: LostReason) {
        self.called();
    }
    fn end_idle_grant(&self) -> Option<Call> {
        None
    }
    fn shut_down(self: Arc<Self>) -> Option<AtShutdown> {
        None
    }
    fn key(&self) -> &LockKey {
        &self.key
    }
    fn lease_ends(&self) -> Moment {
        Moment::NEVER
    }
}

fn held() -> Held {
    held_as("lock")
}

fn held_as(name: &str) -> Held {
    Held {
        since: Moment::now().before(Duration::from_secs(60)),
        key: LockKey::new("", name),
        calls: AtomicUsize::new(0),
    }
}

#[test]
fn a_confirmation_is_for_locks_of_one_kind_and_one_slot() {
    let thread = thread_of(&Arc::default(), Deployment::Cluster);
    let request = |name, kind| thread::RenewalRequest {
        id: ID,
        target: Arc::new(held_as(name)),
        renewal: renewal_of(name, kind),
        permits: 1,
    };
    let call = [request("{slot}:1", &PLAIN)];
    let others: [(&str, &Kind, bool); 3] = [
        ("{slot}:2", &PLAIN, true),
        ("{slot}:2", &PERMITS, false),
        ("another slot", &PLAIN, false),
    ];
    for (name, kind, fits) in others {
        let other = request(name, kind);
        assert_eq!(thread.fits_into(&call, &other), fits, "{name}");
        assert!(thread.fits_into::<thread::RenewalRequest>(&[], &other));
    }
    let permits = |permits| thread::RenewalRequest {
        permits,
        ..request("{slot}:1", &PERMITS)
    };
    for (each, other, fits) in [(100, 50, true), (100, 51, false), (1_000, 1, false)] {
        let both = [permits(each), permits(each)];
        assert_eq!(thread.fits_into(&both, &permits(other)), fits, "{each}");
    }
}

/// A grant that is released before that costs the watchdog no schedule.
#[test]
fn the_schedule_of_a_new_target_is_read_by_the_thread() {
    let shared = Arc::<Shared>::default();
    let watchdog = Watchdog {
        shared: Arc::clone(&shared),
        thread: Mutex::default(),
        process: Process::current(),
        clock: ClientClock::default(),
    };
    let target = Arc::new(held());
    let calls = || target.calls.load(Ordering::SeqCst);
    assert!(watchdog.watch(1, Arc::clone(&target) as _, Moment::ZERO));
    watchdog.forget(1);
    assert!(watchdog.watch(2, Arc::clone(&target) as _, Moment::ZERO));
    assert_eq!(calls(), 0);
    shared.targets();
    assert_eq!(
        (calls(), shared.state.lock().registry.next_due()),
        (1, Some(target.schedule().due))
    );
}

/// However many are held. Each pass handles others, also if the server does not reply.
#[test]
fn a_pass_confirms_one_batch_and_calls_no_other_target() {
    let shared = Arc::new(Shared {
        confirm_every: Duration::from_secs(1),
        ..Shared::default()
    });
    let mut thread = thread(&shared);
    let targets: Vec<Arc<Held>> = (1..=10_000)
        .map(|id| {
            let target = Arc::new(held());
            let mut state = shared.state.lock();
            let schedule = target.schedule();
            state.registry.add(id, Arc::clone(&target) as _, schedule);
            target
        })
        .collect();
    for pass in 1..=4 {
        shared.state.lock().confirm_from = Moment::ZERO;
        let work = thread.next_work().unwrap();
        thread.pass(work);
        // The first call is that of the insertion. The others: its confirmation, and the schedule.
        let calls = targets.iter().map(|one| one.calls.load(Ordering::SeqCst));
        let called: Vec<usize> = calls.filter(|&calls| calls > 1).collect();
        assert_eq!(called, vec![3; pass * thread::BATCH]);
    }
    let confirm_from = shared.state.lock().confirm_from;
    assert!(confirm_from > Moment::now(), "no call within the interval");
}

#[test]
fn lines_are_no_work_after_a_shutdown() {
    let shared = Arc::<Shared>::default();
    let thread = thread(&shared);
    shared.called(&LockKey::new("", "lock"));
    let mut state = shared.state.lock();
    let due = Moment::now().after(Duration::from_secs(1));
    assert!(thread.take_work(&mut state, due).is_some());
    state.phase = Phase::Closing;
    assert!(thread.take_work(&mut state, due).is_none());
}

/// However late it is due.
#[test]
fn an_orphan_whose_lease_is_over_is_dropped() {
    let shared = Arc::<Shared>::default();
    let thread = thread(&shared);
    let key = LockKey::new("", "lock");
    let call = script::leave_line(&key, "place", true);
    let now = Moment::now();
    let mut orphan = Orphan::new(key, call, now);
    orphan.due = Moment::NEVER;
    let mut state = shared.state.lock();
    state.orphans.push(orphan);
    assert!(thread.take_work(&mut state, now).is_some());
    assert!(state.orphans.is_empty());
}

#[test]
fn a_panic_of_one_target_does_not_affect_the_others() {
    let shared = Arc::new(Shared {
        confirm_every: Duration::from_secs(1),
        ..Shared::default()
    });
    let mut thread = thread(&shared);
    let targets = ["panics", "lock"].map(|name| Arc::new(held_as(name)));
    for (id, target) in (1..).zip(&targets) {
        let mut state = shared.state.lock();
        state.registry.insert(id, Arc::clone(target) as _);
        state.noted.push(id);
    }
    let all = shared.targets();
    assert_eq!(all.len(), 2);
    thread.collect_renewals(&all);
    thread.confirm(at(1000));
    let request = |(id, target)| thread::RenewalRequest {
        id,
        target,
        renewal: renewal(),
        permits: 1,
    };
    let requests: Vec<_> = all.into_iter().map(request).collect();
    let requests: Vec<_> = requests.iter().collect();
    let done = Verdict::Done {
        listeners: None,
        is_called: false,
    };
    assert_eq!(thread.apply_verdicts(&requests, &[done, done], at(0)), 2);
    thread.fail(&requests, &(redis::ErrorKind::Io, "no reply").into());
    let lost = Verdict::Lost(LostReason::Taken);
    thread.apply_verdicts(&requests, &[lost, lost], at(0));
    assert!(shared.targets().is_empty());
    // Six calls, and four schedules.
    assert_eq!(targets[1].calls.load(Ordering::SeqCst), 10);
}
