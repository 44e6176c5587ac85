//! What the recorder of the `metrics` facade gets, and a recorder that panics.
//!
//! The only tests of their process, because a recorder serves a whole process. It works on one test
//! at a time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use leasehold::{Error, LockClient, LostReason};
use metrics::{Counter, Gauge, Histogram, Key, KeyName, Metadata, SharedString, Unit};
use metrics_util::debugging::{DebugValue, DebuggingRecorder, Snapshotter};
use parking_lot::{Mutex, MutexGuard};
use redis_test::server::RedisServer;

const LEASE: Duration = Duration::from_millis(1000);
const SOON: Duration = Duration::from_secs(20);
const MESSAGE: &str = "on purpose";

/// True while the recorder panics.
static PANICS: AtomicBool = AtomicBool::new(false);
/// The number of its panics.
static REFUSED: AtomicU64 = AtomicU64::new(0);

struct Recorder(DebuggingRecorder);

impl Recorder {
    fn meet(&self) -> &DebuggingRecorder {
        if PANICS.load(Ordering::SeqCst) {
            REFUSED.fetch_add(1, Ordering::SeqCst);
            panic!("{MESSAGE}");
        }
        &self.0
    }
}

impl metrics::Recorder for Recorder {
    fn describe_counter(&self, key: KeyName, unit: Option<Unit>, text: SharedString) {
        self.meet().describe_counter(key, unit, text);
    }

    fn describe_gauge(&self, key: KeyName, unit: Option<Unit>, text: SharedString) {
        self.meet().describe_gauge(key, unit, text);
    }

    fn describe_histogram(&self, key: KeyName, unit: Option<Unit>, text: SharedString) {
        self.meet().describe_histogram(key, unit, text);
    }

    fn register_counter(&self, key: &Key, metadata: &Metadata<'_>) -> Counter {
        self.meet().register_counter(key, metadata)
    }

    fn register_gauge(&self, key: &Key, metadata: &Metadata<'_>) -> Gauge {
        self.meet().register_gauge(key, metadata)
    }

    fn register_histogram(&self, key: &Key, metadata: &Metadata<'_>) -> Histogram {
        self.meet().register_histogram(key, metadata)
    }
}

/// The use of the recorder by one test.
struct Recording {
    snapshotter: &'static Snapshotter,
    _alone: MutexGuard<'static, ()>,
}

impl Recording {
    fn start() -> Self {
        static ALONE: Mutex<()> = Mutex::new(());
        static SNAPSHOTTER: LazyLock<Snapshotter> = LazyLock::new(|| {
            let recorder = DebuggingRecorder::new();
            let snapshotter = recorder.snapshotter();
            let installed = metrics::set_global_recorder(Recorder(recorder));
            installed.map_err(drop).expect("the first");
            snapshotter
        });
        let recording = Self {
            _alone: ALONE.lock(),
            snapshotter: &SNAPSHOTTER,
        };
        // What earlier tests have recorded.
        drop(recording.snapshotter.snapshot());
        recording
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        PANICS.store(false, Ordering::SeqCst);
    }
}

fn build(server: &RedisServer) -> LockClient {
    let builder = LockClient::builder(&format!("redis://{}", server.addr));
    builder.watchdog_lease(LEASE).build().unwrap()
}

/// All recorded values so far, by name and label: a sum, or the number of values and their sum.
#[derive(Default)]
struct Recorded {
    counters: BTreeMap<String, u64>,
    histograms: BTreeMap<String, Vec<f64>>,
    gauges: BTreeMap<String, f64>,
}

impl Recorded {
    /// Adds the values and changes since the last call: a snapshot resets them.
    fn update(&mut self, snapshotter: &Snapshotter) {
        for (key, _, _, value) in snapshotter.snapshot().into_vec() {
            let labels = key.key().labels();
            let labels: Vec<String> = labels
                .map(|l| format!("{}={}", l.key(), l.value()))
                .collect();
            let name = format!("{}{{{}}}", key.key().name(), labels.join(","));
            match value {
                DebugValue::Counter(count) => *self.counters.entry(name).or_default() += count,
                DebugValue::Histogram(values) => {
                    let values = values.into_iter().map(f64::from);
                    self.histograms.entry(name).or_default().extend(values);
                }
                DebugValue::Gauge(change) => {
                    *self.gauges.entry(name).or_default() += f64::from(change);
                }
            }
        }
    }

