-- The line of a semaphore (line.lua). A call reserves permits for the client: as many as it needs.
-- Clients are called in their order, as soon as enough permits are free that are not reserved. So
-- as many clients are called as permits came free, and none is overtaken by one behind it.
--
-- | member       | score                                                                |
-- |--------------|----------------------------------------------------------------------|
-- | a place      | when the client entered the line; after the call, less CALLED        |
-- | empty        | the mark: since when the first client has not answered, negative     |
-- | ' ' .. place | how many permits the client needs, if it needs more than one         |
-- | '!' .. place | 1: this client listens to the channel for releases                   |
--
-- Clients of Redisson call no other client. One client in the line listens to their releases, and
-- asks: then the script calls those that can have the permits. When it leaves the line, the last
-- client is called, which learns from the reply that it listens from then on. So nearly all clients
-- need no subscription. The messages of scripts that have called the line have a sign, and do not
-- wake the client.

-- require "line"

-- Scores of places that were not called are larger than ENTERED. Those of the others are negative,
-- and larger than that of the mark.
local CALLED, ENTERED = 2500000000000000, 1000000000000000

-- The largest number of clients that are called and have not answered. It bounds the time of a
-- script.
local MOST_CALLED = 64

local function needed_by(line, place)
    return tonumber(redis.call('zscore', line, ' ' .. place) or 1)
end

-- The first client that was called has answered, or has lost its place.
local function renew_mark(line)
    local called = redis.call('zrangebyscore', line, '-inf', '(0', 'limit', 0, 2)
    if called[2] then
        redis.call('zadd', line, -now_micros(), '')
    else
        redis.call('zrem', line, '')
    end
end

-- Removes a place.
local function remove_place(lock, place, publish)
    local line = line_of(lock)
    local first, called = first_in(line)
    redis.call('zrem', line, place, ' ' .. place)
    if called and first == place then
        renew_mark(line)
    end
    if redis.call('zrem', line, '!' .. place) == 0 then
        return
    end
    for _ = 1, REMOVED do
        local last = redis.call('zrange', line, -1, -1, 'withscores')
        if not last[1] or tonumber(last[2]) < ENTERED then
            return
        elseif redis.call(publish, last[1], 'called ' .. lock) > 0 then
            redis.call('zadd', line, 1, '!' .. last[1])
            return
        end
        redis.call('zrem', line, last[1], ' ' .. last[1])
    end
end

-- Calls clients before this place, for which permits are free. Returns how many permits are left
-- when all of them have been called; else nil.
local function call_before(lock, place, free, publish)
    local line = line_of(lock)
    local first, called = first_in(line)
    if called and first ~= place and time_left(called) == 0 then
        remove_place(lock, first, publish)
    end
    local left, count = free, 0
    for _, other in ipairs(redis.call('zrangebyscore', line, '-inf', '(0')) do
        if other ~= '' then
            left, count = left - needed_by(line, other), count + 1
        end
    end
    for _ = 1, REMOVED do
        local found =
            redis.call('zrangebyscore', line, ENTERED, '+inf', 'withscores', 'limit', 0, 1)
        local next = found[1]
        if not next or next == place then
            return left
        end
        local needed = needed_by(line, next)
        if left < needed or count == MOST_CALLED then
            return nil
        end
        if redis.call(publish, next, 'called ' .. lock) == 0 then
            remove_place(lock, next, publish)
        else
            redis.call('zadd', line, found[2] - CALLED, next)
            left, count = left - needed, count + 1
            if count == 1 then
                redis.call('zadd', line, -now_micros(), '')
            end
        end
    end
    return nil
end

-- Runs a function, and returns its results. Returns nil if Redis refuses a command: the user may not
-- use all of the line, or a cluster is moving the slot, and the line is at the other server.
local function try_line(change, ...)
    local is_done, first, second = pcall(change, ...)
    if is_done then
        return first, second
    end
    return nil
end

-- 1 if clients wait, 0 if none does; else the line cannot be used.
local function has_line(lock)
    return redis.pcall('exists', line_of(lock))
end

-- True if a client may take this number of the free permits. Calls the clients before it. A client
-- without a place is behind all others.
local function may_take(lock, place, needed, free, publish)
    if free < needed or has_line(lock) ~= 1 then
        return free >= needed
    end
    return try_line(function()
        local score = place ~= '' and redis.call('zscore', line_of(lock), place)
        if score and tonumber(score) < 0 then
            return true
        end
        local left = call_before(lock, place, free, publish)
        return left ~= nil and left >= needed
    end) ~= false
end

-- The client has taken permits, or gives up: removes its place. Calls the next clients if permits
-- are free.
local function leave_permits(lock, place, free, publish)
    if has_line(lock) == 1 then
        try_line(function()
            if place ~= '' then
                remove_place(lock, place, publish)
            end
            if free > 0 then
                call_before(lock, '', free, publish)
            end
        end)
    end
end

-- The client waits: it keeps its place, or enters the line. Returns how many places are before its
-- own, and 1 if it listens to the channel for releases, else 0; nil if it can have no place.
local function await_permits(lock, place, needed, free, publish)
    if type(has_line(lock)) == 'table' then
        return nil
    end
    local line = line_of(lock)
    return try_line(function()
        local score = redis.call('zscore', line, place)
        local first, called = first_in(line)
        local listener = redis.call('zrangebyscore', line, 1, 1)[1]
        if score and listener and listener ~= '!' .. place then
            -- It is not its first request. The client that listens may be dead.
            local other = string.sub(listener, 2)
            if redis.call(publish, other, '') == 0 then
                redis.call('zrem', line, listener)
                remove_place(lock, other, publish)
                listener = nil
            end
        end
        score = tonumber(score or now_micros())
        if score < 0 then
            -- A client that is not in the line has taken the permits.
            score = score + CALLED
        end
        redis.call('zrem', line, ' ' .. place)
        redis.call('zadd', line, score, place)
        if needed > 1 then
            redis.call('zadd', line, needed, ' ' .. place)
        end
        if not listener then
            redis.call('zadd', line, 1, '!' .. place)
        end
        redis.call('pexpire', line, KEPT)
        if called and first == place then
            renew_mark(line)
        end
        call_before(lock, place, free, publish)
        local before = redis.call('zcount', line, ENTERED, string.format('(%.0f', score))
            + redis.call('zcount', line, -CALLED / 2, '(0')
        return before, redis.call('zscore', line, '!' .. place) and 1 or 0
    end)
end

-- Permits are free. Calls the clients that can have them, and notifies those that listen to the
-- channel. Returns how many listen, and whether clients wait in the line. Redisson reads the message
-- as a number. It has a sign if clients in the line have been called, so they need not listen.
local function notify_free(lock, channel, free, publish)
    local waiting = has_line(lock) == 1 and try_line(function()
        call_before(lock, '', free, publish)
        return has_line(lock) == 1
    end)
    -- pcall: the permits are free even if the user lacks permission to publish.
    local heard = redis.pcall(publish, channel, string.format(waiting and '%+.0f' or '%.0f', free))
    return tonumber(heard) or 0, waiting
end
