//! Runs the checker.

use std::fmt::Debug;
use std::hash::Hash;
use std::time::Instant;

use stateright::{Checker, Expectation, HasDiscoveries, Model};

use crate::promises::PROMISES;
use crate::protocol::Protocol;
use crate::steps::Machine;

/// Returns the promises that some reachable state of the library's protocol breaks. Fails if a state
/// that must occur is not reached.
pub fn broken(protocol: Protocol) -> Vec<&'static str> {
    let machine = Machine {
        protocol: protocol.clone(),
    };
    broken_of(machine, &PROMISES, |name| protocol.allows(name))
}

/// Returns the `promises` that some reachable state of the model breaks. Fails if a state that must
/// occur is not reached, unless no run has it: `may_occur` is false for its name.
pub fn broken_of<M>(
    model: M,
    promises: &[&'static str],
    may_occur: impl Fn(&str) -> bool,
) -> Vec<&'static str>
where
    M: Model + Debug + Send + Sync + 'static,
    M::State: Hash + Send + Sync + Clone + PartialEq + Debug + 'static,
    M::Action: Clone + PartialEq + Debug,
{
    let started = Instant::now();
    let checker = model.checker().spawn_bfs().join();
    let found = checker.discoveries();
    println!(
        "{} states in {:.1?}: {:?}",
        checker.unique_state_count(),
        started.elapsed(),
        checker.model()
    );
    for property in checker.model().properties() {
        let must_occur = property.expectation == Expectation::Sometimes && may_occur(property.name);
        assert!(
            !must_occur || found.contains_key(property.name),
            "never seen: {}",
            property.name
        );
    }
    let mut broken = Vec::new();
    for promise in promises {
        if let Some(path) = found.get(promise) {
            println!("{promise}: {:?}", path.clone().into_actions());
            broken.push(*promise);
        }
    }
    broken
}

/// Asserts that some reachable state of the model breaks the promise. Some bugs lengthen a queue or
/// add permits without end, so the search ends at the first failure.
pub fn breaks<M>(model: M, promise: &'static str)
where
    M: Model + Debug + Send + Sync + 'static,
    M::State: Hash + Send + Sync + Clone + PartialEq + Debug + 'static,
    M::Action: Clone + PartialEq + Debug,
{
    let bug = format!("{model:?}");
    let checker = model.checker();
    let checker = checker.finish_when(HasDiscoveries::AnyOf([promise].into()));
    let path = checker.spawn_bfs().join().discovery(promise);
    let steps = path.expect("the bug is found").into_actions();
    println!("{bug}: {promise}: {} steps: {steps:?}", steps.len());
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
