-- Releases read locks, regardless of their hold counts. Notifies the waiting clients if no reader
-- is left.
--
-- KEYS[i]       a lock: see shared/read_write.lua
-- ARGV[2i-1]    names that the reader may have in the hash, separated by spaces
-- ARGV[2i]      the channel for releases of the lock
-- ARGV[2n+1]    the command that publishes: publish or spublish
-- reply[i]      1 more than the number of clients that received the message: released; 0: no owner
--               holds the lock; -1: other owners hold it, or it is not a lock
-- reply         the list of these; for one lock, its reply alone

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
        replies[i] = 1
        local left = 0
        if redis.call('hlen', lock) > 1 then
            -- The lease of a writer stays what it is.
            left = redis.call('hget', lock, 'mode') == 'read' and readers_left(lock) or nil
        end
        if left == 0 then
            redis.call('del', lock)
            local waits = waits_key(lock)
            local wish_ends = redis.pcall('hget', waits, 'writer_until')
            if type(wish_ends) == 'string' then
                -- It is the turn of the writer. If it does not come, readers go on.
                local turn_ends = math.min(tonumber(wish_ends), now_millis() + TURN)
                redis.pcall('hset', waits, 'writer_until', string.format('%.0f', turn_ends))
                redis.pcall('hdel', waits, 'turn')
            end
            -- pcall: the lock is released even if the user lacks permission to publish.
            local heard = redis.pcall(ARGV[#ARGV], ARGV[2 * i], '0')
            replies[i] = 1 + (tonumber(heard) or 0)
        elseif left then
            redis.call('pexpire', lock, left)
        end
    end
end
return #KEYS == 1 and replies[1] or replies
