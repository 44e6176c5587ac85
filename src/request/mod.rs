//! Requests about locks: sent to the server that has the lock, redirected, and repeated until there
//! is a clear reply or no time left.
//!
//! A request of one call can be one of many: to the servers of a majority, of which the slow ones
//! delay no other, or to the servers of a cluster. What became of each copy is followed, because a
//! copy without a reply may still be executed. So this room is larger than sending and receiving.
//!
//! | file | duty |
//! |---|---|
//! | `client` | settings and errors of the calls of one client |
//! | `state` | a request, and what has come of it |
//! | `attempt` | one attempt at all requests of a call; receives all replies |
//! | `exchange` | requests that were sent together |
//! | `route`, `send` | parts of an attempt: which server, and sending |
//! | `batch` | repeats attempts until each request has a reply; or sends one once |
//! | `majority` | the servers of a majority: which are skipped, and which are not waited for |
//! | `confirm` | makes replicas confirm what a request was granted |
//! | `prepared` | a request that the subscriber thread sends for a waiting thread |
//! | `watchdog` | the requests of the watchdog |
//! | `command` | the health check, which is about no lock |
//! | `reply` | what a call returns, and the copies that may still be executed |

mod attempt;
mod batch;
mod client;
mod command;
mod confirm;
mod exchange;
mod majority;
mod prepared;
mod reply;
mod route;
mod send;
mod state;
mod watchdog;

pub(crate) use batch::{RETRIES, request_batch, request_once, request_one};
pub(crate) use client::RedisClient;
pub(crate) use confirm::confirmed;
pub(crate) use majority::request_majority;
pub(crate) use prepared::Prepared;
pub(crate) use reply::{LostCopies, NoReply, Reply};
pub(crate) use state::Request;

#[cfg(test)]
mod tests;