    fn count(&self, name: &str) -> u64 {
        self.counters.get(name).copied().unwrap_or_default()
    }
}

fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < SOON, "not within {SOON:?}: {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// The metrics of the documentation, with all values of their labels.
fn documented() -> BTreeSet<String> {
    let page = include_str!("../docs/monitoring.md");
    let mut names = BTreeSet::new();
    for row in page
        .lines()
        .filter(|line| line.starts_with("| `leasehold_"))
    {
        let quoted: Vec<&str> = row.split('`').skip(1).step_by(2).collect();
        match quoted[..] {
            [name] => drop(names.insert(format!("{name}{{}}"))),
            [name, label, ref values @ ..] => {
                names.extend(
                    values
                        .iter()
                        .map(|value| format!("{name}{{{label}={value}}}")),
                );
            }
            [] => unreachable!("the row begins with a name"),
        }
    }
    names
}

#[test]
fn a_new_client_registers_all_metrics_at_zero() {
    let _recording = Recording::start();
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    let client = metrics::with_local_recorder(&recorder, || {
        LockClient::connect("redis://127.0.0.1:1").unwrap()
    });
    for (key, unit, help, value) in snapshotter.snapshot().into_vec() {
        let name = key.key().name();
        let wanted = match value {
            DebugValue::Counter(0) => Unit::Count,
            DebugValue::Gauge(number) if number == 0.0 => Unit::Count,
            DebugValue::Histogram(values) if values.is_empty() => Unit::Seconds,
            other => panic!("{name}: {other:?}"),
        };
        assert_eq!(unit, Some(wanted), "{name}");
        assert!(help.is_some_and(|help| help.ends_with('.')), "{name}");
    }
    let mut recorded = Recorded::default();
    recorded.update(&snapshotter);
    let names = recorded.counters.into_keys();
    let names = names.chain(recorded.histograms.into_keys());
    let names = names.chain(recorded.gauges.into_keys()).collect();
    assert_eq!(documented(), names);
    drop(client);
}

