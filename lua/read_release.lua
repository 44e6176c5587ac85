-- Releases read locks, regardless of their hold counts. Notifies the waiting clients if no reader
-- is left, or if they have to go on looking for one that lives.
--
-- KEYS[i]       a lock: see shared/read_write.lua
-- ARGV[2i-1]    names that the reader may have in the hash, separated by spaces
-- ARGV[2i]      the channel for releases of the lock
-- ARGV[2n+1]    the command that publishes: publish or spublish
-- reply[i]      1 more than twice the number of clients that received the message: released; 0: no
--               owner holds the lock; -1: other owners hold it, or it is not a lock
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
        local waits = waits_key(lock)
        local is_free, goes_on = redis.call('hlen', lock) <= 1, false
        if is_free then
            redis.call('del', lock)
        elseif redis.call('hget', lock, 'mode') == 'read' then
            is_free, goes_on = end_if_unread(lock)
        end
        if is_free then
            end_turn(waits)
            if redis.pcall('hexists', waits, 'writer') == 1 then
                -- It is the turn of the writer. If it does not come, readers go on.
                local wish_ends = redis.call('hget', waits, 'writer_until')
                local turn_ends = math.min(tonumber(wish_ends), now_millis() + TURN)
                redis.pcall('hset', waits, 'writer_until', string.format('%.0f', turn_ends))
            end
        end
        if is_free or goes_on then
            -- pcall: the lock is released even if the user lacks permission to publish.
            local heard = redis.pcall(ARGV[#ARGV], ARGV[2 * i], '0')
            replies[i] = 1 + 2 * (tonumber(heard) or 0)
        end
    end
end
return #KEYS == 1 and replies[1] or replies
