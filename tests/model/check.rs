//! Runs the checker.

use std::time::Instant;

use stateright::{Checker, Expectation, HasDiscoveries, Model};

use crate::promises::PROMISES;
use crate::protocol::Protocol;
use crate::steps::Machine;

/// The promises that do not hold in every state that can be reached. Fails if the machine does not
/// come to life.
pub fn broken(protocol: Protocol) -> Vec<&'static str> {
    let started = Instant::now();
    let words = format!("{protocol:?}");
    let machine = Machine {
        protocol,
        symmetric: true,
    };
    let checker = machine.checker().threads(2).spawn_bfs().join();
    let found = checker.discoveries();
    println!(
        "{} states in {:.1?}: {words}",
        checker.unique_state_count(),
        started.elapsed()
    );
    for property in checker.model().properties() {
        let expected = property.expectation == Expectation::Sometimes
            && checker.model().is_to_occur(property.name);
        assert!(
            !expected || found.contains_key(property.name),
            "never seen: {}",
            property.name
        );
    }
    PROMISES
        .into_iter()
        .filter(|promise| found.contains_key(promise))
        .collect()
}

/// The steps of a shortest way to break `promise`; none if there is no way.
pub fn counterexample(protocol: Protocol, promise: &'static str) -> Option<usize> {
    let mut shortest = None;
    loop {
        let machine = Machine {
            protocol: protocol.clone(),
            symmetric: false,
        };
        let checker = machine
            .checker()
            .finish_when(HasDiscoveries::AnyOf([promise].into()));
        // The checker looks at some more states after the first that it finds.
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
