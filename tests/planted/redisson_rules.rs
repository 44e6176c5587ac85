//! The rules that clients of Redisson beside those of the library need, each left out by an edit of
//! the source.

use crate::bugs::Edit;

const IN_LINE: &str = "src/engine/line.rs";
const FAIR_ACQUIRE: &str = "lua/fair_acquire.lua";
const PERMIT_LINE: &str = "lua/shared/permit_line.lua";
const READ_WRITE_ACQUIRE: &str = "lua/read_write_acquire.lua";

/// The first place leaves a lock that a client of Redisson holds, and does not call the next one.
pub const LEAVES_REDISSON_SILENTLY: &[Edit] = &[Edit::new(
    "lua/shared/end_wait.lua",
    "return not (holder and is_of_this_library(holder)) and",
    "return not holder and",
)];

/// A thread decides once whether it listens to the releases of clients of Redisson.
pub const RANK_STALE: &[Edit] = &[
    Edit::new(
        IN_LINE,
        r"    deaf_sleeps: u32,
}",
        r"    deaf_sleeps: u32,
    listens: std::cell::OnceCell<bool>,
}",
    ),
    Edit::new(
        IN_LINE,
        r"            deaf_sleeps: 0,
",
        r"            deaf_sleeps: 0,
            listens: std::cell::OnceCell::new(),
",
    ),
    Edit::new(
        IN_LINE,
        "if standing.listens {",
        "if *self.listens.get_or_init(|| standing.listens) {",
    ),
];

/// A reader that waits enters before another one that was called.
pub const PASSES_CALLED_READER: &[Edit] = &[Edit::new(
    READ_WRITE_ACQUIRE,
    "local waits_for_call = place ~= '' or not is_reader",
    "local waits_for_call = not is_reader",
)];

/// The last reader of the library leaves readers of Redisson, and does not call the first place.
pub const LEAVES_REDISSON_READERS: &[Edit] = &[Edit::new(
    "lua/read_write_release.lua",
    "(heard or (reader and not is_of_this_library(reader)))",
    "heard",
)];

/// A refused reader never asks whether the first writer lives.
pub const WRITER_NOT_PROBED: &[Edit] = &[Edit::new(
    READ_WRITE_ACQUIRE,
    "if is_over or not called and (not waits or redis.pcall('zrank', line, place)) then",
    "if is_over then",
)];

/// A called client that is refused permits counts as called.
pub const CALLED_KEPT: &[Edit] = &[Edit::new(
    PERMIT_LINE,
    r"        if at then
            -- It was probed",
    r"        if at and at == place then
            -- It was probed",
)];

/// A client that leaves the line passes its duty to listen to no other.
pub const DUTY_KEPT: &[Edit] = &[Edit::new(
    PERMIT_LINE,
    r"    if head.listener == place then
        choose_listener(lock, head, publish)
    end",
    "",
)];

/// A place behind one of Redisson ends as any other.
pub const ENDS_FROM_NOW: &[Edit] = &[Edit::new(
    FAIR_ACQUIRE,
    r"    if is_behind then
        end_ms = ",
    r"    if is_behind == 0 then
        end_ms = ",
)];

/// A place behind one of Redisson ends a life after that one.
pub const ENDS_BEHIND: &[Edit] = &[Edit::new(
    FAIR_ACQUIRE,
    "end_ms = math.max(math.floor(earliest), end_ms + count * PLACE_OF_REDISSON)",
    "end_ms = math.max(math.floor(earliest) + (call('zscore', ends, place) and 0 or life), end_ms)",
)];

/// Only the first request of a client makes the end of a place behind one of Redisson late.
pub const ENDS_ONCE: &[Edit] = &[Edit::new(
    FAIR_ACQUIRE,
    "end_ms + count * PLACE_OF_REDISSON",
    "end_ms + (call('zscore', ends, place) and 0 or count * PLACE_OF_REDISSON)",
)];
