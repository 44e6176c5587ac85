//! A model of the line of a semaphore: as many clients are called as permits came free.
//!
//! Each client has one thread, which waits for its permits, has them, returns them and gives up any
//! number of times. Java takes and returns a permit without knowing the line, and only the client
//! that listens hears of it. Messages and subscriptions are under way for any time. Scripts are
//! executed at once, as in `lua/shared/permit_line.lua`.
//!
//! Steps that need no timer are urgent. In a state without urgent steps, the time can pass that a
//! called client has to answer. A waiting thread also asks at any other time. Faults are bounded: a
//! client is killed, stops and continues, or a call is lost.

mod machine;
mod server;
mod state;
mod tests;
