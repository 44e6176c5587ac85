-- For how long a place of this library lasts without another request, in milliseconds. The number of
-- such a place is 0, which is no thread of Redisson.
local PLACE = 6000

-- Removes the places at the head of a fair lock's queue that have ended. Returns the first place
-- that has not, its end, and the server's time, in milliseconds. Behind others, the end of a place
-- counts from theirs; once it is the first, from now.
local function fair_head(queue, ends)
    local now = now_millis()
    while true do
        local head = redis.call('lindex', queue, 0)
        if not head then
            return nil, nil, now
        end
        local until_ms = tonumber(redis.call('zscore', ends, head) or 0)
        if until_ms > now then
            if until_ms > now + PLACE and string.sub(head, -2) == ':0' then
                until_ms = now + PLACE
                redis.call('zadd', ends, until_ms, head)
            end
            return head, until_ms, now
        end
        redis.call('lpop', queue)
        redis.call('zrem', ends, head)
    end
end

-- Notifies the client with the first place of a fair lock. `channels` is the first part of the
-- channels: a place follows.
local function notify_head(queue, ends, channels, publish)
    local head = fair_head(queue, ends)
    if head then
        -- pcall: the lock is released even if the user lacks permission to publish.
        redis.pcall(publish, channels .. head, '0')
    end
end
