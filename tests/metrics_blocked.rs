//! A recorder of metrics that blocks on threads of the client. The only test of its process,
//! because a recorder serves a whole process.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use leasehold::{Lease, LockClient};
use metrics::{Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit};
use metrics_util::debugging::{DebugValue, DebuggingRecorder, Snapshotter};
use parking_lot::{Condvar, Mutex};
use redis_test::server::RedisServer;

const LEASE: Duration = Duration::from_millis(1000);
const SOON: Duration = Duration::from_secs(20);

static CALLS: AtomicU64 = AtomicU64::new(0);
static BLOCKED: Mutex<bool> = Mutex::new(true);
static RELEASED: Condvar = Condvar::new();

struct Blocking(DebuggingRecorder);

fn block() {
    let thread = std::thread::current();
    if thread
        .name()
        .is_some_and(|name| name.starts_with("leasehold"))
    {
        CALLS.fetch_add(1, Ordering::SeqCst);
        RELEASED.wait_while(&mut BLOCKED.lock(), |blocked| *blocked);
    }
}

impl Recorder for Blocking {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, metadata: &Metadata<'_>) -> Counter {
        block();
        self.0.register_counter(key, metadata)
    }

    fn register_gauge(&self, key: &Key, metadata: &Metadata<'_>) -> Gauge {
        self.0.register_gauge(key, metadata)
    }

    fn register_histogram(&self, key: &Key, metadata: &Metadata<'_>) -> Histogram {
        block();
        self.0.register_histogram(key, metadata)
    }
}

/// Unblocks the recorder, also when the test fails: a blocked thread may keep a client from being
/// dropped.
struct Release;

impl Drop for Release {
    fn drop(&mut self) {
        *BLOCKED.lock() = false;
        RELEASED.notify_all();
    }
}

fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < SOON, "not within {SOON:?}: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Adds the counts since the last call, by name and first label.
fn add(counters: &mut BTreeMap<String, u64>, snapshotter: &Snapshotter) {
    for (key, _, _, value) in snapshotter.snapshot().into_vec() {
        if let DebugValue::Counter(count) = value {
            let label = key.key().labels().next().map_or("", |label| label.value());
            let name = format!("{}{label}", key.key().name());
            *counters.entry(name).or_default() += count;
        }
    }
}

#[test]
fn a_recorder_that_blocks_loses_no_lock_no_wake_up_and_no_count() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    metrics::set_global_recorder(Blocking(recorder))
        .map_err(drop)
        .expect("the first");

    let server = RedisServer::new();
    let url = format!("redis://{}", server.addr);
    let build = || {
        LockClient::builder(&url)
            .watchdog_lease(LEASE)
            .build()
            .unwrap()
    };
    let (client, other) = (build(), build());
    let release = Release;

    let guard = client.reentrant_lock("kept").acquire().unwrap();
    until("the recorder blocks", || CALLS.load(Ordering::SeqCst) > 0);
    let start = Instant::now();
    while start.elapsed() < LEASE * 5 / 4 {
        guard.check().expect("renewed in time");
        std::thread::sleep(Duration::from_millis(5));
    }

    let held = other.reentrant_lock("held");
    // No end of a lease wakes the waiting thread.
    held.lock_with(Lease::fixed(SOON * 2)).unwrap();
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| client.reentrant_lock("held").acquire()?.unlock());
        until("the waiter subscribes", || {
            client.stats().wakeups_by_message > 0
        });
        let (start, woken) = (Instant::now(), client.stats().wakeups_by_message);
        held.unlock().unwrap();
        waiter.join().unwrap().unwrap();
        assert!(start.elapsed() < SOON);
        assert!(client.stats().wakeups_by_message > woken);
    });
    guard.unlock().unwrap();

    drop(release);
    let stats = client.stats();
    assert_eq!(stats.lost, 0);
    let mut counters = BTreeMap::new();
    until("all increments are recorded", || {
        add(&mut counters, &snapshotter);
        let count = |name: &str| counters.get(name).copied().unwrap_or_default();
        count("leasehold_renewals_totaldone") == stats.renewals
            && count("leasehold_renewal_calls_total") == stats.renewal_calls
    });
}
