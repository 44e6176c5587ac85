//! One lock at one server: acquire, wait, release, extend, inspect. Only a request (`ask`) may be
//! for several locks of one slot. A kind of lock is a [`Kind`](crate::protocol::Kind). Locks of
//! several names or servers are in [`composite`](crate::composite).
//!
//! | file | duty |
//! |---|---|
//! | `single_lock` | a lock: its name, client and kind, and whether a call for it is valid |
//! | `held_lock` | a level of a lock that is held |
//! | `grant_request` | requests about one grant; gives the watchdog its new schedule |
//! | `lock_call` | one call that acquires a lock |
//! | `ask` | a request for a lock, its reply, and what undoes it |
//! | `adopt` | gives a hold away for a token; takes it over by the token |
//! | `local_wait` | waits in the local queue for the ticket |
//! | `line` | how a client stands in the line of a lock, and how its thread sleeps there |
//! | `acquire/` | levels without a request, the request for a lock, the waits between requests |
//! | `condition` | waits on a condition of a lock, and notifications |
//! | `release` | unlocks one level |
//! | `query` | in a cluster, the keys of commands that are executed only while a lock is held |
//! | `inspect` | reads and changes the state of a lock in Redis, whichever owner holds it |
//! | `number/` | kinds without a holder: semaphores and latches |
//! | `wait` | the loop of every call that waits, and its sleeps: listens, polls |

mod acquire;
mod adopt;
mod ask;
mod condition;
mod grant_request;
mod held_lock;
mod inspect;
mod line;
mod local_wait;
mod lock_call;
mod number;
mod query;
mod release;
mod single_lock;
mod wait;

pub(crate) use acquire::{check_tokens, end_wait, keep, push_level, take_without_request};
pub(crate) use ask::{Ask, NotGranted};
pub(crate) use grant_request::{GrantReply, end_as_lost};
pub(crate) use held_lock::HeldLock;
pub(crate) use inspect::{force_unlock, inspect};
pub(crate) use local_wait::{give_up, no_reply, wait_for_claim};
pub(crate) use lock_call::LockCall;
pub(crate) use number::Number;
pub(crate) use query::keys_of;
pub(crate) use release::{Ended, Release};
pub(crate) use single_lock::SingleLock;
pub(crate) use wait::{Channel, Wait, repeat_until_done};
