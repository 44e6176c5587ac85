//! The local queue under many interleavings of its threads: hand-over, threads that give up,
//! losses, idle grants, tokens, readers beside writers, permits.
//!
//! The files of the library are compiled with the mutexes of `shuttle`, which runs the threads one
//! at a time and decides at each mutex which one continues. A thread that is not woken is a
//! deadlock, which `shuttle` reports together with the schedule that leads to it.

#![allow(
    dead_code,
    unused_imports,
    reason = "only a part of the library's files is used"
)]
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::expect_used,
    reason = "a test"
)]

#[path = "../../src/base/mod.rs"]
mod base;
#[path = "../../src/error/mod.rs"]
mod error;
#[path = "../../src/lease.rs"]
mod lease;
#[path = "../../src/local/mod.rs"]
mod local;
#[path = "../../src/observe/mod.rs"]
mod observe;
mod permits;
#[path = "../../src/protocol/mod.rs"]
mod protocol;
mod readers;
mod scenario;
#[path = "../../src/script/mod.rs"]
mod script;
mod watchdog;

use permits::Permits;
use readers::Readers;
use scenario::Scenario;

const ITERATIONS: usize = 3000;

fn main() {
    let plain = Scenario::default();
    for (name, scenario) in [
        ("threads take turns", plain),
        (
            "threads give up",
            Scenario {
                gives_up: true,
                ..plain
            },
        ),
        (
            "grants are lost",
            Scenario {
                loses: true,
                ..plain
            },
        ),
        (
            "grants are idle",
            Scenario {
                lingers: true,
                ..plain
            },
        ),
        (
            "threads wait on conditions",
            Scenario {
                suspends: true,
                loses: true,
                ..plain
            },
        ),
        (
            "two locks",
            Scenario {
                locks: 2,
                gives_up: true,
                ..plain
            },
        ),
        (
            "a thread with one lock acquires another",
            Scenario {
                locks: 2,
                nests: true,
                ..plain
            },
        ),
        (
            "everything together",
            Scenario {
                locks: 2,
                gives_up: true,
                loses: true,
                lingers: true,
                suspends: true,
                nests: true,
            },
        ),
    ] {
        shuttle::check_pct(move || scenario.run(), ITERATIONS / 2, 3);
        shuttle::check_random(move || scenario.run(), ITERATIONS);
        println!("test {name} ... ok");
    }
    let all = [false, true];
    for (gives_up, loses, lingers) in all
        .into_iter()
        .flat_map(|one| all.map(|two| (one, two)))
        .flat_map(|(one, two)| all.map(|three| (one, two, three)))
    {
        let readers = Readers {
            gives_up,
            loses,
            lingers,
        };
        shuttle::check_pct(move || readers.run(), ITERATIONS / 2, 3);
        shuttle::check_random(move || readers.run(), ITERATIONS);
        println!("test readers and writers, {readers:?} ... ok");
    }
    for (free, gives_up) in [(1, false), (1, true), (2, false), (2, true)] {
        let permits = Permits { free, gives_up };
        shuttle::check_pct(move || permits.run(), ITERATIONS / 2, 3);
        shuttle::check_random(move || permits.run(), ITERATIONS);
        println!("test {permits:?} ... ok");
    }
    println!("20 passed, 0 failed");
}
