-- For how long a place of this library lasts from each request, in milliseconds. The number of such
-- a place is 0, which is no thread of Redisson.
local PLACE = 6000

-- Removes the places at the head of a fair lock's queue that have ended. Returns the first place
-- that has not, its end, and the server's time, in milliseconds. Behind others, the end of a place
-- counts from theirs; once it is the first, from now.
local function fair_head(queue, ends)
    local time = redis.call('time')
    local now = time[1] * 1000 + math.floor(time[2] / 1000)
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
