//! The recipes of `docs/recipes.md`, each with its test: `cargo test --test recipes`.

mod batch_worker;
mod leader;
mod once_a_period;
mod redlock;
mod requests;
mod retries;
mod set_nx;
#[path = "../support/mod.rs"]
#[allow(dead_code, reason = "the test needs a server only")]
mod support;
mod tenants;
mod worker;
