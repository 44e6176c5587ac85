//! The bugs, as edits of the source.

/// Replaces a text that the file contains exactly once.
#[derive(Clone, Copy)]
pub struct Edit {
    pub file: &'static str,
    text: &'static str,
    replacement: &'static str,
}

impl Edit {
    pub const fn new(file: &'static str, text: &'static str, replacement: &'static str) -> Self {
        Self {
            file,
            text,
            replacement,
        }
    }

    pub fn apply(&self, source: &str) -> String {
        assert_eq!(
            source.matches(self.text).count(),
            1,
            "cannot plant the bug: {} must contain this text once:\n{}",
            self.file,
            self.text
        );
        source.replace(self.text, self.replacement)
    }
}

const USAGE: &str = "src/local/grant/usage.rs";

/// Any client can release the lock, not only its holder.
pub const RELEASE_BY_ANY_CLIENT: &[Edit] = &[
    Edit::new(
        "lua/release.lua",
        "redis.pcall('hdel', KEYS[1], ARGV[1])",
        "redis.pcall('del', KEYS[1])",
    ),
    Edit::new(
        "lua/shared/remove_owner.lua",
        "redis.pcall('hdel', lock, name)",
        "redis.pcall('del', lock)",
    ),
];

/// A lease that is renewed does not expire by the local clock.
pub const LEASE_WITHOUT_DEADLINE: &[Edit] = &[Edit::new(
    "src/local/grant/hold.rs",
    "    pub(super) fn expires(&self) -> Moment {\n        self.lease.expires\n",
    "    pub(super) fn expires(&self) -> Moment {\n        \
              if self.levels.are_fixed() { self.lease.expires } else { Moment::NEVER }\n",
)];

/// The release behind an older copy also names the owner id of the copy that was granted.
pub const GRANT_TAKEN_BACK: &[Edit] = &[Edit::new(
    "src/engine/ask.rs",
    "self.compensate(&older, &reply.lost_copies);",
    "self.compensate(&self.owner, &reply.lost_copies);\n                    drop(older);",
)];

/// The local queue does not wake the next thread.
pub const QUEUE_WITHOUT_WAKE_UP: &[Edit] = &[Edit::new(
    "src/local/queue/waiter.rs",
    "        self.unparker.unpark();\n",
    "        drop(self.unparker.clone());\n",
)];

/// A grant whose lease has ended is handed over, and the next thread believes in a new lease.
pub const HAND_OVER_OF_LOST_GRANTS: &[Edit] = &[
    HAND_OVER_PAST_THE_SLICE[0],
    Edit::new(
        "src/local/queue/hand_over.rs",
        "        let _ = hold.check_at(now);\n",
        "        let _ = (hold, now);\n",
    ),
    Edit::new(
        USAGE,
        " = state.lease.suits(terms, now);\n",
        " = (terms, now) == (terms, now);\n",
    ),
    Edit::new(
        USAGE,
        "            let lease = state.lease;\n",
        "            let lease = terms.length();\n            \
         let lease = LeaseState::new(lease, Moment::now());\n",
    ),
];

/// A process keeps a lock as long as its threads want it.
pub const HAND_OVER_PAST_THE_SLICE: &[Edit] = &[Edit::new(
    USAGE,
    "Turns::InSlice => now < self.granted.replied.after(self.slice(longest)),",
    "Turns::InSlice => (now, longest) == (now, longest),",
)];

/// The watchdog never releases a grant that no thread uses.
pub const IDLE_GRANT_THAT_STAYS: &[Edit] = &[Edit::new(
    "src/local/grant/renewal.rs",
    "Usage::Idle(until) if now < until.min(",
    "Usage::Idle(until) if now < until.after(Duration::from_secs(3600)).min(",
)];

/// Two holds on one grant get the same token.
pub const TOKEN_GIVEN_TWICE: &[Edit] = &[Edit::new(
    USAGE,
    "state.tokens.next()",
    "state.tokens.clone().next()",
)];

/// Tokens follow the clock of the server, also if it is set back.
pub const TOKEN_OF_THE_CLOCK: &[Edit] = &[Edit::new(
    "lua/acquire.lua",
    "local token = math.max(tonumber(last) + 1, clock)",
    "local token = clock",
)];

/// A client acquires a fair lock although another one has the first place.
pub const FAIR_LOCK_WITHOUT_ORDER: &[Edit] = &[Edit::new(
    "lua/fair_acquire.lua",
    "elseif call('lindex', queue, 0) == place then\n    return granted(true)\n",
    "else\n    return granted(call('lindex', queue, 0) == place)\n",
)];

/// Readers do not see that a writer holds the lock.
pub const READ_LOCK_BESIDE_A_WRITER: &[Edit] = &[Edit::new(
    "lua/read_write_acquire.lua",
    "elseif mode == 'write' then\n    reply",
    "elseif mode == 'write' and wanted == 'write' then\n    reply",
)];

/// A writer does not see that readers hold the lock.
pub const WRITE_LOCK_BESIDE_READERS: &[Edit] = &[Edit::new(
    "lua/read_write_acquire.lua",
    "elseif longest ~= 0 then",
    "elseif lock == '' then",
)];

/// A permit is leased without being taken from the available ones.
pub const PERMIT_THAT_IS_NOT_COUNTED: &[Edit] = &[Edit::new(
    "lua/shared/permits.lua",
    "redis.pcall('decrby', key, wanted)",
    "redis.pcall('decrby', key, 0)",
)];

/// A query is executed although its owner does not hold the lock.
pub const QUERY_OF_ANY_OWNER: &[Edit] = &[Edit::new(
    "lua/query.lua",
    "local held = is_held(",
    "local held = true or is_held(",
)];

/// A query that arrives late is executed after a later one.
pub const QUERY_WITHOUT_NUMBER: &[Edit] = &[Edit::new(
    "lua/query.lua",
    "    if is_own and tonumber(",
    "    if false and is_own and tonumber(",
)];

/// The drop of an owned guard releases nothing.
pub const DROP_WITHOUT_RELEASE: &[Edit] = &[Edit::new(
    "src/lock/guard_core.rs",
    "true => self.held.release_dropped(),",
    "true => Ok(()),",
)];
