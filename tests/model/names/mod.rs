//! A model of clients that wait for several locks, each with a line of its own.
//!
//! The clients need sets of names that overlap. A request is one step, with its reply and the
//! messages that it causes: `line` has the messages that are under way, and the faults. A client
//! that is called has to ask. One of several names asks again after some time, and then gives up
//! what was reserved for it.

mod machine;
mod tests;
