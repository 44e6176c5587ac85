//! Tests against real servers and real processes.
//!
//! `contract` is what every kind of lock must do in every environment. Each of the other modules
//! has one topic. All times follow `LEASEHOLD_TIMING` (see `support/timing.rs`).

mod api;
mod bad_input;
mod client_names;
mod condition;
mod contract;
mod deployments;
mod documents;
mod fair;
mod faults;
mod fencing;
mod hand_over;
mod latch;
mod layers;
mod leased_semaphore;
mod lifetime;
mod limits;
mod line;
mod multi;
mod mutual_exclusion;
mod permit_line;
mod permits;
mod query;
mod read_write;
mod redlock;
mod replicas;
mod semaphore;
mod support;
mod testing;
mod tls;
mod tokens;
mod watchdog;
mod wire;
