//! A model of the protocol of grants and holds. The checker visits every reachable state and checks
//! the promises in each.
//!
//! Two clients use one lock. The first has two threads or more, so it hands grants over. Time
//! advances in ticks, the same for both clients and for Redis. A lease is two ticks or three; a
//! slice and a linger time are one tick less. Any number of grants and holds follow each other,
//! under any number of owner ids. A command without a reply may be lost, executed, or executed at
//! any later time. Its caller retries or gives up. The number of failures is bounded: each test
//! states the bounds in its [`protocol::Protocol`].
//!
//! Not modelled, because they make no difference here:
//!
//! * fixed leases: a watchdog renews at any time or never
//! * messages and yielding: a waiting thread tries at any time
//! * a late copy of the watchdog's background release: no grant will have its owner ids
//! * a command that is lost: it is a late command that is never executed
//! * nested holds, except in the tests with two levels: no rule reads the count in Redis

mod calls;
mod check;
mod client;
mod link;
mod local;
mod promises;
mod protocol;
mod redis;
mod state;
mod steps;
mod watchdog;
mod whole;
