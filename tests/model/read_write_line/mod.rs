//! A model of the line of a read-write lock.
//!
//! It differs from the model of the line of a plain lock (`tests/model/line`) in this: a thread
//! waits as a reader or as a writer. Readers hold the lock together. A reader that is granted the
//! lock calls the next client if that is a reader, too. Java clients enter a lock without knowing
//! the line, and notify the clients that listen on the shared channel when no owner is left.
//!
//! Not modelled here: slots that move, and places with a channel for each lock.

mod clients;
mod machine;
mod promises;
mod server;
mod state;
mod tests;
