-- Functions of the queue of a fair lock: who is next, and whether that client still waits.
--
-- To the milliseconds of its end, a place of this library adds LISTENED if its client listened at
-- this server when it sent its last request. If such a client does not listen any more, it is dead,
-- or it has lost its connection and asks again. It adds BEHIND_REDISSON if a place of Redisson may
-- be before it.
--
-- All messages: src/protocol/message.rs.

-- require "now_millis"

local LISTENED, BEHIND_REDISSON = 0.5, 0.25

local function is_behind_redisson(end_ms)
    return end_ms % LISTENED ~= 0
end

-- For how long a place of this library lasts without another request, in milliseconds: PLACE, or
-- longer in a long queue. Its client asks again after about a third of that. So all clients
-- together send about 40 requests a second at most, however many wait.
local PLACE = 6000

local function life_of_places(queue)
    return math.max(PLACE, 90 * redis.call('llen', queue))
end

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
-- those of dead clients. Returns the first other place and its end in milliseconds. `channels` is
-- the first part of the channels: a place follows. Without it, the lock is held: clients that
-- listen again before the release keep their places.
local function fair_head(queue, ends, now, channels, publish)
    while true do
        local head = redis.call('lindex', queue, 0)
        if not head then
            return nil
        end
        local end_ms = tonumber(redis.call('zscore', ends, head) or 0)
        local has_listened = channels and is_ours(head) and end_ms % 1 >= LISTENED
        local is_dead = has_listened and listeners(channels .. head, publish) == 0
        if end_ms > now and not is_dead then
            local longest = channels and PLACE or 2 * life_of_places(queue)
            if is_ours(head) and end_ms > now + longest + 1 then
                -- It counted from the end of a place of Redisson, or is one of a long queue. The
                -- client asks again before that, unless it is dead.
                end_ms = now + longest + end_ms % 1
                redis.call('zadd', ends, end_ms, head)
            end
            return head, end_ms
        end
        redis.call('lpop', queue)
        redis.call('zrem', ends, head)
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
