//! The count-and-owner protocol as a small machine, checked exhaustively: which promises hold in
//! every state that can be reached.
//!
//! Two clients of one thread each want one lock, which nests to two. Time goes in ticks, the same for
//! all; a lease is two of them. Any number of locks is taken one after the other, under any number of
//! owner names. A command that gets no answer in time may be lost, executed, or be executed at any
//! later time, and its caller asks again or gives up. What is bounded is how often something goes
//! wrong: each test says it in its [`protocol::Protocol`].
//!
//! Left out, because they make no difference here: fixed leases (watchdogs renew whenever they like,
//! or never), messages, the queue at home, more than three unanswered copies of one command, the time
//! after which a withdrawal is given up, and `extend` (a renewal that a thread sends).

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
