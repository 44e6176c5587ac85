//! A toy kind of lock, as an example of what a new kind needs in this folder. `lock/tests.rs` has
//! its public type, and uses it.

use std::sync::LazyLock;

use super::{Kind, PLAIN};
use crate::script::Script;

/// A lock whose key is a string with the owner id. Nothing else differs from the plain lock, except
/// that clients do not wait in a line.
pub(crate) static TOY: Kind = Kind {
    name: "toy",
    is_joinable: false,
    has_line: false,
    to_acquire: &ACQUIRE,
    to_release: &RELEASE,
    to_renew: &RENEW,
    to_inspect: (&INSPECT, ""),
    options: |call, _keys, _owner, _options| call,
    ..PLAIN
};

static ACQUIRE: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "if redis.call('set', KEYS[1], ARGV[1], 'nx', 'px', ARGV[2]) then
             return nil
         end
         return { redis.call('pttl', KEYS[1]), 1, redis.call('get', KEYS[1]) }",
    )
});

static RELEASE: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "if redis.call('get', KEYS[1]) ~= ARGV[1] then
             return 0
         end
         redis.call('del', KEYS[1])
         return 1 + 2 * redis.call(ARGV[3], ARGV[2], '0')",
    )
});

/// Of several locks, because the watchdog renews locks of one kind together.
static RENEW: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "local replies = {}
         for i, lock in ipairs(KEYS) do
             local owner, lease = ARGV[3 * i - 2], tonumber(ARGV[3 * i - 1])
             replies[i] = redis.call('get', lock) == owner and 1 or 0
             if replies[i] == 1 and redis.call('pttl', lock) < lease then
                 redis.call('pexpire', lock, lease)
             end
         end
         return replies",
    )
});

static INSPECT: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "local owner = redis.call('get', KEYS[1])
         return owner and { redis.call('pttl', KEYS[1]), owner, 1, 0 }",
    )
});
