-- Times and bounds of all lines (line.lua, permit_line.lua).

-- For how long a free lock is reserved for the clients that were called, in microseconds. A client
-- that has not answered by then loses its place.
local RESERVED = 500000

-- For how long the line is kept after the last request or look of a waiting client, in
-- milliseconds. The watchdog of each of them looks at least every 30 s (line_look.lua).
local KEPT = 90000

-- The largest number of places that a call of a client removes. It bounds the time of a script.
local REMOVED = 1000

-- The largest round: 2^5 clients are called together.
local LAST_ROUND = 5

local function now_micros()
    local now = redis.call('time')
    return now[1] * 1000000 + now[2]
end

-- The time of a call, and in its last six bits the round: how many calls before it had no answer.
-- In a round, 2^round clients are called.
local function time_of_call(round)
    local now = now_micros()
    return now - now % 64 + round
end

-- How much is left of the time in which a client that was called has to answer, in microseconds; 0
-- if it is over, or if the clock was set back.
local function time_left(called)
    local age = now_micros() - called
    -- The round makes the time of a call up to 63 microseconds later or earlier.
    return age < -64 and 0 or math.min(math.max(RESERVED - age, 0), RESERVED)
end

-- How many clients are called in the round of the calls of this time.
local function called_together(called)
    return 2 ^ math.min(called % 64, LAST_ROUND)
end

-- The round of the calls that follow those of this time, which had no answer.
local function next_round(called)
    return math.min(called % 64 + 1, LAST_ROUND)
end
