-- Gives up write locks but keeps them locked for a while, and for at least as long as their writers
-- may read. Waiting clients are notified and read the new time to live.
--
-- KEYS[i]       a lock: see shared/read_write.lua
-- ARGV[4i-3]    fields that the writer may have, separated by spaces
-- ARGV[4i-2]    new time to live in milliseconds, longer or shorter than the old one
-- ARGV[4i-1]    a unique field that replaces the writer's, so that a late renewal has no effect
-- ARGV[4i]      the channel for releases of the lock
-- ARGV[4n+1]    the command that publishes: publish or spublish
-- reply[i]      1: given up; 0: no owner holds the lock; -1: another owner holds it

-- require "line"
-- require "read_write"

local replies = {}
for i, lock in ipairs(KEYS) do
    local names, millis, new, channel = unpack(ARGV, 4 * i - 3, 4 * i)
    for name in string.gmatch(names, '%S+') do
        if redis.call('hexists', lock, name) == 1 then
            redis.call('hset', lock, new, 1)
            redis.call('hdel', lock, name)
            -- Not shorter than the lease of a reader, and not shorter at all if that is not known.
            local reads = redis.call('hlen', lock) == 2 and 0 or readers_left(lock)
            local least = reads or redis.call('pttl', lock)
            redis.call('pexpire', lock, string.format('%.0f', math.max(tonumber(millis), least)))
            -- pcall: the lock is given up even if the user lacks permission to publish.
            redis.pcall(ARGV[#ARGV], channel, '1')
            call_first(lock, ARGV[#ARGV])
            replies[i] = 1
            break
        end
    end
    if not replies[i] then
        -- 1 if an earlier copy of this request has given it up.
        local is_given_up = redis.call('hexists', lock, new) == 1
        replies[i] = is_given_up and 1 or redis.call('exists', lock) * -1
    end
end
return replies
