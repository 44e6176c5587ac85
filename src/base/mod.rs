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
