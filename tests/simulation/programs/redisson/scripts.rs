//! What Redisson's scripts do, written from a description of their effects.

/// KEYS: lock. ARGV: lease, holder. Nil, or the milliseconds that the lock is still held.
pub const ACQUIRE: &str = "
local count = redis.call('hget', KEYS[1], ARGV[2])
if count or redis.call('exists', KEYS[1]) == 0 then
    redis.call('hset', KEYS[1], ARGV[2], string.format('%d', (count or 0) + 1))
    redis.call('pexpire', KEYS[1], ARGV[1])
    return nil
end
return redis.call('pttl', KEYS[1])
";

/// KEYS: lock, channel. ARGV: lease, holder. Nil if the holder has nothing.
pub const RELEASE: &str = "
local count = tonumber(redis.call('hget', KEYS[1], ARGV[2]))
if not count then
    return nil
end
if count > 1 then
    redis.call('hset', KEYS[1], ARGV[2], string.format('%d', count - 1))
    redis.call('pexpire', KEYS[1], ARGV[1])
    return 0
end
redis.call('del', KEYS[1])
redis.call('publish', KEYS[2], '0')
return 1
";

/// KEYS: lock. ARGV: lease, field. 1 if the lock is renewed.
pub const RENEW: &str = "
if redis.call('hexists', KEYS[1], ARGV[2]) == 0 then
    return 0
end
redis.call('pexpire', KEYS[1], ARGV[1])
return 1
";

/// Begins the scripts of fair locks: removes the places at the head that have ended. `now` is that
/// of the client.
pub const EVICT: &str = "
local function evict(list, ends, now)
    local head = redis.call('lindex', list, 0)
    while head do
        local place_end = tonumber(redis.call('zscore', ends, head))
        if not place_end or place_end > now then
            return
        end
        redis.call('zrem', ends, head)
        redis.call('lpop', list)
        head = redis.call('lindex', list, 0)
    end
end
local function earlier(ends, member, by)
    redis.call('zadd', ends, redis.call('zscore', ends, member) - by, member)
end
";

/// KEYS: lock, list, ends. ARGV: lease, holder, wait, now. As [`ACQUIRE`].
pub const FAIR_ACQUIRE: &str = "
local lock, list, ends = KEYS[1], KEYS[2], KEYS[3]
local lease, holder, wait, now = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
evict(list, ends, now)
local count = redis.call('hget', lock, holder)
local head = redis.call('lindex', list, 0)
local is_free = redis.call('exists', lock) == 0
if count or is_free and (not head or head == holder) then
    if is_free then
        redis.call('lpop', list)
        redis.call('zrem', ends, holder)
        for _, member in ipairs(redis.call('zrange', ends, 0, -1)) do
            earlier(ends, member, wait)
        end
    end
    redis.call('hset', lock, holder, string.format('%d', (count or 0) + 1))
    redis.call('pexpire', lock, lease)
    return nil
end
local left = redis.call('pttl', lock)
if redis.call('zscore', ends, holder) then
    return math.max(0, left)
end
local last = redis.call('lindex', list, -1)
local last_end = last and tonumber(redis.call('zscore', ends, last))
local base = last_end and last_end - now or left
redis.call('zadd', ends, base + wait + now, holder)
redis.call('rpush', list, holder)
return base
";

/// KEYS: list, ends. ARGV: holder, wait.
pub const FAIR_LEAVE: &str = "
local is_after = false
for _, member in ipairs(redis.call('lrange', KEYS[1], 0, -1)) do
    if is_after and redis.call('zscore', KEYS[2], member) then
        earlier(KEYS[2], member, ARGV[2])
    end
    is_after = is_after or member == ARGV[1]
end
redis.call('zrem', KEYS[2], ARGV[1])
redis.call('lrem', KEYS[1], 0, ARGV[1])
return 1
";

/// KEYS: lock, list, ends, channel. ARGV: lease, holder, now. As [`RELEASE`].
pub const FAIR_RELEASE: &str = "
evict(KEYS[2], KEYS[3], tonumber(ARGV[3]))
local head = redis.call('lindex', KEYS[2], 0)
local function wake()
    if head then
        redis.call('publish', KEYS[4] .. ':' .. head, '0')
    end
    return 1
end
if redis.call('exists', KEYS[1]) == 0 then
    return wake()
end
local count = tonumber(redis.call('hget', KEYS[1], ARGV[2]))
if not count then
    return nil
end
if count > 1 then
    redis.call('hset', KEYS[1], ARGV[2], string.format('%d', count - 1))
    redis.call('pexpire', KEYS[1], ARGV[1])
    return 0
