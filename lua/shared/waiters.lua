-- The queue of a condition: who waits, and who was notified. Included in the scripts of conditions.
--
-- A waiter is `<client uuid>:<number>`. `queue` has those that are not notified, in their order.
-- `places` has all of them, with the time in milliseconds at which their place ends.

-- Returns an error that names the key if one of these keys has another type.
local function type_error(queue, places)
    for _, key in ipairs({ queue, places }) do
        local score = redis.pcall('zscore', key, '')
        if type(score) == 'table' and string.find(score.err or '', 'WRONGTYPE', 1, true) then
            local what = 'a value that is not a sorted set in the key "' .. key .. '"'
            return redis.error_reply('WRONGTYPE condition: ' .. what)
        end
    end
end

-- Keeps both keys for at least this time. Always writes, and Redis without memory allows that.
local function keep(queue, places, millis)
    for _, key in ipairs({ queue, places }) do
        redis.call('pexpire', key, math.max(redis.call('pttl', key), tonumber(millis)))
    end
end

-- Removes the waiters whose places have ended. Returns how many of them were notified.
local function sweep(queue, places, now)
    local unused = 0
    for _, waiter in ipairs(redis.call('zrangebyscore', places, '-inf', now, 'limit', 0, 1000)) do
        redis.call('zrem', places, waiter)
        unused = unused + 1 - redis.call('zrem', queue, waiter)
    end
    return unused
end

-- Notifies the first waiters, at most this many. Returns them.
local function notify(queue, places, count)
    local notified = {}
    while #notified < count do
        local first = redis.call('zrange', queue, 0, 0)[1]
        if not first then
            break
        end
        redis.call('zrem', queue, first)
        if redis.call('zscore', places, first) then
            notified[#notified + 1] = first
        end
    end
    return notified
end

-- Tells each client, by one message, the numbers of its waiters that need not wait any more.
local function tell(waiters, channel, publish)
    local numbers = {}
    for _, waiter in ipairs(waiters) do
        local client, number = string.match(waiter, '^(.*):(%d+)$')
        numbers[client] = (numbers[client] and numbers[client] .. ' ' or '') .. number
    end
    for client, text in pairs(numbers) do
        -- pcall: without a message, a waiter learns it from the next renewal of its place.
        redis.pcall(publish, channel .. ':' .. client, text)
    end
end
