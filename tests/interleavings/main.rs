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
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test")]

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
mod scenario;
#[path = "../../src/script/mod.rs"]
mod script;
mod watchdog;

use permits::Permits;
use scenario::Scenario;

const ITERATIONS: usize = 3000;

fn main() {
    let with = |change: fn(&mut Scenario)| {
        let mut scenario = Scenario::default();
        change(&mut scenario);
        scenario
    };
    let mut scenarios = vec![
        Scenario::default(),
        with(|it| it.gives_up = true),
        with(|it| it.loses = true),
        with(|it| it.lingers = true),
        with(|it| (it.suspends, it.loses) = (true, true)),
        with(|it| (it.locks, it.gives_up) = (2, true)),
        with(|it| (it.locks, it.nests) = (2, true)),
        Scenario {
            locks: 2,
            reads: false,
            gives_up: true,
            loses: true,
            lingers: true,
            suspends: true,
            nests: true,
        },
    ];
    scenarios.extend((0..8).map(|bits| Scenario {
        reads: true,
        gives_up: bits & 1 != 0,
        loses: bits & 2 != 0,
        lingers: bits & 4 != 0,
        ..Scenario::default()
    }));
    for scenario in &scenarios {
        let scenario = *scenario;
        shuttle::check_pct(move || scenario.run(), ITERATIONS / 2, 3);
        shuttle::check_random(move || scenario.run(), ITERATIONS);
        println!("test {scenario:?} ... ok");
    }
    let permits = [(1, false), (1, true), (2, false), (2, true)];
    for (free, gives_up) in permits {
        let permits = Permits { free, gives_up };
        shuttle::check_pct(move || permits.run(), ITERATIONS / 2, 3);
        shuttle::check_random(move || permits.run(), ITERATIONS);
        println!("test {permits:?} ... ok");
    }
    println!("{} passed, 0 failed", scenarios.len() + permits.len());
}
