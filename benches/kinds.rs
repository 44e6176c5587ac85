//! An acquire and a release of each kind that no other client uses, and the count-down of a latch.
//! The floor is the same commands in scripts on one raw connection.

#[path = "support/mod.rs"]
mod support;

use criterion::Criterion;
use leasehold::Lock;
use support::{
    Server, compare, pin_clients,
    raw_calls::RawCalls,
    raw_client::{LEASE_MILLIS, RawClient},
    table::{Bound, Table},
    time,
};

const OWNER: &str = "00000000-0000-4000-8000-000000000000:1";
const WRITER: &str = "00000000-0000-4000-8000-000000000000:1:write";

/// The id of a permit has 16 bytes.
const PERMIT: &str = "0123456789abcdef";

/// A record of a request: its number and its reply.
const RECORD: &str = "1000000 1";

/// More than the bench counts down.
const COUNT: u64 = 1 << 31;

/// The source of a script of the floor.
macro_rules! script {
    ($name:literal) => {
        include_str!(concat!("support/scripts/kinds/", $name, ".lua"))
    };
}

fn main() {
    pin_clients();
    let server = Server::start();
    let client = server.client();
    let mut bench = Bench {
        criterion: Criterion::default().configure_from_args(),
        table: Table::new(),
    };
    let floors = Floors {
        server: &server,
        lease: LEASE_MILLIS.to_string(),
    };

    let lock = client.reentrant_lock("plain");
    let mut plain = RawClient::new(&server);
    bench.compare("reentrant lock", || pair(&lock), || plain.pair("floor"));
    let lock = client.fair_lock("fair");
    let mut fair = floors.fair();
    bench.compare("fair lock", || pair(&lock), || fair.run());
    let lock = client.read_write_lock("read-write");
    let (read, mut floor) = (lock.read(), floors.read());
    bench.compare("read lock", || pair(&read), || floor.run());
    let (write, mut floor) = (lock.write(), floors.write());
    bench.compare("write lock", || pair(&write), || floor.run());

    let semaphore = client.semaphore("semaphore");
    semaphore.try_set_permits(4).expect("a reply");
    let mut floor = floors.semaphore();
    bench.compare(
        "permit of a semaphore",
        || {
            semaphore.acquire(1).expect("permits are free");
            semaphore.release(1).expect("it was taken");
        },
        || floor.run(),
    );
    let semaphore = client.leased_semaphore("leased");
    semaphore.try_set_permits(4).expect("a reply");
    let mut floor = floors.leased();
    bench.compare(
        "leased permit",
        || {
            let permit = semaphore.acquire().expect("permits are available");
            permit.release().expect("held");
        },
        || floor.run(),
    );
    let latch = client.count_down_latch("latch");
    latch.try_set_count(COUNT).expect("a reply");
    let mut floor = floors.latch();
    bench.compare(
        "count-down of a latch",
        || {
            latch.count_down().expect("a reply");
        },
        || floor.run(),
    );

    bench.criterion.final_summary();
    bench.table.print();
}

struct Bench {
    criterion: Criterion,
    table: Table,
}

impl Bench {
    fn compare(&mut self, what: &str, mut ours: impl FnMut(), mut floor: impl FnMut()) {
        let times = compare(
            &mut self.criterion,
            what,
            || time(&mut ours),
            || time(&mut floor),
        );
        self.table.comparison(what, &times, Bound::AtMost(1.25));
    }
}

fn pair(lock: &impl Lock) {
    lock.lock().expect("free");
    lock.unlock().expect("held");
}

/// The scripts of each kind, with the keys and channels that the library uses for the name `floor`.
struct Floors<'a> {
    server: &'a Server,
    lease: String,
}

impl Floors<'_> {
    fn calls(&self) -> RawCalls {
        RawCalls::new(self.server)
    }

    fn fair(&self) -> RawCalls {
        let keys = ["floor", "redisson_lock_queue:{floor}"];
        self.calls()
            .call(script!("fair_acquire"), &keys, &[OWNER, &self.lease])
            .call(script!("fair_release"), &keys, &[OWNER])
    }

    fn read(&self) -> RawCalls {
        let hold = format!("{{floor}}:{OWNER}:rwlock_timeout:1");
        let keys = ["floor", "leasehold_line:{floor}", &hold];
        let channel = "redisson_rwlock:{floor}";
        self.calls()
            .call(script!("read_acquire"), &keys, &[OWNER, &self.lease])
            .call(script!("read_release"), &keys, &[OWNER, channel])
    }

    fn write(&self) -> RawCalls {
        let keys = ["floor", "leasehold_line:{floor}"];
        let channel = "redisson_rwlock:{floor}";
        self.calls()
            .call(script!("write_acquire"), &keys, &[WRITER, &self.lease])
            .call(script!("write_release"), &keys, &[WRITER, channel])
    }

    fn semaphore(&self) -> RawCalls {
        let keys = ["floor:semaphore", "floor:records"];
        let channel = "redisson_sc:{floor:semaphore}";
        let mut calls = self
            .calls()
            .call(script!("semaphore_take"), &keys, &[RECORD])
            .call(script!("semaphore_return"), &keys, &[RECORD, channel]);
        calls.prepare(redis::cmd("SET").arg(keys[0]).arg(4));
        calls
    }

    fn leased(&self) -> RawCalls {
        let keys = ["floor:leased", "{floor:leased}:timeout"];
        let channel = "redisson_sc:{floor:leased}";
        let mut calls = self
            .calls()
            .call(script!("permit_acquire"), &keys, &[PERMIT, &self.lease])
            .call(script!("permit_release"), &keys, &[PERMIT, channel, "1"]);
        calls.prepare(redis::cmd("SET").arg(keys[0]).arg(4));
        calls
    }

    fn latch(&self) -> RawCalls {
        let keys = ["floor:latch", "floor:records"];
        let mut calls = self.calls().call(script!("count_down"), &keys, &[RECORD]);
        calls.prepare(redis::cmd("SET").arg(keys[0]).arg(COUNT));
        calls
    }
}
