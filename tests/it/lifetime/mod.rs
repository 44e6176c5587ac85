//! The begin and the end of the use of a client: its address, its health check, its shutdown.

mod addresses;
mod ping;
pub mod shutdown;
