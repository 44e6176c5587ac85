//! Tests against real servers and real processes.
//!
//! `contract` is what every kind of lock must do, everywhere; the other modules are about one duty
//! each. Every time in here follows `LEASEHOLD_TIMING` (see `support/timing.rs`).

mod api;
mod bad_input;
mod contract;
mod deployments;
mod documents;
mod faults;
mod fencing;
mod guard;
mod layers;
mod limits;
mod multi;
mod mutual_exclusion;
mod redlock;
mod replicas;
mod support;
mod tls;
mod watchdog;
mod wire;