#[test]
fn the_recorder_gets_what_stats_show() {
    let recording = Recording::start();
    let server = RedisServer::new();
    let url = format!("redis://{}", server.addr);
    let (client, other) = (build(&server), build(&server));
    let lock = client.reentrant_lock("order:pay");

    let guard = lock.acquire().unwrap();
    lock.lock().unwrap();
    lock.unlock().unwrap();
    until("a renewal", || client.stats().renewals > 0);
    thread::scope(|scope| {
        let waiter = scope.spawn(|| other.reentrant_lock("order:pay").acquire()?.unlock());
        until("a wait", || other.stats().wakeups_by_message > 0);
        guard.unlock().unwrap();
        waiter.join().unwrap().unwrap();
    });

    let lost = lock.acquire().unwrap();
    client.force_unlock("order:pay").unwrap();
    assert!(matches!(lost.unlock(), Err(Error::Lost { .. })));

    // A thread that waits when the holder unlocks gets the grant.
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                until("a hand-over", || {
                    for _ in 0..100 {
                        lock.acquire().unwrap().unlock().unwrap();
                    }
                    client.stats().hand_overs > 0
                });
            });
        }
    });

    let mut recorded = Recorded::default();
    recorded.update(recording.snapshotter);
    let [mine, others] = [client.stats(), other.stats()];
    for (name, count) in [
        (
            "leasehold_acquisitions_total{}",
            mine.acquisitions + others.acquisitions,
        ),
        ("leasehold_hand_overs_total{}", mine.hand_overs),
        ("leasehold_reentries_total{}", 1),
        (
            "leasehold_releases_total{}",
            mine.releases + others.releases,
        ),
        ("leasehold_lost_total{reason=deleted}", 1),
        (
            "leasehold_wakeups_total{by=message}",
            others.wakeups_by_message,
        ),
        (
            "leasehold_wakeups_total{by=timeout}",
            others.wakeups_by_timeout,
        ),
    ] {
        assert_eq!(recorded.count(name), count, "{name}");
        assert!(count > 0 || name.contains("timeout"), "{name}");
    }
    // The reporter thread records what the watchdog counts.
    until("renewals to be recorded", || {
        recorded.update(recording.snapshotter);
        recorded.count("leasehold_renewals_total{outcome=done}") > 0
            && recorded.count("leasehold_renewal_calls_total{}") > 0
    });
    assert_eq!(
        recorded.count("leasehold_renewals_total{outcome=failed}"),
        0
    );

    let waits = &recorded.histograms["leasehold_wait_seconds{}"];
    let holds = &recorded.histograms["leasehold_hold_seconds{}"];
    let all = mine.acquisitions + others.acquisitions + mine.hand_overs;
    let all = usize::try_from(all).unwrap();
    assert_eq!((waits.len(), holds.len()), (all, all), "one for each hold");
    let longest = |values: &[f64]| values.iter().copied().fold(0.0, f64::max);
    // The first hold lasted until a renewal was due.
    assert!(longest(holds) > LEASE.as_secs_f64() / 2.0, "{holds:?}");
    assert!(longest(waits) < longest(holds), "{waits:?}");

    let kept = client.reentrant_lock("kept").acquire().unwrap();
    // An error reply: no user may run scripts for a while.
    redis_away(&url, || {
        until("a refusal", || client.stats().renewals_failed > 0);
    });
    until("another renewal", || kept.remaining() > LEASE / 2);
    kept.check().unwrap();
    until("the failure to be recorded", || {
        recorded.update(recording.snapshotter);
        recorded.count("leasehold_renewals_total{outcome=failed}") > 0
    });
    assert_eq!(recorded.count("leasehold_lost_total{reason=expired}"), 0);
}

/// While a hold lasts, and not when it ends.
#[test]
fn gauges_show_what_is_held_and_what_waits_now() {
    let recording = Recording::start();
    let mut recorded = Recorded::default();
    let server = RedisServer::new();
    let (client, other) = (build(&server), build(&server));
    let numbers = |client: &LockClient| (client.stats().held, client.stats().waiting);
    let mut expect = |held: f64, waiting: f64| {
        until("the gauges", || {
            recorded.update(recording.snapshotter);
            let gauge = |name| recorded.gauges.get(name).copied().unwrap_or_default();
            [gauge("leasehold_held{}"), gauge("leasehold_waiting{}")] == [held, waiting]
        });
    };

    let lock = client.reentrant_lock("order:pay");
    let guard = lock.acquire().unwrap();
    lock.acquire().unwrap().unlock().unwrap();
    assert_eq!(numbers(&client), (1, 0));
    expect(1.0, 0.0);
    thread::scope(|scope| {
        // Behind a thread of the same client, and behind another client.
        for client in [&client, &other] {
            scope.spawn(|| client.reentrant_lock("order:pay").acquire()?.unlock());
        }
        until("both waits", || {
            (numbers(&client), numbers(&other)) == ((1, 1), (0, 1))
        });
        expect(1.0, 2.0);
        guard.unlock().unwrap();
    });
    assert_eq!((numbers(&client), numbers(&other)), ((0, 0), (0, 0)));
    expect(0.0, 0.0);

    // A lost hold ends at its loss, before its thread unlocks it.
    let lost = lock.acquire().unwrap();
    client.force_unlock("order:pay").unwrap();
    expect(0.0, 0.0);
    assert!(lost.unlock().is_err());
    // After a wait on a condition, its thread holds the lock again.
    let guard = lock.acquire().unwrap();
    let ready = lock.condition("ready");
    ready.wait_for(Duration::from_millis(1)).unwrap();
    assert_eq!(numbers(&client), (1, 0));
    guard.unlock().unwrap();
    expect(0.0, 0.0);

    let semaphore = client.leased_semaphore("permits");
    semaphore.try_set_permits(1).unwrap();
    let permit = semaphore.acquire().unwrap();
    expect(1.0, 0.0);
    permit.release().unwrap();
    // The thread does not unlock this lock, so the drop of the client ends its hold.
    client.reentrant_lock("kept").lock().unwrap();
    expect(1.0, 0.0);
    drop((client, lock, ready, semaphore));
    expect(0.0, 0.0);
}

