//! Random numbers, all from the seed of the world.

use std::ops::RangeInclusive;

use crate::world;

/// A number in this range.
pub fn between(range: RangeInclusive<u64>) -> u64 {
    world(|world| world.random.borrow_mut().u64(range))
}

/// An index below `length`, which is not zero.
pub fn index(length: usize) -> usize {
    world(|world| world.random.borrow_mut().usize(0..length))
}

/// True once in this many times.
pub fn one_in(times: u64) -> bool {
    times > 0 && between(1..=times) == 1
}

/// Random bytes.
#[must_use]
pub fn bytes() -> [u8; 16] {
    world(|world| world.random.borrow_mut().u128(..).to_le_bytes())
}

/// A seed for a further generator.
#[must_use]
pub fn seed() -> u64 {
    between(0..=u64::MAX)
}
