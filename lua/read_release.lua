-- Releases read locks, regardless of their hold counts. Calls the first client in the line, and
-- notifies those that listen to the channel for releases, if no reader is left.
--
-- KEYS[i]       a lock: see shared/read_write.lua
-- ARGV[2i-1]    names that the reader may have in the hash, separated by spaces
-- ARGV[2i]      the channel for releases of the lock
-- ARGV[2n+1]    the command that publishes: publish or spublish
-- reply[i]      released: 1 + 2 * listeners + called, as of release.lua; 0: no owner holds the lock;
--               -1: other owners hold it, or it is not a lock
-- reply         the list of these; for one lock, its reply alone
--
-- The clients are notified, too, if they have to go on looking for a reader that lives. If a reader of
-- Redisson is left, the first client is called: it may have to listen for the release of that reader.

-- require "kinds"
-- require "line"
-- require "read_write"

local replies = {}
for i, lock in ipairs(KEYS) do
    local is_released = false
    for name in string.gmatch(ARGV[2 * i - 1], '%S+') do
        -- pcall: a key of another type must not prevent the release of the other locks.
        local deleted = redis.pcall('hdel', lock, name)
        if deleted == 1 then
            is_released = true
            -- pcall: a cluster that moves the slot refuses a key that is not there.
            redis.pcall('del', timeout_key(lock, name))
        elseif deleted ~= 0 and not string.find(deleted.err, 'WRONGTYPE', 1, true) then
            return deleted
        end
    end
    if not is_released then
        replies[i] = redis.call('exists', lock) * -1
    else
        local is_free, goes_on, reader = redis.call('hlen', lock) <= 1, false, nil
        if is_free then
            redis.call('del', lock)
        elseif redis.call('hget', lock, 'mode') == 'read' then
            is_free, goes_on, reader = end_if_unread(lock)
        end
        local heard
        if is_free or goes_on then
            -- pcall: the lock is released even if the user lacks permission to publish.
            heard = redis.pcall(ARGV[#ARGV], ARGV[2 * i], '0')
        end
        -- One of the readers is enough: if it is of this library, this follows at its release.
        local is_called = (heard or (reader and not is_of_this_library(reader)))
            and call_first(lock, ARGV[#ARGV])
        replies[i] = 1 + 2 * (tonumber(heard) or 0) + (is_called and 1 or 0)
    end
end
return #KEYS == 1 and replies[1] or replies