/// Its panics are those of a recorder: the value is recorded, and the caller notices nothing.
#[test]
fn waits_and_holds_have_the_label_of_the_lock() {
    let recording = Recording::start();
    report_other_panics();
    let server = RedisServer::new();
    let builder = LockClient::builder(&format!("redis://{}", server.addr));
    let client = builder
        .namespace("shop")
        .metric_label(|lock| match lock.split_once(':') {
            Some((business, _id)) => business.to_owned(),
            None => panic!("{MESSAGE}"),
        })
        .build()
        .unwrap();
    for name in ["order:1", "order:2", "mail:1", "nightly"] {
        client
            .reentrant_lock(name)
            .acquire()
            .unwrap()
            .unlock()
            .unwrap();
    }
    client
        .multi_lock(["order:3", "mail:2"])
        .acquire()
        .unwrap()
        .unlock()
        .unwrap();
    // The watchdog finds this loss, so the reporter calls the function.
    let lost = client.reentrant_lock("lost:1").acquire().unwrap();
    client.force_unlock("lost:1").unwrap();
    assert_eq!(lost.lost().recv_timeout(SOON), Ok(LostReason::Deleted));
    let mut recorded = Recorded::default();
    until("the hold of the lost lock", || {
        recorded.update(recording.snapshotter);
        recorded
            .histograms
            .contains_key("leasehold_hold_seconds{lock=lost}")
    });
    for series in ["leasehold_wait_seconds", "leasehold_hold_seconds"] {
        for (label, count) in [("order", 3), ("mail", 2), ("lost", 1), ("", 1)] {
            let name = format!("{series}{{lock={label}}}");
            assert_eq!(recorded.histograms[&name].len(), count, "{name}");
        }
        let unlabelled = recorded.histograms.get(&format!("{series}{{}}"));
        assert!(unlabelled.is_none_or(Vec::is_empty), "{unlabelled:?}");
    }
}

/// Scripts are refused while `act` runs.
fn redis_away(url: &str, act: impl FnOnce()) {
    let mut redis = redis::Client::open(url).unwrap().get_connection().unwrap();
    let mut allow = |rule: &str| {
        let mut acl = redis::cmd("ACL");
        acl.arg("SETUSER")
            .arg("default")
            .arg(rule)
            .exec(&mut redis)
            .unwrap();
    };
    allow("-pexpire");
    act();
    allow("+pexpire");
}

/// Prints no panics that are on purpose.
fn report_other_panics() {
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        if !info.to_string().contains(MESSAGE) {
            report(info);
        }
    }));
}

/// `observe::reporter::tests` has a call that blocks.
#[test]
fn a_recorder_that_panics_at_every_call_changes_nothing() {
    let _recording = Recording::start();
    report_other_panics();
    PANICS.store(true, Ordering::SeqCst);
    let panics = || REFUSED.load(Ordering::SeqCst);
    let server = RedisServer::new();
    let client = build(&server);
    let lock = client.reentrant_lock("order:pay");
    let guard = lock.acquire().unwrap();
    let before = panics();
    assert!(before > 0, "the recorder is called");
    until("renewals", || client.stats().renewals >= 2);
    assert!(panics() > before, "renewals are recorded");
    guard.unlock().unwrap();
    let lost = lock.acquire().unwrap();
    client.force_unlock("order:pay").unwrap();
    assert_eq!(lost.lost().recv_timeout(SOON), Ok(LostReason::Deleted));
    assert!(matches!(lost.unlock(), Err(Error::Lost { .. })));
    lock.acquire().unwrap().unlock().unwrap();
    let stats = client.stats();
    assert_eq!((stats.acquisitions, stats.releases, stats.lost), (3, 2, 1));
}
