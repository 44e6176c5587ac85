-- Removes the places at the head of a fair lock's queue that have ended. Returns the first place
-- that has not, its end, and the server's time, in milliseconds.
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
            return head, until_ms, now
        end
        redis.call('lpop', queue)
        redis.call('zrem', ends, head)
    end
end
