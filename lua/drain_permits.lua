-- Takes all free permits of a semaphore. If their number is negative, it becomes zero.
--
-- KEYS[1]  the semaphore: the number of free permits
-- KEYS[2]  the records of this client: a hash of lane to request number and reply
-- ARGV[1]  the lane
-- ARGV[2]  the number of the request
-- ARGV[3]  1: an earlier copy of the request is lost; else 0
-- reply    how many were free. An error, without any change, if a key has another type or form

-- require "once"

local done, free = begin(KEYS[1], KEYS[2], ARGV[1], ARGV[2])
if done then
    return done
end
if not free or free == 0 then
    return unchanged(KEYS[2], ARGV[1], ARGV[2], 0, ARGV[3])
end
return once(KEYS[2], ARGV[1], ARGV[2], free, 'incrby', KEYS[1], -free)
