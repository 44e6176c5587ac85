//! A free lock taken and given back, and a held lock taken and given back once more, beside the
//! same two scripts sent by hand on one plain connection.

#[path = "support/mod.rs"]
mod support;

use criterion::Criterion;
use support::{
    Server,
    by_hand::{ByHand, LEASE_MILLIS},
    duel, pin_clients,
    table::{Bound, Table},
    time,
};

fn main() {
    pin_clients();
    let server = Server::start();
    let client = server.client();
    let mut by_hand = ByHand::new(&server);
    let mut criterion = Criterion::default().configure_from_args();
    let mut table = Table::new();

    let lock = client.reentrant_lock("pair:ours");
    let pair = duel(
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
                assert!(by_hand.acquire("pair:floor"));
                by_hand.release("pair:floor");
            })
        },
    );
    table.duel("lock and unlock", &pair, Bound::AtMost(1.20));

    let lock = client.reentrant_lock("nested:ours");
    lock.lock().expect("free");
    assert!(by_hand.acquire("nested:floor"));
    let nested = duel(
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
                by_hand.recount("nested:floor", 2, LEASE_MILLIS);
                by_hand.recount("nested:floor", 1, 0);
            })
        },
    );
    table.duel("nested lock and unlock", &nested, Bound::AtMost(1.20));
    lock.unlock().expect("held");

    criterion.final_summary();
    table.print();
}
