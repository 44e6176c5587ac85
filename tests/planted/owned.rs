//! Bugs of owned guards and of their tokens, as edits of the source.

use crate::bugs::Edit;

const GUARD: &str = "src/lock/guard_core.rs";

/// A lock that is adopted keeps the owner id of its token, too. The secret one is longer.
pub const TOKEN_ADOPTED_TWICE: &[Edit] = &[Edit::new(
    "lua/adopt.lua",
    "take_over(lock, older, new, lease)\n",
    r"if #older > #new then
    redis.call('hset', lock, new, '1')
else
    take_over(lock, older, new, lease)
end
",
)];

/// A permit that is given away or adopted keeps its former id, too.
pub const PERMIT_ADOPTED_TWICE: &[Edit] = &[Edit::new(
    "lua/permit_adopt.lua",
    "if ids ~= new then",
    "if false then",
)];

/// The drop of a guard does not compare processes.
pub const RELEASE_BY_A_FORKED_CHILD: &[Edit] = &[
    Edit::new(
        GUARD,
        "if self.is_released || !self.held.is_of_this_process() {",
        "if self.is_released {",
    ),
    Edit::new(
        GUARD,
        "false => self.release_within(Core::budget_for_a_reply),",
        r"false => self.held.levels().iter().try_for_each(|held| {
                let unlocks = crate::local::Unlocks::Level(held.level);
                let linger = held.core.linger;
                crate::engine::Release::begin(&held.core, &held.hold, unlocks, linger)
                    .run(|| self.held.budget(Core::budget_for_a_reply))
            }),",
    ),
];

/// A shutdown leaves a lock to its owned guard, whose drop then sends nothing.
pub const KEPT_AT_SHUTDOWN: &[Edit] = &[Edit::new(
    "src/local/grant/renewal.rs",
    "        let lost = self.queue.upgrade()?.shut_down(&self)?;\n",
    r"        let is_owned = self.state.lock().live().any(|hold| hold.holder.is_guard());
        let lost = self.queue.upgrade().filter(|_| !is_owned)?.shut_down(&self)?;
",
)];

/// The hold of an owned guard ends with the thread that acquired it.
pub const ENDS_WITH_ITS_FIRST_THREAD: &[Edit] = &[Edit::new(
    "src/base/owner.rs",
    "Self((!holder.is_guard()).then(this_thread))",
    "Self(Some(holder).map(|_| this_thread()))",
)];
