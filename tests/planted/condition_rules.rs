//! The rules of conditions, each left out by an edit of the source.

use crate::bugs::Edit;

const CONDITION: &str = "src/engine/condition.rs";

/// A thread releases the lock, and then puts its waiter into the queue.
pub const RELEASED_FIRST: &[Edit] = &[
    Edit::new(
        "lua/condition_wait.lua",
        "refusal_of(KEYS[1], ARGV[1], queue, places)",
        "type_error(queue, places)",
    ),
    Edit::new(
        CONDITION,
        r"        let (place, lost_copies) = waiter.enter(&self.key, hold)?;
",
        "",
    ),
    Edit::new(
        CONDITION,
        r"        if let Err(error @ Error::Lost { .. }) = release.run(|| core.budget_to_unlock()) {
",
        r"        let released = release.run(|| core.budget_to_unlock());
        let (place, lost_copies) = waiter.enter(&self.key, hold)?;
        if let Err(error @ Error::Lost { .. }) = released {
",
    ),
];

/// Late copies of the first request are not followed by the end of the place.
pub const COPIES_LEFT: &[Edit] = &[Edit::new(
    CONDITION,
    "lost_copies.compensate(&pass);",
    "drop(lost_copies);",
)];

/// The notification of a waiter that dies or gives up is dropped.
pub const NOT_PASSED_ON: &[Edit] = &[
    Edit::new(
        "lua/shared/waiters.lua",
        "count = count + 1 - redis.call('zrem', queue, waiter)",
        "redis.call('zrem', queue, waiter)",
    ),
    Edit::new(
        "lua/condition_end.lua",
        "reply == 2 and ARGV[2] == '1' and 1 or 0",
        "0",
    ),
];

/// A thread that cannot acquire the lock takes its notification.
pub const TAKEN_ON_FAILURE: &[Edit] = &[Edit::new(
    CONDITION,
    "held.as_ref().map_or(Intent::Pass, |()| Intent::Take)",
    "held.as_ref().map_or(Intent::Take, |()| Intent::Take)",
)];

/// After a wait whose time is over, the background takes the notification of its place.
pub const ORPHANS_TAKE: &[Edit] = &[Edit::new(
    CONDITION,
    "self.end_later(if is_notified { end } else { pass });",
    "self.end_later(if is_notified || intent == Intent::Take { end } else { pass });",
)];

/// A wait whose time is over reports that, whether it was notified or not.
pub const TIME_BELIEVED: &[Edit] = &[Edit::new(
    CONDITION,
    "(Woken::TimedOut, Some(Ended::NotNotified)) => Ok(false),",
    "(Woken::TimedOut, _) => Ok(false),",
)];

/// If the reply to the end of the place was lost, the second one is believed.
pub const GONE_BELIEVED: &[Edit] = &[Edit::new(
    CONDITION,
    "(Woken::TimedOut, Some(Ended::NotNotified)) => Ok(false),",
    "(Woken::TimedOut, Some(Ended::NotNotified | Ended::Gone)) => Ok(false),",
)];

/// A place is ended before the thread has the lock, and a notification after that is missed.
pub const ENDED_EARLY: &[Edit] = &[
    Edit::new(
        CONDITION,
        "let resumed = self.resume(hold);",
        r"let early = waiter.end(&place, (Intent::Take, false), lost_copies);
        let resumed = self.resume(hold);",
    ),
    Edit::new(
        CONDITION,
        "let ended = waiter.end(&place, (intent, woken == Woken::Notified), lost_copies);",
        "let ended = early.filter(|_| intent == Intent::Take || intent == Intent::Pass);",
    ),
];
