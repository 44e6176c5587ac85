//! A model of the count-and-owner protocol. The checker visits every reachable state and checks the
//! promises in each.
//!
//! Two clients with one thread each acquire one lock, which nests to two levels. Time advances in
//! ticks, the same for both clients; a lease is two ticks. Any number of holds follow each other,
//! under any number of owner ids. A command without a reply may be lost, executed, or executed at
//! any later time; its caller retries or gives up. The number of failures is bounded: each test
//! states the bounds in its [`protocol::Protocol`].
//!
//! Not modelled, because they make no difference here: fixed leases (a watchdog renews at any time
//! or never), messages, the local queue, more than three unanswered copies of one command, the time
//! after which the cleanup gives up, and `extend` (a renewal that a thread sends).

mod check;
mod client;
mod commands;
mod planted;
mod promises;
mod protocol;
mod redis;
mod state;
mod steps;
mod thread;
mod walks;
mod watchdog;
mod whole;
