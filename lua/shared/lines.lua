-- The lines of several locks, for a client that waits for all of them. Its place has the same score
-- in each. So one of two such clients is before the other in all lines, and they do not wait for
-- each other.
--
-- A lock that becomes free is reserved for the client that is called, as in every line, but the
-- client cannot take it before the others are free. When the lock was reserved for as long as the
-- client had waited before, the client leaves that line, and other clients use the lock. Its next
-- request enters the line again, with the old score.

-- require "line"

-- For how long a lock is reserved at least, in microseconds.
local SHORTEST = 20000

-- How many of the lines exist; nothing if the user may not use them, or if a cluster is moving the
-- slot.
local function count_lines(locks)
    local lines = {}
    for i, lock in ipairs(locks) do
        lines[i] = line_of(lock)
    end
    local existing = redis.pcall('exists', unpack(lines))
    return type(existing) == 'number' and existing or nil
end

-- True if this place is one of those that were called, and when these were called; nothing if none
-- was.
local function is_called_in(line, place)
    local first, called = first_in(line)
    return called and (first == place or is_among_called(line, place, called)), called
end

-- Enters the lines of the locks that are not free, after a request that was refused because of one
-- of them. Returns after how many milliseconds the client asks again, at most `left`, and how many
-- places are before its own in the line of that lock; nil if there is no line.
local function enter_lines(locks, refused, place, publish, left)
    local score
    for _, lock in ipairs(locks) do
        local line = line_of(lock)
        local known, rank = redis.pcall('zscore', line, place), redis.pcall('zrank', line, place)
        if type(known) == 'table' or type(rank) == 'table' then
            return left
        end
        local is_usable, other = take_other_form(line, place)
        if not is_usable then
            return left
        end
        known = tonumber(known or nil) or other
        score = known and math.min(score or known, known) or score
    end
    if not score then
        score = now_micros()
        for _, lock in ipairs(locks) do
            -- The clock of a replica that has become the master may be behind.
            local last = redis.call('zrange', line_of(lock), -1, -1, 'withscores')[2]
            score = math.max(score, math.floor(last or 0) + 1)
        end
    end
    local is_refused, over = false, {}
    for i, lock in ipairs(locks) do
        local line = line_of(lock)
        local is_held = redis.call('exists', lock) == 1
        local is_called, called = is_called_in(line, place)
        if is_held or called and not is_called then
            if type(redis.pcall('zadd', line, score, place)) == 'table' then
                return left
            end
            redis.call('pexpire', line, KEPT)
            is_called, called = is_called_in(line, place)
        end
        if is_held and is_called then
            redis.call('zrem', line, '')
        elseif is_called then
            local lasts = math.min(math.max(called - score, SHORTEST), RESERVED)
            local rest = math.ceil((time_left(called) + lasts - RESERVED) / 1000)
            if rest <= 0 then
                -- The client waits in the line of the lock that is refused.
                over[#over + 1] = i ~= refused and lock or nil
            elseif left < 0 or rest < left then
                left = rest
            end
        end
        is_refused = is_refused or is_held or called and not is_called
    end
    if not is_refused then
        -- Another client was before this one until now.
        return 0, 0
    end
    for _, lock in ipairs(over) do
        leave_line(lock, place)
        call_next(lock, publish)
    end
    local line = line_of(locks[refused])
    local rank = redis.call('zrank', line, place)
    local _, called = first_in(line)
    return left, rank and called and rank - 1 or rank
end
