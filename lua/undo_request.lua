-- Undoes a request that took permits of a semaphore, if it was executed. From then on no copy of
-- the request changes the number.
--
-- KEYS[1]  the semaphore or the latch: a number
-- KEYS[2]  the records of this client: a hash of lane to request number and reply
-- ARGV[1]  the lane of the request to undo
-- ARGV[2]  its number
-- ARGV[3]  1: gives the permits back; 0: a request that was executed stays so
-- ARGV[4]  the channel of the semaphore
-- ARGV[5]  the command that publishes: publish or spublish
-- reply    the reply of the request, so the number of permits that are given back; 0: it was not
--          executed. An error, without any change, if a key has another type or form

-- require "once"
-- require "permit_line"

local key = KEYS[1]
local taken = recorded()
if not taken then
    return once(0)
elseif type(taken) == 'table' or taken == 0 or ARGV[3] == '0' then
    return taken
end
local free, failure = number_of(key)
if failure then
    return failure
end
local reply = once(0, 'incrby', key, taken)
if reply ~= 0 then
    return reply
end
notify_free(key, ARGV[4], (free or 0) + taken, ARGV[5])
return taken
