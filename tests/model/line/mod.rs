//! A model of the line: the clients that wait for a lock, and the messages that call them.
//!
//! Each client of this library has one thread, which waits, holds, releases and gives up any number
//! of times, as a reader or as a writer. A lock without readers has writers only. Java clients
//! enter a lock without knowing the line, and when they leave it free, they notify the clients that
//! listen on the shared channel. Requests, replies, messages and subscriptions are under way for
//! any time. Scripts are executed at once.
//!
//! Steps that need no timer are urgent. A state without urgent steps is quiet: then the time of a
//! call ends, and those look at the line that have called, or were told of the call. If there are
//! none, all look that wait. A waiting thread also asks, and looks, at any other time. Faults are
//! bounded: a client is killed, its host vanishes, it stops and continues, its subscriber
//! connection breaks, a request has no reply and is executed late, the key of the line is deleted,
//! or a slot moves.

mod clients;
mod machine;
mod promises;
mod server;
mod state;
mod tests;
