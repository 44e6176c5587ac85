-- Gives up locks but keeps them locked for a while, and a read-write lock for at least as long as
-- its other owners may have it. Waiting clients are notified and read the new time to live.
--
-- KEYS[i]       a lock: a hash of owner to hold count, or a read-write lock (shared/read_write.lua)
-- ARGV[4i-3]    names that its owner may have in the hash, separated by spaces
-- ARGV[4i-2]    new time to live in milliseconds, longer or shorter than the old one
-- ARGV[4i-1]    a unique name that replaces the owner's, so that a late renewal has no effect
-- ARGV[4i]      the channel for releases of the lock. It is not in KEYS, because a cluster that
--               moves a slot refuses requests of which some keys are missing
-- ARGV[4n+1]    the command that publishes: publish or spublish
-- reply[i]      1: given up; 0: no owner holds the lock; -1: another owner holds it
--
-- All messages: src/protocol/message.rs.

-- require "copies"
-- require "line"
-- require "read_write"

-- For how long other owners may have the read-write lock, whose mode this is, in milliseconds.
local function least_left(lock, mode, is_reader)
    if is_reader and mode == 'write' then
        return redis.call('pttl', lock)
    end
    local longest, _, reader = readers_left(lock)
    return longest or reader and redis.call('pttl', lock) or 0
end

local function leave(lock, name, millis, new)
    local mode = redis.call('hget', lock, 'mode')
    local is_reader = mode and not string.find(name, ':write$')
    if is_reader then
        redis.call('set', timeout_key(lock, new), '1', 'px', millis)
    end
    redis.call('hset', lock, new, 1)
    redis.call('hdel', lock, name)
    if is_reader then
        redis.pcall('del', timeout_key(lock, name))
    end
    local least = mode and least_left(lock, mode, is_reader) or 0
    redis.call('pexpire', lock, string.format('%.0f', math.max(tonumber(millis), least)))
    return mode and not is_reader and '1' or '0'
end

local replies = {}
for i, lock in ipairs(KEYS) do
    local names, millis, new, channel = unpack(ARGV, 4 * i - 3, 4 * i)
    local name = held_name(lock, names)
    if name then
        local message = leave(lock, name, millis, new)
        -- pcall: the lock is given up even if the user lacks permission to publish.
        redis.pcall(ARGV[#ARGV], channel, message)
        call_next(lock, ARGV[#ARGV])
        replies[i] = 1
    else
        -- 1 if an earlier copy of this request has given it up.
        replies[i] = held_name(lock, new) and 1 or redis.call('exists', lock) * -1
    end
end
return replies
