//! Mends of stalls that other clients noticed, each taken out by an edit of the source.

use crate::bugs::Edit;
use crate::rules;

const ACQUISITION: &str = "src/engine/acquire/acquisition.rs";
const LINE: &str = "lua/shared/line.lua";

/// A call whose last request has no reply leaves its place, which no thread answers for.
pub const GHOSTS: &[Edit] = &[
    rules::CALL_IGNORED[0],
    Edit::new(
        ACQUISITION,
        r"                core.leave_if_called(key, &place);
            }
            return;",
        r"                drop(place);
            }
            return;",
    ),
];

/// A client that needs more permits than are free is neither probed nor passed.
pub const DEAD_CLIENT_WITH_A_NEED: &[Edit] =
    &[rules::PERMITS_NOT_PROBED[0], rules::NEVER_PASSED[0]];

/// No client notices that a called one does not answer.
pub const SILENT_HEADS: &[Edit] = &[
    rules::NOT_FOLLOWED[0],
    rules::NOT_LOOKED[0],
    rules::NOT_LOOKED[1],
];

/// The place of a client that may not subscribe is as the others.
pub const DEAF_CLIENTS: &[Edit] = &[Edit::new(
    "src/subscriber/mod.rs",
    "self.context.any_deaf.load(Ordering::Relaxed)\n",
    "!self.context.any_deaf.load(Ordering::Relaxed) && key.key().is_empty()\n",
)];

/// After the lease of a dead holder, the client that asks first gets the lock.
pub const ORDER_AFTER_A_LEASE: &[Edit] = &[Edit::new(
    LINE,
    "if not first or first == place then",
    "if not called or first == place then",
)];

/// A thread that knows of no lease sleeps for up to 45 seconds.
pub const LATE_LATCHES: &[Edit] = &[Edit::new(
    "src/engine/line.rs",
    "jitter(RARELY * 2 / 3)",
    "jitter(RARELY)",
)];
