-- Gives up read locks but keeps them locked for a while. Waiting clients are notified and read the
-- new time to live.
--
-- KEYS[i]       a lock: see shared/read_write.lua
-- ARGV[4i-3]    names that its reader may have in the hash, separated by spaces
-- ARGV[4i-2]    new time to live in milliseconds, longer or shorter than the old one
-- ARGV[4i-1]    a unique name that replaces the reader's, so that a late renewal has no effect
-- ARGV[4i]      the channel for releases of the lock
-- ARGV[4n+1]    the command that publishes: publish or spublish
-- reply[i]      1: given up; 0: no owner holds the lock; -1: other owners hold it

-- require "line"
-- require "read_write"

local replies = {}
for i, lock in ipairs(KEYS) do
    local names, millis, new, channel = unpack(ARGV, 4 * i - 3, 4 * i)
    for name in string.gmatch(names, '%S+') do
        if redis.call('hexists', lock, name) == 1 then
            redis.call('set', timeout_key(lock, new), '1', 'px', millis)
            redis.call('hset', lock, new, 1)
            redis.call('hdel', lock, name)
            redis.pcall('del', timeout_key(lock, name))
            local left = redis.call('hget', lock, 'mode') == 'read' and readers_left(lock)
            if left or redis.call('pttl', lock) < tonumber(millis) then
                redis.call('pexpire', lock, left or millis)
            end
            -- pcall: the lock is given up even if the user lacks permission to publish.
            redis.pcall(ARGV[#ARGV], channel, '0')
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
