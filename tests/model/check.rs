//! Runs the checker.

use std::fmt::Debug;
use std::hash::Hash;
use std::time::Instant;

use stateright::{Checker, Expectation, HasDiscoveries, Model};

/// What the checker needs of a model.
pub trait Checked:
    Model<
        State: Hash + Send + Sync + Clone + PartialEq + Debug + 'static,
        Action: Clone + PartialEq + Debug,
    > + Debug
    + Send
    + Sync
    + 'static
{
}

impl<M> Checked for M
where
    M: Model + Debug + Send + Sync + 'static,
    M::State: Hash + Send + Sync + Clone + PartialEq + Debug + 'static,
    M::Action: Clone + PartialEq + Debug,
{
}

/// A promise that is about a step and not about a state. The step that breaks it writes its name
/// into the state.
macro_rules! by_step {
    ($promise:expr) => {
        stateright::Property::always($promise, |_, state: &State| state.broken != Some($promise))
    };
}
pub(crate) use by_step;

/// Numbers the ids of a state in the order in which the state mentions them, so that equivalent
/// situations are equal states.
pub fn renumber() -> impl FnMut(&mut u8) {
    let (mut new, mut next) = ([None; 16], 0);
    move |id| {
        *id = *new[*id as usize].get_or_insert_with(|| {
            next += 1;
            next - 1
        });
    }
}

/// The bounds or the protocol of a model with a change.
pub fn with<B>(mut bounds: B, change: impl FnOnce(&mut B)) -> B {
    change(&mut bounds);
    bounds
}

/// Asserts that no reachable state of the model breaks a promise, and that each situation occurs in
/// some state, so that the promises are really tested.
pub fn keeps(model: impl Checked) {
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
        let path = found
            .get(property.name)
            .map(|path| path.clone().into_actions());
        let must_occur = property.expectation == Expectation::Sometimes;
        assert_eq!(path.is_some(), must_occur, "{}: {path:?}", property.name);
    }
}

/// Asserts that some reachable state of the model breaks the promise. Some bugs lengthen a queue or
/// add permits without end, so the search ends at the first failure.
pub fn breaks(model: impl Checked, promise: &'static str) {
    let bug = format!("{model:?}");
    let checker = model.checker();
    let checker = checker.finish_when(HasDiscoveries::AnyOf([promise].into()));
    let path = checker.spawn_bfs().join().discovery(promise);
    let steps = path.unwrap_or_else(|| panic!("{bug} does not break \"{promise}\""));
    let steps = steps.into_actions();
    println!("{bug}: {promise}: {} steps: {steps:?}", steps.len());
}
