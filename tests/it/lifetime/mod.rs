//! The begin and the end of the use of a client: its health check, its shutdown.

mod ping;
pub mod shutdown;
