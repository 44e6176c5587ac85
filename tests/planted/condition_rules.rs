//! The rules of conditions, each left out by an edit of the source.

use crate::bugs::Edit;

const CONDITION: &str = "src/engine/condition.rs";

/// A wait whose time is over reports that, whether it was notified or not.
pub const TIME_BELIEVED: &[Edit] = &[Edit::new(
    CONDITION,
    "(Woken::TimedOut, Some(EndedPlace::NotNotified)) => Ok(false),",
    "(Woken::TimedOut, _) => Ok(false),",
)];

/// If the reply to the end of the place was lost, the second one is believed.
pub const GONE_BELIEVED: &[Edit] = &[Edit::new(
    CONDITION,
    "(Woken::TimedOut, Some(EndedPlace::NotNotified)) => Ok(false),",
    "(Woken::TimedOut, Some(EndedPlace::NotNotified | EndedPlace::Gone)) => Ok(false),",
)];

/// A place is ended before the thread has the lock, and a notification after that is missed.
pub const ENDED_EARLY: &[Edit] = &[
    Edit::new(
        CONDITION,
        "let held = self.resume_or_abandon(hold);",
        r"let early = waiter.end(&place, Intent::Take, false, lost_copies);
        let held = self.resume_or_abandon(hold);",
    ),
    Edit::new(
        CONDITION,
        "let ended = waiter.end(&place, intent, woken == Woken::Notified, lost_copies);",
        "let ended = early.filter(|_| intent == Intent::Take || intent == Intent::Pass);",
    ),
];
