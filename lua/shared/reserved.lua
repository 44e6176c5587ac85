-- Times and bounds of all lines (line.lua, permit_line.lua).

-- For how long a free lock is reserved for the client that was called, in microseconds. A client
-- that has not answered by then loses its place.
local RESERVED = 500000

-- For how long the line is kept after the last request of a waiting client, in milliseconds. Each
-- of them sends a request at least every 30 s.
local KEPT = 90000

-- The largest number of places that a call of a client removes. It bounds the time of a script.
local REMOVED = 1000

local function now_micros()
    local now = redis.call('time')
    return now[1] * 1000000 + now[2]
end

-- How much is left of the time in which a client that was called has to answer, in microseconds; 0
-- if it is over, or if the clock was set back.
local function time_left(called)
    local age = now_micros() - called
    return age < 0 and 0 or math.max(RESERVED - age, 0)
end
