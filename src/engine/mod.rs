//! Acquire, release, extend and inspect, over the parts of a lock, within the time of the call.
//!
//! Every public type is a list of parts, of which some number must be held: a plain lock has one
//! part, a lock of several names one for each name, a Redlock one for each server. So each of these
//! operations exists once. A kind of lock is a [`Kind`](crate::protocol::Kind).
//!
//! | file | duty |
//! |---|---|
//! | `parts` | a lock: its parts, how many are needed, and whether that is valid |
//! | `held` | an acquired lock: a level of a hold for each part; results of several parts |
//! | `group` | which parts share one request: those of one client, in a cluster of one slot |
//! | `local_wait` | waits in the local queue for the tickets |
//! | `acquire/` | levels without a request, the request for a lock, the waits between requests |
//! | `condition` | waits on a condition of a lock, and notifications |
//! | `release` | unlocks one level of each part |
//! | `renew` | extends and confirms the leases of several parts |
//! | `inspect` | reads and changes the state of a lock in Redis, whichever owner holds it |
//! | `number/` | kinds without a holder: semaphores and latches |
//! | `wait` | the loop of every call that waits, and its sleeps: listens, polls |

mod acquire;
mod condition;
mod group;
mod held;
mod inspect;
mod local_wait;
mod number;
mod parts;
mod release;
mod renew;
mod wait;

pub(crate) use held::{HeldPart, Needed, are_of_this_process, combine, slowest};
pub(crate) use inspect::{force_unlock, inspect};
pub(crate) use number::Number;
pub(crate) use parts::{Part, Parts};
pub(crate) use release::release_all;
pub(crate) use renew::extend_all;
