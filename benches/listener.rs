//! The cost of yielding to a listener that does not want the lock: one thread locks and unlocks
//! while another client is subscribed to the lock's channel and does nothing else. The floor is the
//! same without a listener.

#[path = "support/mod.rs"]
mod support;

use support::{
    Server,
    contention::{Enter, Load, enter, windows},
    is_list, pin_clients,
    raw_waiter::Listener,
    table::{Bound, Table},
};

const ONE_THREAD: Load = Load::empty(1);

fn main() {
    if is_list() {
        return;
    }
    pin_clients();
    let server = Server::start();
    let client = server.client();
    let (heard, unheard) = (
        client.reentrant_lock("heard"),
        client.reentrant_lock("unheard"),
    );
    let _listener = Listener::new(&server.url(), "heard");

    let (heard, unheard) = (enter(&heard), enter(&unheard));
    let sides: [&Enter<'_>; 2] = [&heard, &unheard];
    let [heard, unheard] = windows(sides.map(|side| (side, ONE_THREAD)));

    let mut table = Table::new();
    let what = "one thread, with a listener to without one: pairs";
    let ratio = heard.per_second() / unheard.per_second();
    let sides = [&heard, &unheard].map(|side| format!("{:.0}/s", side.per_second()));
    table.figure(what, sides.into(), (ratio, " x"), Bound::AtLeast(0.8));
    let what = "the same: wait; the longest";
    let longest = (heard.longest_wait_millis(), " ms");
    table.times(what, (&heard.waits, &unheard.waits), longest, Bound::None);
    table.print();
}
