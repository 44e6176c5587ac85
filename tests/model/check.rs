//! Runs the checker.

use std::time::Instant;

use stateright::{Checker, Expectation, HasDiscoveries, Model};

use crate::promises::PROMISES;
use crate::protocol::Protocol;
use crate::steps::Machine;

/// Returns the promises that some reachable state breaks. Fails if a state that must occur is not
/// reached.
pub fn broken(protocol: Protocol) -> Vec<&'static str> {
    let started = Instant::now();
    let checker = Machine { protocol }.checker().spawn_bfs().join();
    let Machine { protocol } = checker.model();
    let found = checker.discoveries();
    println!(
        "{} states in {:.1?}: {protocol:?}",
        checker.unique_state_count(),
        started.elapsed()
    );
    for property in checker.model().properties() {
        let must_occur =
            property.expectation == Expectation::Sometimes && protocol.allows(property.name);
        assert!(
            !must_occur || found.contains_key(property.name),
            "never seen: {}",
            property.name
        );
    }
    PROMISES
        .into_iter()
        .filter(|promise| found.contains_key(promise))
        .collect()
}

/// Returns the number of steps in a shortest path to a state that breaks `promise`, or `None`.
pub fn counterexample(protocol: Protocol, promise: &'static str) -> Option<usize> {
    let mut shortest = None;
    loop {
        let machine = Machine {
            protocol: protocol.clone(),
        };
        let checker = machine
            .checker()
            .finish_when(HasDiscoveries::AnyOf([promise].into()));
        // The checker may visit longer paths before it stops, so search again with a smaller depth.
        let checker = match shortest {
            Some(steps) => checker.target_max_depth(steps + 1),
            None => checker,
        };
        let Some(path) = checker.spawn_bfs().join().discovery(promise) else {
            return shortest;
        };
        let steps = path.into_actions();
        println!("{promise}: {} steps: {steps:?}", steps.len());
        shortest = Some(steps.len());
    }
}
