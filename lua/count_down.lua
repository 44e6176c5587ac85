-- Decreases the count of a latch by one. At zero, deletes it and notifies the waiting clients.
--
-- KEYS[1]  the latch: its count
-- KEYS[2]  the records of this client: a hash of lane to request number and reply
-- ARGV[1]  the lane
-- ARGV[2]  the number of the request
-- ARGV[3]  1: an earlier copy of the request is lost; else 0
-- ARGV[4]  the channel of the latch
-- ARGV[5]  the command that publishes: publish or spublish
-- reply    the count then. An error, without any change, if a key has another type or form

-- require "once"

local done, count = begin(KEYS[1], KEYS[2], ARGV[1], ARGV[2])
if done then
    return done
end
if not count then
    return unchanged(KEYS[2], ARGV[1], ARGV[2], 0, ARGV[3])
elseif count > 1 then
    return once(KEYS[2], ARGV[1], ARGV[2], count - 1, 'incrby', KEYS[1], -1)
end
local reply = once(KEYS[2], ARGV[1], ARGV[2], 0, 'del', KEYS[1])
if reply == 0 and count == 1 then
    -- pcall: the latch is open even if the user lacks permission to publish.
    redis.pcall(ARGV[5], ARGV[4], '0')
end
return reply
