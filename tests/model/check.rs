//! Visits every reachable state of a model.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fmt::Debug;
use std::hash::{BuildHasher, Hash};
use std::time::Instant;

use foldhash::quality::FixedState;

/// Receives the name of a possible step, with numbers of clients and others, and what it changes.
pub type Step<'a, S> = dyn FnMut(&dyn Debug, &dyn Fn(&mut S)) + 'a;

/// A state machine with promises.
pub trait Model: Debug {
    type State: Clone + Hash;

    fn start(&self) -> Self::State;

    /// Calls `step` for each possible step from a state.
    fn steps(&self, state: &Self::State, step: &mut Step<'_, Self::State>);

    /// Makes equivalent situations equal states.
    fn normalize(&self, _: &mut Self::State) {}

    fn check(&self, state: &Self::State, promises: &mut Promises);
}

/// What the states say about the promises of a model.
#[derive(Debug, Default)]
pub struct Promises {
    /// The promises that the present state breaks.
    broken: Vec<&'static str>,
    /// The situations that must occur in some state, so that the promises are really tested; true
    /// for those that did.
    situations: BTreeMap<&'static str, bool>,
}

impl Promises {
    pub fn always(&mut self, promise: &'static str, is_kept: bool) {
        if !is_kept {
            self.broken.push(promise);
        }
    }

    /// Reports a promise that is about a step and not about a state.
    pub fn of_step(&mut self, broken: Option<&'static str>) {
        self.broken.extend(broken);
    }

    pub fn sometimes(&mut self, situation: &'static str, occurs: bool) {
        *self.situations.entry(situation).or_default() |= occurs;
    }
}

/// The states that were visited, by their hashes: each with the state before it.
struct Explorer<'a, M: Model> {
    model: &'a M,
    visited: HashMap<u64, u64, FixedState>,
    to_visit: VecDeque<M::State>,
    promises: Promises,
}

fn hash(state: &impl Hash) -> u64 {
    FixedState::default().hash_one(state)
}

impl<'a, M: Model> Explorer<'a, M> {
    fn new(model: &'a M) -> Self {
        let mut start = model.start();
        model.normalize(&mut start);
        Self {
            model,
            visited: [(hash(&start), 0)].into_iter().collect(),
            to_visit: [start].into(),
            promises: Promises::default(),
        }
    }

    /// Visits states until one breaks a promise that `ends` the search. Returns the path to it.
    fn run(&mut self, ends: impl Fn(&str) -> bool) -> Option<(&'static str, Vec<String>)> {
        let model = self.model;
        while let Some(state) = self.to_visit.pop_front() {
            self.promises.broken.clear();
            model.check(&state, &mut self.promises);
            let mut broken = self.promises.broken.iter();
            if let Some(promise) = broken.find(|promise| ends(promise)) {
                return Some((promise, self.path_to(&state)));
            }
            let before = hash(&state);
            model.steps(&state, &mut |_, effect| {
                let mut next = state.clone();
                effect(&mut next);
                model.normalize(&mut next);
                self.visited.entry(hash(&next)).or_insert_with(|| {
                    self.to_visit.push_back(next);
                    before
                });
            });
        }
        None
    }

    /// The names of the steps to a state that was visited.
    fn path_to(&self, state: &M::State) -> Vec<String> {
        let mut hashes = vec![hash(state)];
        while let Some(&before) = self.visited.get(&hashes[hashes.len() - 1]) {
            hashes.push(before);
        }
        let mut names = Vec::new();
        let mut state = self.model.start();
        self.model.normalize(&mut state);
        for wanted in hashes.into_iter().rev().skip(2) {
            let from = state.clone();
            let mut name = None;
            self.model.steps(&from, &mut |step, effect| {
                let mut next = from.clone();
                effect(&mut next);
                self.model.normalize(&mut next);
                if hash(&next) == wanted && name.is_none() {
                    (name, state) = (Some(format!("{step:?}")), next);
                }
            });
            names.extend(name);
        }
        names
    }
}

/// Asserts that no reachable state of the model breaks a promise, and that each situation occurs.
pub fn keeps(model: impl Model) {
    let started = Instant::now();
    let mut explorer = Explorer::new(&model);
    if let Some((promise, path)) = explorer.run(|_| true) {
        panic!("{model:?} breaks \"{promise}\": {path:?}");
    }
    let (states, time) = (explorer.visited.len(), started.elapsed());
    println!("{states} states in {time:.1?}: {model:?}");
    for (situation, occurs) in explorer.promises.situations {
        assert!(occurs, "{model:?} has no state in which {situation}");
    }
}

/// Asserts that some reachable state of the model breaks the promise. Some bugs lengthen a queue or
/// add permits without end, so the search ends at the first failure.
pub fn breaks(model: impl Model, promise: &'static str) {
    let found = Explorer::new(&model).run(|broken| broken == promise);
    let (_, path) = found.unwrap_or_else(|| panic!("{model:?} does not break \"{promise}\""));
    println!("{model:?}: {promise}: {} steps: {path:?}", path.len());
}

/// The bounds or the protocol of a model with a change.
pub fn with<B>(mut bounds: B, change: impl FnOnce(&mut B)) -> B {
    change(&mut bounds);
    bounds
}

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
