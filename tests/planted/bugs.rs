//! The bugs, as edits of the source.

/// Replaces a text that the file contains exactly once.
#[derive(Clone)]
pub struct Edit {
    pub file: &'static str,
    text: String,
    replacement: String,
}

impl Edit {
    pub fn new(file: &'static str, text: &str, replacement: &str) -> Self {
        Self {
            file,
            text: text.to_owned(),
            replacement: replacement.to_owned(),
        }
    }

    pub fn apply(&self, source: &str) -> String {
        assert_eq!(
            source.matches(&self.text).count(),
            1,
            "cannot plant the bug: {} must contain this text once:\n{}",
            self.file,
            self.text
        );
        source.replace(&self.text, &self.replacement)
    }
}

/// Any client can release the lock, not only its holder.
pub fn release_by_any_client() -> Vec<Edit> {
    vec![
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
    ]
}

/// A lease that is renewed does not expire by the local clock.
pub fn lease_without_deadline() -> Vec<Edit> {
    vec![Edit::new(
        "src/local/lease_state.rs",
        "    pub(super) fn expires(&self) -> Moment {\n        self.times.expires\n",
        "    pub(super) fn expires(&self) -> Moment {\n        \
                  if self.levels.are_fixed() { self.times.expires } else { Moment::NEVER }\n",
    )]
}

/// The local queue does not wake the next thread.
pub fn queue_without_wake_up() -> Vec<Edit> {
    vec![Edit::new(
        "src/local/queue/waiter.rs",
        "        self.unparker.unpark();\n",
        "        drop(self.unparker.clone());\n",
    )]
}

/// A grant whose lease has ended is handed over, and the next thread believes in a new lease.
pub fn hand_over_of_lost_grants() -> Vec<Edit> {
    let usage = "src/local/grant/usage.rs";
    let mut edits = hand_over_past_the_slice();
    edits.extend([
        Edit::new(
            "src/local/queue/hand_over.rs",
            "            let _ = hold.check_at(now);\n",
            "            let _ = (hold, now);\n",
        ),
        Edit::new(
            usage,
            " = state.times.suits(terms, now);\n",
            " = (terms, now) == (terms, now);\n",
        ),
        Edit::new(
            usage,
            "let lease = LeaseState::new(state.times, terms);",
            "let lease = LeaseState::new(LeaseTimes::new(Duration::from_millis(terms.millis), Moment::now()), terms);",
        ),
    ]);
    edits
}

/// A process keeps a lock as long as its threads want it.
pub fn hand_over_past_the_slice() -> Vec<Edit> {
    vec![Edit::new(
        "src/local/grant/usage.rs",
        "None => now < self.granted.replied.after(self.slice(longest)),",
        "None => (now, longest) == (now, longest),",
    )]
}

/// The watchdog never releases a grant that no thread uses.
pub fn idle_grant_that_stays() -> Vec<Edit> {
    vec![Edit::new(
        "src/local/grant/renewal.rs",
        "Usage::Idle(until) if now < until.min(",
        "Usage::Idle(until) if now < until.after(Duration::from_secs(3600)).min(",
    )]
}

/// Two holds on one grant get the same token.
pub fn token_given_twice() -> Vec<Edit> {
    vec![Edit::new(
        "src/local/grant/usage.rs",
        "state.tokens.next()",
        "state.tokens.clone().next()",
    )]
}

/// A client acquires a fair lock although another one has the first place.
pub fn fair_lock_without_order() -> Vec<Edit> {
    vec![Edit::new(
        "lua/fair_acquire.lua",
        "elseif call('lindex', queue, 0) == place then\n    return granted(true)\n",
        "else\n    return granted(call('lindex', queue, 0) == place)\n",
    )]
}

/// Readers do not see that a writer holds the lock.
pub fn read_lock_beside_a_writer() -> Vec<Edit> {
    vec![Edit::new(
        "lua/read_write_acquire.lua",
        "elseif mode == 'write' then\n    reply",
        "elseif mode == 'write' and wanted == 'write' then\n    reply",
    )]
}

/// A writer does not see that readers hold the lock.
pub fn write_lock_beside_readers() -> Vec<Edit> {
    vec![Edit::new(
        "lua/read_write_acquire.lua",
        "elseif longest ~= 0 then",
        "elseif lock == '' then",
    )]
}

/// A permit is leased without being taken from the available ones.
pub fn permit_that_is_not_counted() -> Vec<Edit> {
    vec![Edit::new(
        "lua/shared/permits.lua",
        "redis.pcall('decrby', key, 1)",
        "redis.pcall('decrby', key, 0)",
    )]
}
