//! A recorder of metrics that panics at every call affects nothing. The only test of its process,
//! because a recorder serves a whole process.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use leasehold::{Error, LockClient, LostReason};
use metrics::{Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit};
use redis_test::server::RedisServer;

const LEASE: Duration = Duration::from_millis(1000);

static PANICS: AtomicU64 = AtomicU64::new(0);

struct Panicking;

const MESSAGE: &str = "the recorder panics, on purpose";

fn refuse() -> ! {
    PANICS.fetch_add(1, Ordering::SeqCst);
    panic!("{MESSAGE}");
}

impl Recorder for Panicking {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {
        refuse();
    }

    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {
        refuse();
    }

    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {
        refuse();
    }

    fn register_counter(&self, _: &Key, _: &Metadata<'_>) -> Counter {
        refuse();
    }

    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        refuse();
    }

    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        refuse();
    }
}

#[test]
fn a_recorder_that_panics_at_every_call_changes_nothing() {
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        if info.payload_as_str() != Some(MESSAGE) {
            report(info);
        }
    }));
    metrics::set_global_recorder(Panicking)
        .map_err(drop)
        .expect("the first");

    let server = RedisServer::new();
    let url = format!("redis://{}", server.addr);
    let client = LockClient::builder(&url)
        .watchdog_lease(LEASE)
        .build()
        .unwrap();
    let lock = client.reentrant_lock("order:pay");
    let recorded = || PANICS.load(Ordering::SeqCst);

    let guard = lock.acquire().unwrap();
    assert!(recorded() > 0, "the recorder is called");
    lock.lock().unwrap();
    assert_eq!(lock.hold_count(), 2);
    lock.unlock().unwrap();
    assert_eq!(lock.hold_count(), 1);
    let (start, before) = (Instant::now(), recorded());
    while start.elapsed() < LEASE * 2 {
        guard.check().expect("renewed in time");
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(recorded() > before, "renewals are recorded");
    assert_eq!(client.inspect("order:pay").unwrap().hold_count, 1);
    guard.unlock().unwrap();
    assert_eq!(lock.hold_count(), 0);
    assert!(!lock.is_locked().unwrap());

    let lost = lock.acquire().unwrap();
    client.force_unlock("order:pay").unwrap();
    assert_eq!(lost.lost().recv_timeout(LEASE), Ok(LostReason::Deleted));
    assert!(lost.is_lost());
    assert!(matches!(lost.unlock(), Err(Error::Lost { .. })));

    // Any thread can acquire it again.
    lock.acquire().unwrap().unlock().unwrap();
    std::thread::scope(|scope| {
        let other = scope.spawn(|| lock.acquire()?.unlock());
        other.join().expect("no panic").unwrap();
    });
    let stats = client.stats();
    let counts = (
        stats.acquisitions,
        stats.reentries,
        stats.releases,
        stats.lost,
    );
    assert_eq!(counts, (4, 1, 3, 1), "{stats:?}");
    assert!(stats.renewals >= 2, "{stats:?}");
    assert_eq!((stats.renewals_failed, stats.renewals_unknown), (0, 0));
}
