//! What every other module may use: time, identity, names in Redis, and ending a thread's sleep.

pub(crate) mod backoff;
pub(crate) mod call_budget;
pub(crate) mod clock;
pub(crate) mod interrupt;
pub(crate) mod key;
pub(crate) mod owner;
pub(crate) mod parker;
pub(crate) mod process;
