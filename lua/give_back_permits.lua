-- Undoes a request that took permits of a semaphore, if it was executed. From then on no copy of
-- that request takes any.
--
-- KEYS[1]  the semaphore: the number of free permits
-- KEYS[2]  the records of this client: a hash of lane to request number and reply
-- ARGV[1]  the lane of the request to undo
-- ARGV[2]  its number
-- ARGV[3]  the channel of the semaphore
-- ARGV[4]  the command that publishes: publish or spublish
-- reply    how many permits are free again. An error, without any change, if a key has another type
--          or form

-- require "once"
-- require "permit_line"

local taken = recorded(KEYS[2], ARGV[1], ARGV[2])
if type(taken) == 'table' or taken == 0 then
    return taken
elseif not taken then
    return once(KEYS[2], ARGV[1], ARGV[2], 0)
end
local free, failure = number_of(KEYS[1])
if failure then
    return failure
end
local reply = once(KEYS[2], ARGV[1], ARGV[2], 0, 'incrby', KEYS[1], taken)
if reply == 0 then
    notify_free(KEYS[1], ARGV[3], (free or 0) + taken, ARGV[4])
    return taken
end
return reply
