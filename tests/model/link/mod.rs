//! A model of a link: a connection that the threads of a client share. Requests are answered in
//! their order, so the link is what the server has not executed, the replies on their way, and the
//! queue of what the client awaits. One of the waiting threads reads, and gives each reply to its
//! thread.
//!
//! Each thread locks and unlocks one lock, under an owner id for each call. A request whose
//! deadline passes is abandoned: it stays in the queue, and its late reply arrives in its turn, or
//! never because the link breaks. The server may still execute what a broken link has carried, at
//! any later time. The client settles each abandoned copy: by its late reply, or by a release that
//! is sent at any time. The release is executed after a copy on the same link. After a copy on a
//! broken link it may be executed too early; then the lease of the copy ends it.
//!
//! Time advances in ticks, the same for the client and for Redis. Renewals are not modelled: the
//! watchdog has a link of its own.

mod machine;
mod promises;
mod state;
mod tests;
