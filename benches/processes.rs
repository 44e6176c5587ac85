//! Threads of several processes on one lock. The floor of the rates is one of the processes alone,
//! on its own lock. All processes have the clients' core.

#[path = "support/mod.rs"]
mod support;

use std::time::Duration;

use support::{
    Samples, Server,
    contention::Load,
    is_list, length, pin_clients,
    table::{Bound, Table},
    worker::{self, Kind, Spec},
    worker_group::Group,
};

const WINDOWS: usize = 5;

/// Longer than the waits to be measured.
fn window() -> Duration {
    length(Duration::from_secs(2), Duration::from_millis(100))
}

struct Bench {
    url: String,
    table: Table,
}

fn main() {
    if worker::serve() || is_list() {
        return;
    }
    pin_clients();
    let server = Server::start();
    let mut bench = Bench {
        url: server.url(),
        table: Table::new(),
    };
    bench.empty();
    bench.busy();
    bench.unequal();
    bench.other_client();
    bench.table.print();
}

impl Bench {
    fn spec(&self, kind: Kind, name: &str, load: Load) -> Spec {
        Spec {
            kind,
            url: self.url.clone(),
            name: name.into(),
            load,
        }
    }

    /// Two processes with 4 threads each, to one process alone.
    fn empty(&mut self) {
        let spec = |name| self.spec(Kind::Lock, name, Load::empty(4));
        let both = Group::start(&[spec("empty"), spec("empty")]);
        let alone = Group::start(&[spec("alone")]);
        let mut groups = [both, alone];
        Group::alternate(&mut groups, WINDOWS, window());
        let [both, alone] = groups;

        let what = "2 processes x 4 threads, empty";
        let rates = [&both, &alone].map(|group| group.totals.per_second());
        let sides = rates.map(|rate| format!("{rate:.0}/s")).into();
        let figure = (rates[0] / rates[1].max(1e-9), " x");
        let line = format!("{what}: acquisitions, to one process alone");
        self.table.figure(&line, sides, figure, Bound::AtLeast(0.5));
        self.share(what, &both, Bound::AtLeast(0.40));
        self.longest_wait(what, &both, Bound::AtMost(80.0));
    }

    fn busy(&mut self) {
        let spec = self.spec(Kind::Lock, "busy", Load::busy(4, 2));
        let group = Self::measure(&[spec.clone(), spec]);
        let what = "2 processes x 4 threads, 2 ms in, no pause";
        self.share(what, &group, Bound::AtLeast(0.45));
        self.longest_wait(what, &group, Bound::AtMost(80.0));
    }

    fn unequal(&mut self) {
        let spec = |threads| self.spec(Kind::Lock, "unequal", Load::busy(threads, 2));
        let group = Self::measure(&[spec(6), spec(1), spec(1)]);
        let what = "3 processes with 6, 1 and 1 threads, 2 ms in";
        self.share(what, &group, Bound::AtLeast(0.25));
        self.longest_wait(what, &group, Bound::AtMost(200.0));
    }

    /// Two processes with the library, and one with the habits of another client: it does not
    /// yield.
    fn other_client(&mut self) {
        let spec = |kind| self.spec(kind, "other", Load::busy(1, 2));
        let group = Self::measure(&[spec(Kind::Lock), spec(Kind::Lock), spec(Kind::Raw)]);
        let what = "3 processes, one without the library, 2 ms in";
        self.share(what, &group, Bound::AtLeast(0.15));
        self.longest_wait(what, &group, Bound::None);
    }

    fn measure(specs: &[Spec]) -> Group {
        let mut groups = [Group::start(specs)];
        Group::alternate(&mut groups, WINDOWS, window());
        let [group] = groups;
        group
    }

    fn share(&mut self, what: &str, group: &Group, bound: Bound) {
        let line = format!("{what}: smallest share of a process");
        let figure = (group.smallest_share(), "");
        let shares = group.shares().map(|share| format!("{share:.2}"));
        let shares = shares.collect::<Vec<_>>().join(" + ");
        self.table
            .figure(&line, (shares, String::new()), figure, bound);
    }

    fn longest_wait(&mut self, what: &str, group: &Group, bound: Bound) {
        let line = format!("{what}: wait; the longest");
        let longest = (group.totals.longest_wait_millis(), " ms");
        let waits = (&group.totals.waits, &Samples::default());
        self.table.times(&line, waits, longest, bound);
    }
}
