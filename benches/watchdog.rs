//! The cost of holding a hundred thousand locks with a lease of 30 s. The floor is the CPU time of
//! the same script calls on a raw connection.

#[path = "support/mod.rs"]
mod support;

use std::time::Duration;

use criterion::Criterion;
use leasehold::LockClient;
use support::{
    Server, group, is_list, is_test, pin_clients,
    raw_client::RawClient,
    renewal_cost::{Holding, RenewalCost, ServerCounts},
    table::{Bound, Table, span},
    usage::cpu_time_of,
};

fn locks() -> usize {
    if is_test() { 300 } else { 100_000 }
}

fn measure(server: &Server, holding: Holding) -> RenewalCost {
    let client = LockClient::builder(&server.url())
        .watchdog_lease(holding.lease)
        .build()
        .expect("good settings");
    let names: Vec<String> = (0..locks())
        .map(|number| format!("held:{number}"))
        .collect();
    RenewalCost::measure(&client, &names, holding.time, &|| {
        let counts = server.command_counts();
        let locks = redis::cmd("DBSIZE").query(&mut server.connection());
        ServerCounts {
            calls: counts.of("evalsha") + counts.of("eval"),
            reads: 0,
            locks: locks.expect("a number"),
        }
    })
}

fn main() {
    pin_clients();
    let server = Server::start();
    let holding = Holding::new(30, 90);
    let cost = (!is_list()).then(|| measure(&server, holding));
    let mut criterion = Criterion::default().configure_from_args();
    let mut table = Table::new();

    let mut raw = RawClient::new(&server);
    let keys: Vec<String> = (0..locks())
        .map(|number| format!("floor:{number}"))
        .collect();
    for key in &keys {
        assert!(raw.acquire_for(key, 3_600_000));
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
            let spent = cpu_time_of(|| (0..turns).for_each(|_| raw.renew(&keys, 3_600_000)));
            passes += turns;
            passed += spent;
            spent
        });
    });
    group.finish();

    if let Some(cost) = cost {
        let floor = passed.div_f64((passes * keys.len() as u64).max(1) as f64);
        report(&mut table, &cost, holding, floor);
    }
    criterion.final_summary();
    table.print();
}

fn report(table: &mut Table, cost: &RenewalCost, holding: Holding, floor: Duration) {
    let what = |figure| format!("{} locks for {:.0} s: {figure}", locks(), cost.seconds);
    let none = String::new;

    let leases = cost.seconds / holding.lease.as_secs_f64();
    let calls = format!("{:.0} a lease", cost.calls as f64 / leases);
    let figure = (cost.calls as f64, "");
    table.figure(&what("script calls"), (calls, none()), figure, Bound::None);

    let of_a_core = cost.cpu.as_secs_f64() / cost.seconds * 100.0;
    let figure = (of_a_core, " % of a core");
    table.figure(
        &what("CPU"),
        (span(cost.cpu), none()),
        figure,
        Bound::AtMost(3.0),
    );

    let renewals = format!("{} renewed, {} failed", cost.renewals, cost.failed);
    let figure = (cost.lost as f64, "");
    table.figure(
        &what("lost"),
        (renewals, none()),
        figure,
        Bound::AtMost(0.0),
    );

    if let Some(bytes) = cost.memory_each {
        let what = what("bytes of memory for each");
        table.figure(&what, (none(), none()), (bytes, ""), Bound::AtMost(1_000.0));
    }

    let ours = cost.cpu_of_a_renewal();
    let figure = (ours.as_secs_f64() / floor.as_secs_f64().max(1e-9), " x");
    let sides = (span(ours), span(floor));
    table.figure("CPU of renewing one lock", sides, figure, Bound::None);
}
