//! Locks in a cluster of three primaries with a replica each. Lock and unlock of a free lock, and
//! eight threads on one lock: the floor is the same scripts on a raw connection to the primary. A
//! thousand locks in a thousand slots, which are renewed one by one: the floor is a raw pipeline to
//! each primary.

#[path = "support/deployments.rs"]
mod deployments;
#[path = "support/mod.rs"]
mod support;

use std::{cell::RefCell, collections::HashSet, time::Duration};

use criterion::Criterion;
use deployments::ClusterDeployment;
use leasehold::LockClient;
use redis::Connection;
use support::{
    compare,
    contention::empty_section,
    group, is_list, is_test, pin_clients, pin_servers,
    raw_client::RawClient,
    renewal_cost::{RenewalCost, ServerCounts, cpu_time, lease},
    server::CommandCounts,
    table::{Bound, Table, span},
    time,
};

/// Commands inside scripts, and commands of the replicas and of the bench itself.
const NOT_SENT_BY_CLIENTS: [&str; 15] = [
    "exists", "hexists", "hset", "hdel", "hlen", "hgetall", "del", "pexpire", "pttl", "get", "set",
    "time", "spublish", "replconf", "info",
];

const PAIRS: u64 = 1_000;

/// The first slot of each primary of the deployment.
const FIRST_SLOTS: [u16; 3] = [0, 5461, 10923];

const HOUR_MILLIS: u64 = 3_600_000;

fn main() {
    pin_servers();
    let cluster = ClusterDeployment::shared();
    pin_clients();
    let client = || LockClient::builder_cluster(cluster.urls());
    let primaries = Primaries::of(&cluster);
    let mut criterion = Criterion::default().configure_from_args();
    let mut table = Table::new();

    let renewing = client().watchdog_lease(lease()).build();
    renewals(
        &mut criterion,
        &mut table,
        &primaries,
        &renewing.expect("valid settings"),
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
        || {
            time(|| {
                assert!(raw.acquire(floor));
                raw.release(floor);
            })
        },
    );
    table.comparison("lock and unlock", &pairs, Bound::AtMost(1.20));
    if !is_list() {
        let before = primaries.sent();
        (0..PAIRS).for_each(|_| pair());
        let each = (primaries.sent() - before) as f64 / PAIRS as f64;
        let sides = (format!("{each:.2}"), "2.00".into());
        let what = "commands of a pair";
        table.figure(what, sides, (each, ""), Bound::AtMost(2.0));
    }
    let sent = || primaries.sent();
    empty_section(criterion, table, &lock, (raw, floor), &sent);
}

fn renewals(
    criterion: &mut Criterion,
    table: &mut Table,
    primaries: &Primaries,
    client: &LockClient,
) {
    let count = if is_test() { 60 } else { 1_000 };
    let held = primaries.names("held", count);
    // First, because this loads the scripts. Otherwise the first renewals would send them.
    let mut raw = [0, 1, 2].map(|shard| primaries.raw(shard));
    let cost =
        (!is_list()).then(|| RenewalCost::measure(client, &held.concat(), &|| primaries.counted()));

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
            let (before, read) = (cpu_time(), primaries.counted().reads);
            for _ in 0..turns {
                for (raw, names) in raw.iter_mut().zip(&held) {
                    raw.renew_one_by_one(names, HOUR_MILLIS);
                }
            }
            let spent = cpu_time() - before;
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

/// The three primaries, in the order of their slots.
struct Primaries {
    urls: Vec<String>,
    connections: RefCell<Vec<Connection>>,
}

impl Primaries {
    fn of(cluster: &ClusterDeployment) -> Self {
        let primaries = cluster.primaries();
        let connections = primaries.iter().map(|one| one.connection()).collect();
        Self {
            urls: primaries.iter().map(|one| one.url()).collect(),
            connections: RefCell::new(connections),
        }
    }

    fn raw(&self, shard: usize) -> RawClient {
        let client = redis::Client::open(self.urls[shard].as_str());
        let connection = client.expect("a valid URL").get_connection();
        RawClient::in_cluster(connection.expect("the server is up"))
    }

    /// `count` names in different slots, by primary.
    fn names(&self, prefix: &str, count: usize) -> Vec<Vec<String>> {
        let connection = &mut self.connections.borrow_mut()[0];
        let (mut names, mut slots) = (vec![Vec::new(); 3], HashSet::new());
        for name in (0_u32..).map(|number| format!("{prefix}:{number}")) {
            if slots.len() == count {
                break;
            }
            let mut which = redis::cmd("CLUSTER");
            let slot: u16 = which
                .arg("KEYSLOT")
                .arg(&name)
                .query(connection)
                .expect("a slot");
            if slots.insert(slot) {
                let shard = FIRST_SLOTS.partition_point(|first| *first <= slot) - 1;
                names[shard].push(name);
            }
        }
        names
    }

    fn sent(&self) -> u64 {
        let mut connections = self.connections.borrow_mut();
        let counts = connections
            .iter_mut()
            .map(|primary| CommandCounts::ask(primary).all_but(&NOT_SENT_BY_CLIENTS));
        counts.sum()
    }

    fn counted(&self) -> ServerCounts {
        let mut all = ServerCounts {
            calls: 0,
            reads: 0,
            locks: 0,
        };
        for primary in self.connections.borrow_mut().iter_mut() {
            let counts = CommandCounts::ask(primary);
            all.calls += counts.of("evalsha") + counts.of("eval");
            // Does not count the commands of replicas and of this bench, each of which is one read.
            let others = ["replconf", "info", "dbsize"].map(|name| counts.of(name));
            all.reads += reads(primary) - others.iter().sum::<u64>();
            let size: u64 = redis::cmd("DBSIZE").query(primary).expect("a number");
            all.locks += size;
        }
        all
    }
}

fn reads(primary: &mut Connection) -> u64 {
    let info: String = redis::cmd("INFO")
        .arg("stats")
        .query(primary)
        .expect("INFO works");
    let mut lines = info.lines();
    let reads = lines.find_map(|line| line.strip_prefix("total_reads_processed:"));
    reads
        .expect("Redis reports it")
        .trim()
        .parse()
        .expect("a number")
}
