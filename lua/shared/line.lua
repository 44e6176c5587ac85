-- The line of a lock: the clients of this library that wait for it, in their order.
--
-- A sorted set of places. A place is the channel on which its client listens. Its score is the time
-- at which the client entered the line, in microseconds; for a reader, half a microsecond more.
-- When the lock becomes free, the first places are called, and then the lock is reserved for them
-- for a moment: for one, or in a later round for more (reserved.lua). The empty member is the mark
-- of the call: the time of the call, as a negative score, so it is before all places. It is removed
-- when one of those that were called has answered.
--
-- A place that begins with ~ is that of a client that may not subscribe. It gets no message, and
-- asks often enough to notice that the lock is reserved for it.
--
-- pcall: the line decides about the order of clients only. If Redis refuses its key, the clients
-- wait without a line, and all listen to the channel for releases.
--
-- All messages: src/protocol/message.rs.

-- require "line_of"
-- require "reserved"

-- What the score of a reader has after the decimal point. Others have a whole number.
local READER = 0.5

-- Returns the first place; when it was called, if it has not answered; and true if it is that of a
-- reader. Nothing if there is no line.
local function first_in(line)
    local found = redis.pcall('zrange', line, 0, 1, 'withscores')
    local at, called = 1, nil
    if found[1] == '' then
        at, called = 3, -found[2]
    end
    return found[at], called, found[at] and found[at + 1] % 1 == READER
end

-- True if this is one of the places that were called at this time. The mark is before them.
local function is_among_called(line, place, called)
    local rank = place ~= '' and redis.pcall('zrank', line, place)
    return type(rank) == 'number' and rank <= called_together(called)
end

-- Sends the call to a client. Returns how many listen: 0 if it is dead; an error if the user may
-- not publish there.
local function publish_call(lock, place, publish)
    -- What the line of a semaphore has besides places has no listener.
    if string.find(place, '^[! ]') then
        return 0
    end
    return string.find(place, '^~') and 1 or redis.pcall(publish, place, 'called ' .. lock)
end

-- Calls the first client that listens, and removes those before it. If those that were called have
-- not answered in their time, removes them, and calls twice as many. True if a client is called.
-- With `only_reader`, calls no client that is no reader.
local function call_next(lock, publish, only_reader)
    local line = line_of(lock)
    local _, called = first_in(line)
    local round = 0
    if called and time_left(called) == 0 then
        -- With the mark. Those that entered the line after the call were not called.
        local silent = {}
        local first = redis.call('zrange', line, 0, called_together(called), 'withscores')
        for at = 1, #first, 2 do
            if tonumber(first[at + 1]) <= called then
                silent[#silent + 1] = first[at]
            end
        end
        if type(redis.pcall('zrem', line, unpack(silent))) == 'table' then
            return false
        end
        round, called = next_round(called), nil
    end
    local heard = 0
    for _ = 1, REMOVED do
        -- The mark is there only while the time of its call is not over.
        local at = heard + (called and 1 or 0)
        local found = redis.pcall('zrange', line, at, at, 'withscores')
        local place = found[1]
        if not place or (only_reader and found[2] % 1 ~= READER) then
            break
        end
        local listeners = publish_call(lock, place, publish)
        if type(listeners) == 'table' then
            break
        elseif listeners > 0 then
            heard = heard + 1
            if heard == called_together(called or round) then
                break
            end
        elseif type(redis.pcall('zrem', line, place)) == 'table' then
            return false
        end
    end
    if heard > 0 and not called then
        redis.pcall('zadd', line, -time_of_call(round), '')
    elseif heard == 0 and called and not only_reader then
        redis.pcall('zrem', line, '')
    end
    return heard > 0
end

-- The lock is free. Returns for how many milliseconds it is reserved for clients other than that
-- with this place; 0 if this one may take it. If no client is called, or those that were have not
-- answered in time, calls the next ones.
local function reserved_for(lock, place, publish)
    local line = line_of(lock)
    local first, called = first_in(line)
    if not first or first == place then
        return 0
    end
    if not called or time_left(called) == 0 then
        if not call_next(lock, publish) then
            return 0
        end
        first, called = first_in(line)
    end
    if first == place or not called or is_among_called(line, place, called) then
        return 0
    end
    return math.ceil(time_left(called) / 1000)
end

-- The place of the same client that may subscribe, or may not.
local function other_form(place)
    return string.match(place, '^~(.*)') or '~' .. place
end

-- Takes away the other place of the same client, whose subscription was refused or is back. Returns
-- true if the user may do all that a client does in a line; and the score of that place.
local function take_other_form(line, place)
    local other = other_form(place)
    local score = redis.pcall('zscore', line, other)
    local removed, found = redis.pcall('zrem', line, other), redis.pcall('zrange', line, 0, 0)
    local is_usable = type(removed) == 'number' and type(score) ~= 'table' and not found.err
    return is_usable, tonumber(score or nil)
end

-- Adds a place behind all others, also if a replica whose clock is behind has become the master. A
-- microsecond later than the last one, so that none passes another when its role changes. Returns
-- its rank; nil if that is refused.
local function add_place(line, place, score)
    local entered = redis.call('zrange', line, -1, -1, 'withscores')[2] or 0
    score = math.max(score, math.floor(entered) + 1 + score % 1)
    return redis.pcall('zadd', line, score, place) == 1 and redis.call('zrank', line, place) or nil
end

-- The client waits: gives it a place, if it has none. `role` is READER, 0, or nil for a lock
-- without readers. Returns how many places are before its own; nil if there is no line.
local function enter_line(lock, place, role)
    local line = line_of(lock)
    local rank = redis.pcall('zrank', line, place)
    if role and type(rank) == 'number' then
        -- An earlier wait of the client may have left a place of the other role.
        local entered = redis.pcall('zrange', line, rank, rank, 'withscores')[2]
        if entered and entered % 1 ~= role then
            redis.pcall('zadd', line, math.floor(entered) + role, place)
        end
    elseif not rank then
        local is_usable, score = take_other_form(line, place)
        if score then
            redis.pcall('zadd', line, score, place)
            rank = redis.pcall('zrank', line, place)
        elseif is_usable then
            rank = add_place(line, place, now_micros() + (role or 0))
        end
    end
    if type(rank) ~= 'number' then
        return nil
    end
    redis.call('pexpire', line, KEPT)
    -- As many as are called in the last round.
    if rank <= 2 ^ LAST_ROUND then
        local mark = redis.pcall('zscore', line, '')
        if type(mark) == 'string' then
            local is_near = rank <= called_together(-mark)
            if is_near and tonumber(redis.call('zscore', line, place)) <= -mark then
                -- It was called, and has answered.
                redis.pcall('zrem', line, '')
            end
            return rank - 1
        end
    end
    return rank
end

-- The client does not wait any more. True if it had the first place, or was called.
local function leave_line(lock, place)
    local line = line_of(lock)
    local first, called = first_in(line)
    local is_first = first == place or called and is_among_called(line, place, called)
    if is_first then
        redis.pcall('zrem', line, place, '')
    else
        redis.pcall('zrem', line, place)
    end
    return is_first
end
