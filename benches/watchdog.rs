//! Ten thousand held locks with a lease of 6 s: what keeping them costs, beside the CPU time of the
//! same script calls made by hand.

#[path = "support/mod.rs"]
mod support;

use std::{env, thread, time::Duration};

use criterion::Criterion;
use leasehold::{Lock, LockClient, Stats};
use rustix::time::{ClockId, clock_gettime};
use support::{
    Server,
    by_hand::ByHand,
    group, is_list, is_test, length, pin_clients,
    server::CommandCounts,
    table::{Bound, Table, span},
};

/// How long to watch in seconds, 30 unless it is set.
const SECONDS: &str = "LEASEHOLD_BENCH_SECONDS";

fn lease() -> Duration {
    length(Duration::from_secs(6), Duration::from_millis(600))
}

fn watched_for() -> Duration {
    let seconds = env::var(SECONDS).ok().and_then(|set| set.parse().ok());
    length(Duration::from_secs(seconds.unwrap_or(30)), lease())
}

fn locks() -> usize {
    if is_test() { 300 } else { 10_000 }
}

/// What a period of holding all locks cost.
struct Cost {
    seconds: f64,
    cpu: Duration,
    calls: u64,
    renewals: u64,
    failed: u64,
    lost: u64,
}

impl Cost {
    /// Takes all locks, and then only holds them.
    fn measure(server: &Server) -> Self {
        let client = LockClient::builder(&server.url())
            .watchdog_lease(lease())
            .build()
            .expect("good settings");
        let locks: Vec<_> = (0..locks())
            .map(|number| client.reentrant_lock(&format!("held:{number}")))
            .collect();
        locks.iter().for_each(|lock| lock.lock().expect("free"));

        let (cpu, stats, counts) = (cpu_time(), client.stats(), server.command_counts());
        thread::sleep(watched_for());
        let cost = Self::between((cpu, stats, counts), &client, server);

        let standing: u64 = redis::cmd("DBSIZE")
            .query(&mut server.connection())
            .expect("a number");
        let missing = (locks.len() as u64).saturating_sub(standing);
        locks.iter().for_each(|lock| lock.unlock().expect("held"));
        Self {
            lost: cost.lost.max(missing),
            ..cost
        }
    }

    fn between(
        (cpu, stats, counts): (Duration, Stats, CommandCounts),
        client: &LockClient,
        server: &Server,
    ) -> Self {
        let cpu = cpu_time() - cpu;
        let (now, now_counts) = (client.stats(), server.command_counts());
        let calls = |counts: &CommandCounts| counts.of("evalsha") + counts.of("eval");
        Self {
            seconds: watched_for().as_secs_f64(),
            cpu,
            calls: calls(&now_counts) - calls(&counts),
            renewals: now.renewals - stats.renewals,
            failed: now.renewals_failed + now.renewals_unknown
                - stats.renewals_failed
                - stats.renewals_unknown,
            lost: now.lost - stats.lost,
        }
    }

    fn cpu_of_a_renewal(&self) -> Duration {
        self.cpu.div_f64(self.renewals.max(1) as f64)
    }
}

/// Of this process, all of its threads.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(
        time.tv_sec.unsigned_abs(),
        time.tv_nsec.unsigned_abs() as u32,
    )
}

fn main() {
    pin_clients();
    let server = Server::start();
    let cost = (!is_list()).then(|| Cost::measure(&server));
    let mut criterion = Criterion::default().configure_from_args();
    let mut table = Table::new();

    let mut by_hand = ByHand::new(&server);
    let keys: Vec<String> = (0..locks())
        .map(|number| format!("floor:{number}"))
        .collect();
    for key in &keys {
        assert!(by_hand.acquire_for(key, 3_600_000));
    }
    let (mut passes, mut passed) = (0, Duration::ZERO);
    let mut group = group(
        &mut criterion,
        "renewal of all locks, CPU time",
        10,
        Duration::from_secs(3),
    );
    group.bench_function("floor", |bencher| {
        bencher.iter_custom(|turns| {
            let before = cpu_time();
            (0..turns).for_each(|_| by_hand.renew(&keys, 3_600_000));
            let spent = cpu_time() - before;
            passes += turns;
            passed += spent;
            spent
        });
    });
    group.finish();

    if let Some(cost) = cost {
        let floor = passed.div_f64((passes * keys.len() as u64).max(1) as f64);
        report(&mut table, &cost, floor);
    }
    criterion.final_summary();
    table.print();
}

fn report(table: &mut Table, cost: &Cost, floor: Duration) {
    let what = |figure| format!("{} locks for {:.0} s: {figure}", locks(), cost.seconds);
    let none = String::new;

    let leases = cost.seconds / lease().as_secs_f64();
    let calls = format!("{:.0} a lease", cost.calls as f64 / leases);
    let figure = (cost.calls as f64, "");
    table.figure(
        &what("script calls"),
        (calls, none()),
        figure,
        Bound::AtMost(1000.0),
    );

    let of_a_core = cost.cpu.as_secs_f64() / cost.seconds * 100.0;
    let figure = (of_a_core, " % of a core");
    table.figure(
        &what("CPU"),
        (span(cost.cpu), none()),
        figure,
        Bound::AtMost(10.0),
    );

    let renewals = format!("{} renewed, {} failed", cost.renewals, cost.failed);
    let figure = (cost.lost as f64, "");
    table.figure(
        &what("lost"),
        (renewals, none()),
        figure,
        Bound::AtMost(0.0),
    );

    let ours = cost.cpu_of_a_renewal();
    let figure = (ours.as_secs_f64() / floor.as_secs_f64().max(1e-9), " x");
    let sides = (span(ours), span(floor));
    table.figure("CPU of renewing one lock", sides, figure, Bound::None);
}
