//! A model of the condition of a lock: `src/protocol/condition.rs`.
//!
//! Some threads, of one client or of several, each run a short program: they wait or notify, each
//! time with the lock. A request may be lost, executed without a reply, or executed at any later
//! time; its thread sends it again, or gives up. A wait may end by its time, and its thread may
//! fail to acquire the lock again. A client may die; its lock and its places end at any later time.
//!
//! The lock itself is not modelled, nor the length of a place: a thread that lives keeps its place.
//! Messages make no difference: a thread learns at any time that it need not wait any more.

mod machine;
mod promises;
mod redis;
mod state;
mod tests;
