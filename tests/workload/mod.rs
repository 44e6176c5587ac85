//! What the threads of a worker process do: they acquire a few locks of one kind, hold them, and
//! log both. The torture program and the simulation include this folder, each with its own threads,
//! clocks and logs.

pub mod args;
pub mod client_id;
pub mod event_log;
pub mod hold_style;
pub mod kind;
mod read_write;
mod rush;
mod state;
pub mod worker_thread;
