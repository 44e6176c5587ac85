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

-- require "line_of"
-- require "reserved"

-- Scores of places that were not called are at least ENTERED. Those of the others are negative, and
-- larger than that of the mark.
local CALLED, ENTERED = 2500000000000000, '1000000000000000'

-- The largest number of clients that are called and have not answered. It bounds the time of a
-- script.
local MOST_CALLED = 64

-- Runs a function, and returns its results. Returns nil if Redis refuses a command: the user may not
-- use all of the line, or a cluster is moving the slot, and the line is at the other server.
local function try_line(change, ...)
    local is_done, first, second = pcall(change, ...)
    if is_done then
        return first, second
    end
    return nil
end

-- What is before the places that were not called; nil if the line cannot be used. Each step keeps
-- this table up to date. Redis takes much longer for a score than for a member, so the scripts read
-- few scores.
local function head_of(lock)
    local head = { line = line_of(lock), called = {} }
    local members = redis.pcall(
        'zrangebyscore', head.line, '-inf', '(' .. ENTERED, 'limit', 0, MOST_CALLED + 3
    )
    if members.err then
        return nil
    end
    for _, member in ipairs(members) do
        local sign = string.sub(member, 1, 1)
        if sign == ' ' then
            head.has_needs = true
        elseif sign == '!' then
            head.listener = string.sub(member, 2)
        elseif sign ~= '' then
            table.insert(head.called, member)
        end
    end
    return head
end

local function needed_by(head, place)
    return head.has_needs and tonumber(redis.call('zscore', head.line, ' ' .. place) or nil) or 1
end

-- The score of the mark, if the first client that was called has to answer from now on.
local function score_of_mark()
    return string.format('-%.0f', now_micros())
end

-- Where a place is among those that were called.
local function at_in_called(head, place)
    for at, called in ipairs(head.called) do
        if called == place then
            return at
        end
    end
end

-- The client with this one of the called places waits again, or does not wait any more. If it was
-- the first, its mark has been removed.
local function end_call(head, at)
    table.remove(head.called, at)
    if at == 1 and head.called[1] then
        redis.call('zadd', head.line, score_of_mark(), '')
    end
end

-- Removes a place. If its client listened to the channel, the last client in the line does from now
-- on.
local function remove_place(lock, head, place, publish)
    local at = at_in_called(head, place)
    local with_mark = at == 1 and '' or place
    redis.call('zrem', head.line, place, ' ' .. place, '!' .. place, with_mark)
    if at then
        end_call(head, at)
    end
    if head.listener ~= place then
        return
    end
    head.listener = nil
    for _ = 1, REMOVED do
        local last, score = unpack(redis.call('zrange', head.line, -1, -1, 'withscores'))
        if not last or tonumber(score) < tonumber(ENTERED) then
            return
        elseif redis.call(publish, last, 'called ' .. lock) > 0 then
            redis.call('zadd', head.line, 1, '!' .. last)
            head.listener = last
            return
        end
        redis.call('zrem', head.line, last, ' ' .. last)
    end
end

-- Calls clients before this place, for which permits are free. Returns how many permits are left
-- when all of them have been called; else nil.
local function call_before(lock, head, place, free, publish)
    local first, left = head.called[1], free
    if first and first ~= place then
        local since = redis.call('zscore', head.line, '')
        if since and time_left(-since) == 0 then
            remove_place(lock, head, first, publish)
        end
    end
    for _, called in ipairs(head.called) do
        left = left - needed_by(head, called)
    end
    for _ = 1, REMOVED do
        if left <= 0 then
            return nil
        end
        local next, score = unpack(
            redis.call('zrangebyscore', head.line, ENTERED, '+inf', 'withscores', 'limit', 0, 1)
        )
        if not next or next == place then
            return left
        end
        local needed = needed_by(head, next)
        if left < needed or #head.called == MOST_CALLED then
            return nil
        end
        if redis.call(publish, next, 'called ' .. lock) == 0 then
            remove_place(lock, head, next, publish)
        else
            score = string.format('%.0f', score - CALLED)
            if head.called[1] then
                redis.call('zadd', head.line, score, next)
            else
                redis.call('zadd', head.line, score, next, score_of_mark(), '')
            end
            table.insert(head.called, next)
            left = left - needed
        end
    end
    return nil
end

-- True if a client may take this number of the free permits. Calls the clients before it. A client
-- without a place is behind all others.
local function may_take(lock, head, place, needed, free, publish)
    if free < needed or not head or at_in_called(head, place) then
        return free >= needed
    end
    return try_line(function()
        return (call_before(lock, head, place, free, publish) or 0) >= needed
    end) ~= false
end

-- The client has taken permits, or gives up: removes its place. Calls the next clients if permits
-- are free.
local function leave_permits(lock, head, place, free, publish)
    if head then
        try_line(function()
            if place ~= '' then
                remove_place(lock, head, place, publish)
            end
            if free > 0 then
                call_before(lock, head, '', free, publish)
            end
        end)
    end
end

-- The client waits: it keeps its place, or enters the line. Returns how many places are before its
-- own, and 1 if it listens to the channel for releases, else 0; nil if it can have no place.
local function await_permits(lock, head, place, needed, free, publish)
    if not head then
        return nil
    end
    return try_line(function()
        local line = head.line
        local at, other = at_in_called(head, place), head.listener
        local added = redis.call('zadd', line, 'nx', string.format('%.0f', now_micros()), place)
        if added == 0 and other and other ~= place and redis.call(publish, other, '') == 0 then
            -- It is not the first request of this client, and the client that listened is dead.
            head.listener = nil
            remove_place(lock, head, other, publish)
            at = at_in_called(head, place)
        end
        if at then
            -- A client that is not in the line has taken the permits.
            local score = redis.call('zscore', line, place) + CALLED
            redis.call('zadd', line, string.format('%.0f', score), place)
            if at == 1 then
                redis.call('zrem', line, '')
            end
            end_call(head, at)
        end
        if needed > 1 then
            redis.call('zadd', line, needed, ' ' .. place)
            head.has_needs = true
        elseif head.has_needs then
            redis.call('zrem', line, ' ' .. place)
        end
        if not head.listener then
            redis.call('zadd', line, 1, '!' .. place)
            head.listener = place
        end
        redis.call('pexpire', line, KEPT)
        call_before(lock, head, place, free, publish)
        -- What is before the place, without the listener, the mark, and what clients need. The place is
        -- gone if its client does not listen yet.
        local before = (redis.call('zrank', line, place) or 0) - 1 - (head.called[1] and 1 or 0)
        if head.has_needs then
            before = before - redis.call('zcount', line, 2, '(' .. ENTERED)
        end
        return math.max(before, 0), head.listener == place and 1 or 0
    end)
end

-- Permits are free. Calls the clients that can have them, and notifies those that listen to the
-- channel. Returns how many listen, and whether clients wait in the line. Redisson reads the message
-- as a number. It has a sign if clients in the line have been called, so they need not listen.
local function notify_free(lock, channel, free, publish)
    local head = head_of(lock)
    local waiting = head and try_line(function()
        call_before(lock, head, '', free, publish)
        return head.called[1] ~= nil or redis.call('exists', head.line) == 1
    end)
    -- pcall: the permits are free even if the user lacks permission to publish.
    local heard = redis.pcall(publish, channel, string.format(waiting and '%+.0f' or '%.0f', free))
    return tonumber(heard) or 0, waiting
end
