//! Locks in a cluster of three primaries with a replica each. Lock and unlock of a free lock, and
//! eight threads on one lock: the floor is the same scripts on a raw connection to the primary. A
//! thousand locks in a thousand slots, which are renewed one by one: the floor is a raw pipeline to
//! each primary.

#[path = "support/deployments.rs"]
mod deployments;
#[path = "support/primaries.rs"]
mod primaries;
#[path = "support/mod.rs"]
mod support;

use std::time::Duration;

use criterion::Criterion;
use deployments::ClusterDeployment;
use leasehold::{LockClient, ReentrantLock};
use primaries::Primaries;
use support::{
    commands::commands,
    compare,
    contention::{Load, enter, one_window, windows},
    empty_section::{Bounds, behind_mutex, report},
    group, is_list, is_test, pin_clients, pin_servers,
    renewal_cost::{Holding, RenewalCost},
    table::{Bound, Table, span},
    time,
    usage::cpu_time_of,
};

const PAIRS: u64 = 1_000;

const HOUR_MILLIS: u64 = 3_600_000;

fn main() {
    pin_servers();
    let cluster = ClusterDeployment::shared();
    pin_clients();
    let client = || LockClient::builder_cluster(cluster.urls());
    let primaries = Primaries::of(&cluster);
    let mut criterion = Criterion::default().configure_from_args();
    let mut table = Table::new();

    let holding = Holding::new(6, 30);
    let renewing = client().watchdog_lease(holding.lease).build();
    renewals(
        &mut criterion,
        &mut table,
        &primaries,
        (&renewing.expect("valid settings"), holding.time),
    );
    let plain = client().build().expect("valid settings");
    pairs(&mut criterion, &mut table, &primaries, &plain);

    criterion.final_summary();
    table.print();
}

fn pairs(criterion: &mut Criterion, table: &mut Table, primaries: &Primaries, client: &LockClient) {
    // Both names are on the first primary.
    let names = primaries.names("pair", 12).swap_remove(0);
    let [ours, floor] = &names[..2] else {
        panic!("a third of the names is on each");
    };
    let lock = client.reentrant_lock(ours);
    let mut raw = primaries.raw(0);
    let pair = || {
        lock.lock().expect("free");
        lock.unlock().expect("held");
    };
    let pairs = compare(
        criterion,
        "lock and unlock",
        || time(pair),
        || time(|| raw.pair(floor)),
    );
    table.comparison("lock and unlock", &pairs, Bound::AtMost(1.20));
    if !is_list() {
        let sent = commands(&primaries.addresses(), || (0..PAIRS).for_each(|_| pair()));
        let each = sent as f64 / PAIRS as f64;
        let sides = (format!("{each:.2}"), "2.00".into());
        let what = "commands of a pair";
        table.figure(what, sides, (each, ""), Bound::AtMost(2.0));
    }
    if !is_list() {
        empty_section(table, primaries, &lock, behind_mutex(raw, floor));
    }
}

/// Eight threads on one lock. The floor is two scripts on one connection behind a mutex.
fn empty_section(
    table: &mut Table,
    primaries: &Primaries,
    lock: &ReentrantLock,
    floor: impl Fn(&dyn Fn()) -> Duration + Sync,
) {
    let (load, ours) = (Load::empty(8), enter(lock));
    let [our, floor] = windows([(&ours, load), (&floor, load)]);
    let mut acquired = 0;
    let sent = commands(&primaries.addresses(), || {
        acquired = one_window(&ours, load);
    });
    let each = sent as f64 / acquired as f64;
    let bounds = Bounds {
        rate: Bound::None,
        commands: Bound::AtMost(2.2),
        fairness: Bound::AtLeast(0.8),
        longest_wait: Bound::AtMost(100.0),
    };
    report(table, "8 threads, empty", (&our, &floor), each, &bounds);
}

fn renewals(
    criterion: &mut Criterion,
    table: &mut Table,
    primaries: &Primaries,
    (client, held_for): (&LockClient, Duration),
) {
    let count = if is_test() { 60 } else { 1_000 };
    let held = primaries.names("held", count);
    let mut raw = [0, 1, 2].map(|shard| primaries.raw(shard));
    for names in &held {
        // Loads the script for renewals at each primary. Otherwise the first renewals would do so.
        let guard = client.reentrant_lock(&names[0]).acquire().expect("free");
        guard.confirm().expect("held");
        guard.unlock().expect("held");
    }
    let names = held.concat();
    let measure = || RenewalCost::measure(client, &names, held_for, &|| primaries.counted());
    let cost = (!is_list()).then(measure);

    for (raw, names) in raw.iter_mut().zip(&held) {
        for name in names {
            assert!(raw.acquire_for(name, HOUR_MILLIS));
        }
    }
    let (mut passes, mut passed, mut reads) = (0, Duration::ZERO, 0);
    let what = "renewal of all locks, CPU time";
    let mut group = group(criterion, what, 10, Duration::from_secs(3));
    group.bench_function("floor", |bencher| {
        bencher.iter_custom(|turns| {
            let read = primaries.counted().reads;
            let pass = |_| {
                for (raw, names) in raw.iter_mut().zip(&held) {
                    raw.renew_one_by_one(names, HOUR_MILLIS);
                }
            };
            let spent = cpu_time_of(|| (0..turns).for_each(pass));
            reads += primaries.counted().reads - read;
            passes += turns;
            passed += spent;
            spent
        });
    });
    group.finish();
    if let Some(cost) = cost {
        let renewed = (passes * count as u64).max(1) as f64;
        let floor = (passed.div_f64(renewed), reads as f64 / renewed);
        report_renewals(table, count, &cost, floor);
    }
}

fn report_renewals(table: &mut Table, count: usize, cost: &RenewalCost, floor: (Duration, f64)) {
    let what = |figure| format!("{count} locks for {:.0} s: {figure}", cost.seconds);
    let renewals = cost.renewals.max(1) as f64;

    let each = cost.calls as f64 / renewals;
    let sides = (format!("{}", cost.calls), String::new());
    let figure = (each, " per renewal");
    table.figure(&what("script calls"), sides, figure, Bound::AtMost(1.0));

    let (ours, raw) = (cost.reads as f64 / renewals, floor.1);
    let all = |each: f64| format!("{:.1} for all", each * count as f64);
    let figure = (ours / raw.max(1e-9), " x");
    let sides = (all(ours), all(raw));
    table.figure(&what("reads by the servers"), sides, figure, Bound::None);

    let of_a_core = cost.cpu.as_secs_f64() / cost.seconds * 100.0;
    let sides = (span(cost.cpu), String::new());
    let figure = (of_a_core, " % of a core");
    table.figure(&what("CPU"), sides, figure, Bound::AtMost(10.0));

    let renewed = format!("{} renewed, {} failed", cost.renewals, cost.failed);
    let figure = (cost.lost as f64, "");
    let sides = (renewed, String::new());
    table.figure(&what("lost"), sides, figure, Bound::AtMost(0.0));

    let ours = cost.cpu_of_a_renewal();
    let figure = (ours.as_secs_f64() / floor.0.as_secs_f64().max(1e-9), " x");
    let sides = (span(ours), span(floor.0));
    table.figure("CPU of renewing one lock", sides, figure, Bound::None);
}
