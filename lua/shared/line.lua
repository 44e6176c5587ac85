-- The line of a lock: the clients of this library that wait for it, in their order.
--
-- A sorted set of places. A place is the channel on which its client listens. Its score is the time
-- at which the client entered the line, in microseconds; for a reader, half a microsecond more. The
-- first place is called when the lock becomes free, and then the lock is reserved for it for a
-- moment. The empty member is the mark of the call: the time of the call, as a negative score, so it
-- is before all places. It is removed when the client has answered.
--
-- pcall: the line decides about the order of clients only. If Redis refuses its key, the clients
-- wait without a line, and all listen to the channel for releases.

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

-- For how many milliseconds the lock, which is free, is still reserved for another client; 0 if it
-- is not. Removes the place of a client that has not answered.
local function reserved_for(lock, place)
    local line = line_of(lock)
    local first, called = first_in(line)
    if not called or first == place then
        return 0
    end
    local left = time_left(called)
    if left == 0 then
        redis.pcall('zrem', line, first, '')
    end
    return math.ceil(left / 1000)
end

-- Calls the first client that listens, and removes those before it. True if there is one. With
-- `only_reader`, calls no client that is no reader.
local function call_first(lock, publish, only_reader)
    local line = line_of(lock)
    for _ = 1, REMOVED do
        local first, called, is_reader = first_in(line)
        if not first or (only_reader and not is_reader) then
            return false
        end
        local heard = 0
        -- What the line of a semaphore has besides places has no listener.
        local is_place = not string.find(first, '^[! ]')
        if is_place and (not called or time_left(called) > 0) then
            heard = redis.pcall(publish, first, 'called ' .. lock)
        end
        if type(heard) == 'table' then
            -- The user may not publish there.
            return false
        elseif heard > 0 then
            if not called then
                redis.pcall('zadd', line, -now_micros(), '')
            end
            return true
        end
        if type(redis.pcall('zrem', line, first, '')) == 'table' then
            return false
        end
    end
    return false
end

-- True if the user may do all that a client does in a line. The blank is no member.
local function may_use(line)
    local removed, found = redis.pcall('zrem', line, ' '), redis.pcall('zrange', line, 0, 0)
    return removed == 0 and not found.err
end

-- The client waits: gives it a place, if it has none. `role` is READER, 0, or nil for a lock without
-- readers. Returns how many places are before its own; nil if there is no line.
local function enter_line(lock, place, role)
    local line = line_of(lock)
    local rank = redis.pcall('zrank', line, place)
    if role and type(rank) == 'number' then
        -- An earlier wait of the client may have left a place of the other role.
        local entered = redis.pcall('zrange', line, rank, rank, 'withscores')[2]
        if entered and entered % 1 ~= role then
            redis.pcall('zadd', line, math.floor(entered) + role, place)
        end
    elseif not rank and may_use(line) then
        local added = redis.pcall('zadd', line, now_micros() + (role or 0), place)
        rank = added == 1 and redis.call('zrank', line, place)
    end
    if type(rank) ~= 'number' then
        return nil
    end
    redis.call('pexpire', line, KEPT)
    if rank <= 2 then
        local first, called = first_in(line)
        if called and first == place then
            redis.call('zrem', line, '')
        end
        return called and rank - 1 or rank
    end
    return rank
end

-- The client does not wait any more. True if it had the first place.
local function leave_line(lock, place)
    local line = line_of(lock)
    local is_first = first_in(line) == place
    if is_first then
        redis.pcall('zrem', line, place, '')
    else
        redis.pcall('zrem', line, place)
    end
    return is_first
end
