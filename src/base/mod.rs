//! Used by every other module: time, budgets of calls, pauses, identities, names in Redis, parking,
//! lists, texts of servers, subscriptions.

pub(crate) mod backoff;
pub(crate) mod call_budget;
pub(crate) mod callback_thread;
pub(crate) mod client_name;
pub(crate) mod clock;
pub(crate) mod excerpt;
pub(crate) mod interrupt;
pub(crate) mod key;
pub(crate) mod lanes;
pub(crate) mod list;
pub(crate) mod owner;
pub(crate) mod parker;
pub(crate) mod process;
pub(crate) mod subscription;
pub(crate) mod test_clock;
pub(crate) mod wait;

pub(crate) use backoff::{Backoff, jitter};
pub(crate) use call_budget::CallBudget;
pub(crate) use clock::Moment;
pub(crate) use excerpt::excerpt;
pub(crate) use interrupt::Interrupt;
pub(crate) use key::{Family, LockKey};
pub(crate) use list::List;
pub(crate) use owner::{HolderId, OwnerId};
pub(crate) use parker::Unparker;
pub(crate) use process::{PerProcess, Process};
pub(crate) use subscription::{Publisher, Subscription};
pub(crate) use test_clock::{Active, ClientClock};
pub(crate) use wait::wait_for_state;
