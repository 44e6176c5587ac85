//! Tests against real servers and real processes.
//!
//! `contract` is what every kind of lock must do in every environment. Each of the other modules
//! has one topic. All times follow `LEASEHOLD_TIMING` (see `support/timing.rs`).

mod api;
mod bad_input;
mod contract;
mod deployments;
mod documents;
mod faults;
mod fencing;
mod guard;
mod hand_over;
mod layers;
mod leased_semaphore;
mod limits;
mod multi;
mod mutual_exclusion;
mod redlock;
mod replicas;
mod support;
mod tls;
mod watchdog;
mod wire;