end
redis.call('del', KEYS[1])
return wake()
";

/// KEYS: lock, prefix of the holder's leases. ARGV: lease, holder, writer. As [`ACQUIRE`].
pub const READ_ACQUIRE: &str = "
local mode = redis.call('hget', KEYS[1], 'mode')
if not mode then
    redis.call('hset', KEYS[1], 'mode', 'read')
end
if mode == 'write' and redis.call('hexists', KEYS[1], ARGV[3]) == 0 then
    return redis.call('pttl', KEYS[1])
end
local count = string.format('%d', (redis.call('hget', KEYS[1], ARGV[2]) or 0) + 1)
redis.call('hset', KEYS[1], ARGV[2], count)
redis.call('set', KEYS[2] .. ':' .. count, '1', 'px', ARGV[1])
redis.call('pexpire', KEYS[1], math.max(redis.call('pttl', KEYS[1]), tonumber(ARGV[1])))
return nil
";

/// KEYS: lock, channel, prefix of the holder's leases, prefix of all. ARGV: holder. As [`RELEASE`].
pub const READ_RELEASE: &str = "
local mode = redis.call('hget', KEYS[1], 'mode')
if not mode then
    redis.call('publish', KEYS[2], '0')
    return nil
end
local count = tonumber(redis.call('hget', KEYS[1], ARGV[1]))
if not count then
    return nil
end
if count > 1 then
    redis.call('hset', KEYS[1], ARGV[1], string.format('%d', count - 1))
else
    redis.call('hdel', KEYS[1], ARGV[1])
end
redis.call('del', KEYS[3] .. ':' .. string.format('%d', count))
if redis.call('hlen', KEYS[1]) > 1 then
    local longest = -3
    local fields = redis.call('hgetall', KEYS[1])
    for at = 1, #fields, 2 do
        for number = tonumber(fields[at + 1]) or 0, 1, -1 do
            local lease = KEYS[4] .. ':' .. fields[at] .. ':rwlock_timeout:' .. number
            longest = math.max(longest, redis.call('pttl', lease))
        end
    end
    if longest > 0 then
        redis.call('pexpire', KEYS[1], longest)
        return 0
    end
    if mode == 'write' then
        return 0
    end
end
redis.call('del', KEYS[1])
redis.call('publish', KEYS[2], '0')
return 1
";

/// KEYS: lock. ARGV: lease, writer. As [`ACQUIRE`].
pub const WRITE_ACQUIRE: &str = "
local mode = redis.call('hget', KEYS[1], 'mode')
local count = redis.call('hget', KEYS[1], ARGV[2])
if not mode then
    redis.call('hset', KEYS[1], 'mode', 'write')
    redis.call('hset', KEYS[1], ARGV[2], '1')
    redis.call('pexpire', KEYS[1], ARGV[1])
    return nil
end
if mode == 'write' and count then
    redis.call('hset', KEYS[1], ARGV[2], string.format('%d', count + 1))
    redis.call('pexpire', KEYS[1], redis.call('pttl', KEYS[1]) + ARGV[1])
    return nil
end
return redis.call('pttl', KEYS[1])
";

/// KEYS: lock, channel. ARGV: lease, writer. As [`RELEASE`].
pub const WRITE_RELEASE: &str = "
if redis.call('exists', KEYS[1]) == 0 then
    redis.call('publish', KEYS[2], '1')
    return nil
end
local count = tonumber(redis.call('hget', KEYS[1], ARGV[2]))
if not count then
    return nil
end
if count > 1 then
    redis.call('hset', KEYS[1], ARGV[2], string.format('%d', count - 1))
    redis.call('pexpire', KEYS[1], ARGV[1])
    return 0
end
redis.call('hdel', KEYS[1], ARGV[2])
if redis.call('hlen', KEYS[1]) == 1 then
    redis.call('del', KEYS[1])
    redis.call('publish', KEYS[2], '1')
else
    redis.call('hset', KEYS[1], 'mode', 'read')
end
return 1
";

/// KEYS: semaphore. ARGV: permits. Nil if they are acquired.
pub const PERMITS_ACQUIRE: &str = "
local available = tonumber(redis.call('get', KEYS[1]) or 0)
if available >= tonumber(ARGV[1]) then
    redis.call('decrby', KEYS[1], ARGV[1])
    return nil
end
return -1
";

/// KEYS: semaphore, channel. ARGV: permits.
pub const PERMITS_RELEASE: &str = "
local available = redis.call('incrby', KEYS[1], ARGV[1])
redis.call('publish', KEYS[2], string.format('%d', available))
return 1
";
