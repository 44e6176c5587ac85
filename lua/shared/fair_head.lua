-- Functions of the queue of a fair lock: who is next, and whether that client still waits.
--
-- The end of a place of this library has half a millisecond more than a whole number if its client
-- listened at this server when it sent its last request. If such a client does not listen any more,
-- it is dead, or it has lost its connection and asks again.

-- For how long a place of this library lasts without another request, in milliseconds.
local PLACE = 6000

-- The number of a place of this library is 0, which is no thread of Redisson.
local function is_ours(place)
    return string.sub(place, -2) == ':0'
end

-- How many clients listen to this channel at this server; nil if that is not known.
local function listeners(channel, publish)
    local counts = publish == 'spublish' and 'shardnumsub' or 'numsub'
    -- pcall: the user may have no permission. Then places last until their end.
    return redis.pcall('pubsub', counts, channel)[2]
end

-- Removes the places at the head of a fair lock's queue that have ended, and if the lock is free,
-- those of dead clients. Returns the first other place and its end in milliseconds, and whether a
-- place was removed. `channels` is the first part of the channels: a place follows. Without it, the
-- lock is held: clients that listen again before the release keep their places.
local function fair_head(queue, ends, now, channels, publish)
    local is_removed = false
    while true do
        local head = redis.call('lindex', queue, 0)
        if not head then
            return nil, nil, is_removed
        end
        local end_ms = tonumber(redis.call('zscore', ends, head) or 0)
        local has_listened = channels and is_ours(head) and end_ms % 1 ~= 0
        local is_dead = has_listened and listeners(channels .. head, publish) == 0
        if end_ms > now and not is_dead then
            if is_ours(head) and end_ms > now + PLACE + 1 then
                -- It counted from the end of a place of Redisson, which is gone.
                for _, place in ipairs(redis.call('lrange', queue, 0, -1)) do
                    if not is_ours(place) then
                        break
                    end
                    local late = tonumber(redis.call('zscore', ends, place) or 0)
                    redis.call('zadd', ends, math.min(late, now + PLACE + late % 1), place)
                end
                end_ms = now + PLACE
            end
            return head, end_ms, is_removed
        end
        redis.call('lpop', queue)
        redis.call('zrem', ends, head)
        is_removed = true
    end
end

-- Notifies the client with this place of a fair lock.
local function notify(place, channels, publish)
    -- pcall: the lock is released even if the user lacks permission to publish.
    redis.pcall(publish, channels .. place, '0')
end

-- Notifies the client with the first place of a fair lock.
local function notify_head(queue, ends, channels, publish)
    local head = fair_head(queue, ends, now_millis(), channels, publish)
    if head then
        notify(head, channels, publish)
    end
end
