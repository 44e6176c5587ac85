-- The queue of a condition: who waits, and who was notified. Included in the scripts of conditions.
--
-- A waiter is `<client uuid>:<number>`. `queue` has those that are not notified, in their order.
-- `places` has all of them, with the time in milliseconds at which their place ends.
--
-- All messages: src/protocol/message.rs.

-- require "now_millis"

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

-- The reply to an owner that does not hold the lock, or the error about a key; nil if there is
-- none.
local function refusal_of(lock, owner, queue, places)
    if redis.call('hexists', lock, owner) == 0 then
        return redis.call('exists', lock) * -1
    end
    return type_error(queue, places)
end

-- Keeps both keys for at least this time. Always writes, and Redis without memory allows that.
local function keep(queue, places, millis)
    for _, key in ipairs({ queue, places }) do
        redis.call('pexpire', key, math.max(redis.call('pttl', key), tonumber(millis)))
    end
end

-- Removes the waiters whose places have ended. Notifies the first waiters of the queue: at most
-- this many, and one for each notification that a removed waiter had. With math.huge, notifies all,
-- and they have no places then. Returns how many are notified.
--
-- Tells each client, by one message, the numbers of its waiters that need not wait any more.
local function notify(queue, places, count, channel, publish)
    local over = redis.call('zrangebyscore', places, '-inf', now_millis(), 'limit', 0, 1000)
    for _, waiter in ipairs(over) do
        redis.call('zrem', places, waiter)
        count = count + 1 - redis.call('zrem', queue, waiter)
    end
    local notified, numbers = 0, {}
    while notified < count do
        local waiter = redis.call('zrange', queue, 0, 0)[1]
        if not waiter then
            break
        end
        redis.call('zrem', queue, waiter)
        if redis.call('zscore', places, waiter) then
            local client, number = string.match(waiter, '^(.*):(%d+)$')
            numbers[client] = (numbers[client] and numbers[client] .. ' ' or '') .. number
            notified = notified + 1
        end
        if count == math.huge then
            redis.call('zrem', places, waiter)
        end
    end
    for client, text in pairs(numbers) do
        -- pcall: without a message, a waiter learns it from the next renewal of its place.
        redis.pcall(publish, channel .. ':' .. client, text)
    end
    return notified
end
