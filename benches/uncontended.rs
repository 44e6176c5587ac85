//! Lock and unlock of a free lock, and nested lock and unlock of a held lock. The floor is the same
//! two scripts on one raw connection.

#[path = "support/mod.rs"]
mod support;

use criterion::Criterion;
use support::{
    Server, compare, pin_clients,
    raw_client::{LEASE_MILLIS, RawClient},
    table::{Bound, Table},
    time,
};

fn main() {
    pin_clients();
    let server = Server::start();
    let client = server.client();
    let mut raw = RawClient::new(&server);
    let mut criterion = Criterion::default().configure_from_args();
    let mut table = Table::new();

    let lock = client.reentrant_lock("pair:ours");
    let pair = compare(
        &mut criterion,
        "lock and unlock",
        || {
            time(|| {
                lock.lock().expect("free");
                lock.unlock().expect("held");
            })
        },
        || {
            time(|| {
                assert!(raw.acquire("pair:floor"));
                raw.release("pair:floor");
            })
        },
    );
    table.comparison("lock and unlock", &pair, Bound::AtMost(1.20));

    let lock = client.reentrant_lock("nested:ours");
    lock.lock().expect("free");
    assert!(raw.acquire("nested:floor"));
    let nested = compare(
        &mut criterion,
        "nested lock and unlock",
        || {
            time(|| {
                lock.lock().expect("held");
                lock.unlock().expect("held");
            })
        },
        || {
            time(|| {
                raw.recount("nested:floor", 2, LEASE_MILLIS);
                raw.recount("nested:floor", 1, 0);
            })
        },
    );
    table.comparison("nested lock and unlock", &nested, Bound::AtMost(1.20));
    lock.unlock().expect("held");

    criterion.final_summary();
    table.print();
}
