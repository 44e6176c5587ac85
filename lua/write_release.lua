-- Releases write locks, regardless of their hold counts. Calls the first client in the line, and
-- notifies those that listen to the channel for releases.
--
-- KEYS[i]       a lock: see shared/read_write.lua
-- ARGV[2i-1]    fields that the writer may have, separated by spaces
-- ARGV[2i]      the channel for releases of the lock
-- ARGV[2n+1]    the command that publishes: publish or spublish
-- reply[i]      released: 1 + 2 * listeners + called, as of release.lua; 0: no owner holds the lock;
--               -1: another owner holds it, or it is not a lock
-- reply         the list of these; for one lock, its reply alone
--
-- A read lock that the writer holds, too, stays. Then the first client is called if it is a reader.

-- require "line"
-- require "read_write"

local replies = {}
for i, lock in ipairs(KEYS) do
    local owner
    for name in string.gmatch(ARGV[2 * i - 1], '%S+') do
        -- pcall: a key of another type must not prevent the release of the other locks.
        local found = owner and 0 or redis.pcall('hexists', lock, name)
        if found == 1 then
            owner = name
        elseif found ~= 0 and not string.find(found.err, 'WRONGTYPE', 1, true) then
            return found
        end
    end
    if owner then
        local left = redis.call('hlen', lock) == 2 and 0 or readers_left(lock)
        if left == 0 then
            redis.call('del', lock)
        else
            -- First, because Redis may refuse it.
            local changed = redis.pcall('hset', lock, 'mode', 'read')
            if type(changed) == 'table' then
                return changed
            end
            redis.call('hdel', lock, owner)
            if left then
                redis.call('pexpire', lock, left)
            end
        end
        -- pcall: the lock is released even if the user lacks permission to publish.
        local heard = redis.pcall(ARGV[#ARGV], ARGV[2 * i], '1')
        local is_called = call_first(lock, ARGV[#ARGV], left ~= 0)
        replies[i] = 1 + 2 * (tonumber(heard) or 0) + (is_called and 1 or 0)
    else
        replies[i] = redis.call('exists', lock) * -1
    end
end
return #KEYS == 1 and replies[1] or replies
